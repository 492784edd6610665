"""Trainings that start from a trained model, and parts of a model that keep their first values."""
