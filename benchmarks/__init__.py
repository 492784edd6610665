"""How fast the project is, beside others; `python -m benchmarks` runs all of it."""
