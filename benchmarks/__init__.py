"""Benchmarks of this project and of other toolkits; `python -m benchmarks` runs them."""
