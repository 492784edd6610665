"""Configuration of parallel text: where it comes from, and what is filtered from it."""
