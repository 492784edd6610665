"""Whether files have changed, by their content and not by their dates."""

from collections.abc import Iterable
from pathlib import Path

from nmt.system.errors import DataError
from nmt.system.files import digest, read_json, sha256, write_json

OWN_FILES = Path(".snakemake", "own-files.json")
"""Checksums of the user's own files, from one run of the workflow to the next."""


def fingerprint(files: Iterable[str | Path], known: Path) -> str:
    """Return a digest of the content of files.

    A file is read again only when its size, times or inode have changed. They change also if the new file keeps the
    date of its original, as with ``cp -p``, ``rsync -a`` and ``unzip``.

    Args:
        files: in an order that counts; a missing file counts as empty.
        known: JSON file that keeps the checksums for the next call.
    """
    try:
        earlier = read_json(known)
    except DataError:
        earlier = {}
    states = {str(file): _state(Path(file)) for file in files}
    changed = [file for file, state in states.items() if earlier.get(file, [None])[0] != state]
    sums = {file: [states[file], sha256(Path(file)) if states[file] else ""] for file in changed}
    if sums:
        write_json(known, dict(earlier) | sums)
    return digest([(dict(earlier) | sums)[file][1] for file in states])


def _state(file: Path) -> list[int]:
    if not file.is_file():
        return []
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
