"""Models that were converted for another program, in the user's cache."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from nmt.system.errors import DataError
from nmt.system.files import atomic_directory, read_json, sha256, write_json

Loaded = TypeVar("Loaded")
CACHE = "nmt-converted"
"""Folder of the user's cache. It may be deleted at any time."""
RECORD = "files.json"
"""File of a converted model: the SHA-256 of its other files."""


def key_of(*parts: str) -> str:
    """Return the name of a converted model, which depends on all parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def load_converted(key: str, convert: Callable[[Path], None], load: Callable[[Path], Loaded]) -> Loaded:
    """Load a converted model from the cache; convert it first if the cache does not have it, or a damaged one.

    Where the cache cannot be written, the model is converted into a temporary folder, which is deleted after loading.

    Args:
        key: the name of the model, see `key_of`.
        convert: writes the converted model into a folder.
        load: reads it; nothing is read from the folder later.
    """
    try:
        folder = _cache() / key
        if not _is_whole(folder):
            with atomic_directory(folder) as part:
                convert(part)
                write_json(part / RECORD, {file.name: sha256(file) for file in sorted(part.iterdir())})
        return load(folder)
    except (OSError, RuntimeError):  # a full or read-only disk, no home directory
        with tempfile.TemporaryDirectory() as temporary:
            convert(Path(temporary))
            return load(Path(temporary))


def _cache() -> Path:
    """Return the folder of all converted models, by the XDG base directory specification."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CACHE


def _is_whole(folder: Path) -> bool:
    """Whether a folder has a converted model with the files that were written."""
    with suppress(DataError, OSError):
        files = read_json(folder / RECORD)
        return bool(files) and all(sha256(folder / name) == expected for name, expected in files.items())
    return False
