"""Training data: encoded text, batches and image features."""
