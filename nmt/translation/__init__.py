"""Use a trained model: translate text and files, export the model, augment training text."""
