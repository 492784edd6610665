"""Translation models: building blocks (embedding, attention, layers, loss), architectures and search."""
