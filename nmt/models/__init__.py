"""Translation models: parts (embedding, attention, layers, loss) and the architectures made of them."""
