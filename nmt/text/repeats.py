"""Which of very many digests were there before, in little memory: they are sorted on disk, a bucket at a time."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from nmt.system.chunks import blocks

WIDTH = 16
"""Bytes of a digest: that two of 10^9 texts share one by chance has a probability of 10^-21."""
BUCKETS = 256
"""At most so many; more than their files could not be open at once."""
FULL = 2**16
"""Digests of a bucket, before there are `BUCKETS` of them."""
BLOCK = 2**16
"""Digests read at a time."""

_RECORD = np.dtype([("digest", "<u8", 2), ("position", "<u8")])


def mark_repeats(parts: Sequence[Path], out: Path) -> None:
    """Write a byte for each digest in some files, in order: 1 where an equal one comes before it, else 0."""
    total = sum(part.stat().st_size for part in parts) // WIDTH
    with TemporaryDirectory(dir=out.parent) as scratch, out.open("wb", buffering=0) as stream:
        stream.truncate(total)
        for bucket in _scatter(parts, Path(scratch), min(BUCKETS, total // FULL + 1)):
            for position in _repeated(np.fromfile(bucket, _RECORD)).tolist():
                stream.seek(position)
                stream.write(b"\1")


def _scatter(parts: Iterable[Path], folder: Path, count: int) -> list[Path]:
    """Put equal digests, with their positions, into one of ``count`` files."""
    buckets, seen = [folder / str(number) for number in range(count)], 0
    with ExitStack() as stack:
        streams = [stack.enter_context(bucket.open("wb", buffering=0)) for bucket in buckets]
        for block in blocks(parts, BLOCK * WIDTH):
            digests = np.frombuffer(block, "<u8").reshape(-1, 2)
            records = np.empty(len(digests), _RECORD)
            records["digest"], records["position"] = digests, np.arange(seen, seen + len(digests))
            chosen = digests[:, 0] % np.uint64(count)
            order = np.argsort(chosen, kind="stable")
            bounds = np.searchsorted(chosen[order], np.arange(1, count))
            for stream, some in zip(streams, np.split(records[order], bounds), strict=True):
                stream.write(some.tobytes())
            seen += len(digests)
    return buckets


def _repeated(records: NDArray[np.void]) -> NDArray[np.uint64]:
    """The positions of all digests but the first of its kind; positions ascend, and the sort is stable."""
    digests = records["digest"]
    order = np.lexsort((digests[:, 0], digests[:, 1]))
    same = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    return np.sort(records["position"][order[1:][same]])
