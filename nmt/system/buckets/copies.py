"""Where Snakemake's local copies of files in a bucket lie."""

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from nmt.system.errors import ConfigError

VARIABLE = "NMT_BUCKET"
"""Environment variable: the bucket, with a folder in it or without."""


def link_copies(copies: Path, results: Path) -> None:
    """Make Snakemake put local copies where results lie without a bucket: its folder becomes a link to them.

    So stages also find the files that no rule names, such as the state of a training.

    Args:
        copies: the folder of the copies of a bucket; in it, a file has its path in the bucket.
        results: the results folder, relative to the working directory.

    Raises:
        ConfigError: the results folder is elsewhere, or the folder of copies holds those of an earlier run.
    """
    if results.is_absolute() or ".." in results.parts:
        raise ConfigError(f"results: expected a folder below {Path.cwd()} where results are in a bucket, got {results}")
    link = copies / results
    if link.is_dir() and not link.is_symlink():
        raise ConfigError(f"{link}: expected a link to {results}, got a folder; delete it, the bucket has its files")
    results.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(results.absolute())


def check_environment(others: Iterable[str] = ()) -> None:
    """Check the variable `VARIABLE`, and that the plugin is installed.

    Args:
        others: further variables that must be set.

    Raises:
        ConfigError: something is missing.
    """
    for name in others:
        if not os.environ.get(name):
            raise ConfigError(f"{name}: expected a value, got none; set this variable")
    value = os.environ.get(VARIABLE, "")
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]*[a-z0-9](/[\w./-]+)?/?", value):
        raise ConfigError(f"{VARIABLE}: expected s3://BUCKET or s3://BUCKET/FOLDER, got '{value}'; set this variable")
    if find_spec("snakemake_storage_plugin_s3") is None:
        raise ConfigError("profiles/s3 needs snakemake-storage-plugin-s3, got none; python3 envs/install.py run s3")
