"""Parallel text in the formats that people pass on: packed files, tables, translation memories, test sets of WMT."""
