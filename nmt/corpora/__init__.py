"""Corpora: the catalogue, how each source is read, and the built-in ones."""
