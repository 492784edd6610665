"""Evaluation: scores with sacrebleu and METEOR, and significance tests between systems."""
