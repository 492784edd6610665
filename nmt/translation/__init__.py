"""A trained model at work: translate text and files, export, augment training text."""
