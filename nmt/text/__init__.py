"""Text processing: cleaning, tokenisation, transliteration, subword vocabularies and counts."""
