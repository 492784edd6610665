"""What the workflow builds: checked settings, the paths of all files, and the commands that make them."""
