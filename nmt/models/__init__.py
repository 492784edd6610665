"""Translation models: parts (embedding, attention, layers, loss), the architectures made of them, and search."""
