"""``python -m nmt``: the command line."""

from nmt.cli.main import main

main()
