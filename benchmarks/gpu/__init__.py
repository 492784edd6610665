"""Speed on a GPU: `python -m benchmarks.gpu` measures search and training, `benchmarks.gpu.comparison` a plain loop."""
