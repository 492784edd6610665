"""`nmt serve`: a local web page and a small JSON interface where people see translation models work."""
