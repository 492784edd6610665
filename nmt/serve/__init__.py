"""`nmt serve`: a local web page with translations and attention, and the small JSON interface behind it."""
