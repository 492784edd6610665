"""Find repeated digests among very many of them in little memory, by sorting one bucket on disk at a time."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from nmt.system.chunks import blocks

WIDTH = 16
"""Bytes per digest: among 10^9 texts, the probability of a collision is about 10^-21."""
BUCKETS = 256
"""Maximum number of buckets; all their files are open at once."""
FULL = 2**16
"""Digests per bucket, while fewer than `BUCKETS` buckets suffice."""
BLOCK = 2**16
"""Digests read at a time."""

_RECORD = np.dtype([("digest", "<u8", 2), ("position", "<u8")])


def mark_repeats(parts: Sequence[Path], out: Path) -> None:
    """Write one byte per digest, in order: 1 if an equal digest comes before it, else 0.

    Args:
        parts: files of digests, `WIDTH` bytes each.
        out: file to write.
    """
    total = sum(part.stat().st_size for part in parts) // WIDTH
    with TemporaryDirectory(dir=out.parent) as scratch, out.open("wb", buffering=0) as stream:
        stream.truncate(total)
        for bucket in _scatter(parts, Path(scratch), min(BUCKETS, total // FULL + 1)):
            for position in _repeated(np.fromfile(bucket, _RECORD)).tolist():
                stream.seek(position)
                stream.write(b"\1")


def _scatter(parts: Iterable[Path], folder: Path, count: int) -> list[Path]:
    """Distribute digests and their positions over ``count`` files; equal digests go to the same file."""
    buckets, total = [folder / str(number) for number in range(count)], 0
    with ExitStack() as stack:
        streams = [stack.enter_context(bucket.open("wb", buffering=0)) for bucket in buckets]
        for block in blocks(parts, BLOCK * WIDTH):
            digests = np.frombuffer(block, "<u8").reshape(-1, 2)
            records = np.empty(len(digests), _RECORD)
            records["digest"], records["position"] = digests, np.arange(total, total + len(digests))
            chosen = digests[:, 0] % np.uint64(count)
            order = np.argsort(chosen, kind="stable")
            bounds = np.searchsorted(chosen[order], np.arange(1, count))
            for stream, rows in zip(streams, np.split(records[order], bounds), strict=True):
                stream.write(rows.tobytes())
            total += len(digests)
    return buckets


def _repeated(records: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return the sorted positions of all digests that equal an earlier one.

    The records must be in ascending order of position; the stable sort then keeps the first of equal digests first.
    """
    digests = records["digest"]
    order = np.lexsort((digests[:, 0], digests[:, 1]))
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    return np.sort(records["position"][order[1:][same]])
