"""Text before it becomes numbers: cleaning, tokenisation and counts."""
