"""Training: loop, optimiser, validation, checkpoints."""
