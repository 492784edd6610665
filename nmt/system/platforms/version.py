"""Which code this is: the version of the package, and the commit."""

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

COMMIT = Path(__file__).with_name("commit.txt")
"""The commit of a wheel or a source archive; setup.py writes it. A checkout asks git instead."""


@cache
def code_version() -> str:
    """Return the commit of this code, with ``+changes`` if a checkout was edited; if unknown, the package's version."""
    return commit() or metadata.version("nmt")


def commit() -> str | None:
    """Return the commit, or None if neither git nor the package knows it.

    A package that is installed within the checkout of another project is not asked for that project's commit.
    """
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return COMMIT.read_text(encoding="utf-8").strip() if COMMIT.exists() else None
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def long_version() -> str:
    """Return version and commit in words: ``nmt 0.2.0, commit 830398ad6477``."""
    known = commit()
    return f"nmt {metadata.version('nmt')}, " + (f"commit {known}" if known else "commit unknown")
