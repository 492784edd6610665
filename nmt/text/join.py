"""Join the cleaned chunks of a split to its files, optionally without repeated pairs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nmt.system.chunks import blocks
from nmt.system.files import read_json
from nmt.system.workers import batched
from nmt.text.characters import length
from nmt.text.repeats import mark_repeats

SIDES = ("source", "target")
KEPT, DIGESTS, COUNTS = "kept", "digests", "counts.json"
"""Other files of a chunk: one byte per pair read (1 kept, 0 dropped), digests of the kept pairs, and counts."""
BLOCK = 2**13
"""Lines held in memory at a time."""


def join(
    chunks: Sequence[Path],
    outs: Sequence[Path],
    dropped: Path | None,
    unique: bool,
    spaceless: Sequence[bool] = (False, False),
) -> Counter[str]:
    """Join the chunks of a split to its files; return the sum of their counts.

    Args:
        chunks: folders of the chunks, in order.
        outs: files to write, source side first.
        dropped: file for the numbers of the dropped pairs, from 1; None if no pair can be dropped.
        unique: drop every pair that equals an earlier one.
        spaceless: for each side, whether its characters are counted instead of words.
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
        for side, out, characters in zip(SIDES, outs, spaceless, strict=True):
            counts[f"{side}_words"] -= _write([chunk / side for chunk in chunks], out, repeats, characters)
        if dropped:
            with dropped.open("w", encoding="ascii") as stream:
                numbers = _dropped_numbers([chunk / KEPT for chunk in chunks], repeats)
                stream.writelines(f"{number}\n" for number in numbers)
    return counts


def _write(parts: Sequence[Path], out: Path, repeats: Path | None, characters: bool) -> int:
    """Write one side; return the number of words, or characters, in the repeated lines, which are left out."""
    words = 0
    with ExitStack() as stack:
        stream = stack.enter_context(out.open("wb"))
        if repeats is None:
            stream.writelines(blocks(parts))
            return 0
        flags = stack.enter_context(repeats.open("rb"))
        for lines in _lines(parts):
            for line, repeated in zip(lines, flags.read(len(lines)), strict=True):
                if repeated:
                    words += length(line.decode().rstrip("\n"), characters)
                else:
                    stream.write(line)
    return words


def _dropped_numbers(parts: Sequence[Path], repeats: Path | None) -> Iterator[int]:
    """Yield the numbers of the dropped pairs, from 1, ascending."""
    before = 0
    with ExitStack() as stack:
        flags = stack.enter_context(repeats.open("rb")) if repeats else None
        for block in blocks(parts, BLOCK):
            kept = np.frombuffer(block, np.bool_).copy()
            if flags:
                kept[kept] = ~np.frombuffer(flags.read(int(kept.sum())), np.bool_)
            yield from (np.flatnonzero(~kept) + before + 1).tolist()
            before += len(block)


def _lines(parts: Sequence[Path]) -> Iterator[list[bytes]]:
    for part in parts:
        with part.open("rb") as stream:
            yield from batched(stream, BLOCK)
