"""Marian models in the format of Hugging Face (``MarianMTModel``), as OPUS-MT publishes them: import and export."""
