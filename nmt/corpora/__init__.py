"""Corpora: the catalogue, the reading of sources, and the built-in corpora."""
