"""What differs between machines: the build of PyTorch, and what each system supports."""
