"""What the models of the settings allow at a key path."""
