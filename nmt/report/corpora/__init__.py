"""What a table says of its corpora: counts, filters, subwords."""
