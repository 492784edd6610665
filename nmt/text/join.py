"""The cleaned chunks of a split joined to its files, without repeated pairs where the recipe says so."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nmt.system.chunks import blocks
from nmt.system.files import read_json
from nmt.text.repeats import mark_repeats

SIDES = ("source", "target")
KEPT, DIGESTS, COUNTS = "kept", "digests", "counts.json"
"""A chunk's other files: a byte for each pair read, 1 or, where it is dropped, 0; digests of the pairs kept; counts."""
BLOCK = 2**13
"""Lines in memory at a time."""


def join(chunks: Sequence[Path], outs: Sequence[Path], dropped: Path | None, unique: bool) -> Counter[str]:
    """Join the chunks of a split; returns their counts.

    Args:
        chunks: their folders, in order.
        outs: the files of both sides to write.
        dropped: file to write the numbers of the pairs to that are left out, from 1; None where none can be.
        unique: leave out pairs that equal one before.
    """
    counts: Counter[str] = Counter()
    for chunk in chunks:
        counts.update(read_json(chunk / COUNTS))
    with TemporaryDirectory(dir=outs[0].parent) as scratch:
        repeats = Path(scratch) / "repeats" if unique else None
        if repeats:
            mark_repeats([chunk / DIGESTS for chunk in chunks], repeats)
            counts["duplicate"] = sum(block.count(1) for block in blocks([repeats]))
            counts["kept"] -= counts["duplicate"]
        for side, out in zip(SIDES, outs, strict=True):
            counts[f"{side}_words"] -= _write([chunk / side for chunk in chunks], out, repeats)
        if dropped:
            with dropped.open("w", encoding="ascii") as stream:
                stream.writelines(f"{number}\n" for number in _left_out([chunk / KEPT for chunk in chunks], repeats))
    return counts


def _write(parts: Sequence[Path], out: Path, repeats: Path | None) -> int:
    """Write one side; returns the words left out."""
    words = 0
    with ExitStack() as stack:
        stream = stack.enter_context(out.open("wb"))
        if repeats is None:
            stream.writelines(blocks(parts))
            return 0
        again = stack.enter_context(repeats.open("rb"))
        for lines in _lines(parts):
            for line, repeated in zip(lines, again.read(len(lines)), strict=True):
                if repeated:
                    words += line.count(b" ") + 1
                else:
                    stream.write(line)
    return words


def _left_out(parts: Sequence[Path], repeats: Path | None) -> Iterator[int]:
    """The numbers of the pairs left out, ascending."""
    before = 0
    with ExitStack() as stack:
        again = stack.enter_context(repeats.open("rb")) if repeats else None
        for block in blocks(parts, BLOCK):
            kept = np.frombuffer(block, np.bool_).copy()
            if again:
                kept[kept] = ~np.frombuffer(again.read(int(kept.sum())), np.bool_)
            yield from (np.flatnonzero(~kept) + before + 1).tolist()
            before += len(block)


def _lines(parts: Sequence[Path]) -> Iterator[list[bytes]]:
    for part in parts:
        with part.open("rb") as stream:
            while lines := list(islice(stream, BLOCK)):
                yield lines
