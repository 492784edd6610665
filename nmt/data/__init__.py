"""What training reads: encoded text, batches and image features."""
