"""``python -m nmt``: the command line."""

from nmt.cli import main

main()
