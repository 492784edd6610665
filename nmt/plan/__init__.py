"""What the workflow builds: checked settings and the paths of all files."""
