"""Filters of training pairs, which run after the limits of cleaning."""
