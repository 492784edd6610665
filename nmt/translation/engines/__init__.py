"""Search by other programs than PyTorch."""
