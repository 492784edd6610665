"""Held-out pairs that nearly equal training text: counted for the user's own corpora, whatever the filters are."""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from nmt.corpora.near import NearIndex
from nmt.system.lines import read_lines
from nmt.system.workers import Map, batched
from nmt.text.filters.apply import BATCH, kept_pairs

SIMILARITY = 0.85
"""Least Jaccard similarity of sentences that are nearly equal."""
Pair = tuple[str, str]
Rows = set[tuple[int, int]]
"""Number of the split and of the line, from 0."""


def near_training_text(raw: Sequence[Path], dropped: Path, held_out: dict[str, list[Path]], run: Map) -> dict[str, int]:
    """Count the held-out pairs with a side that nearly equals the same side of a training pair.

    Args:
        raw: files of the raw training text, source first.
        dropped: list of the lines that cleaning dropped.
        held_out: files of the sides of each split.
        run: maps a function over batches, perhaps in several processes.

    Returns:
        The number of pairs by split; those that equal training text count too.
    """
    if not held_out:
        return {}
    files = tuple(map(tuple, held_out.values()))
    rows = set[tuple[int, int]]().union(*run(partial(_near, files), batched(kept_pairs(raw, dropped), BATCH)))
    return {split: sum(found == number for found, _ in rows) for number, split in enumerate(held_out)}


@lru_cache(1)
def _indices(files: tuple[tuple[Path, ...], ...]) -> list[list[tuple[list[int], NearIndex]]]:
    """The index of each side of each split, and the lines in it; made once in each process. Empty lines are in none."""
    indices = []
    for sides in files:
        texts = [list(read_lines(path)) for path in sides]
        lines = [[number for number, text in enumerate(side) if text.strip()] for side in texts]
        indices.append([
            (numbers, NearIndex([side[number] for number in numbers]))
            for side, numbers in zip(texts, lines, strict=True)
        ])  # fmt: skip
    return indices


def _near(files: tuple[tuple[Path, ...], ...], batch: list[Pair]) -> Rows:
    """Find the held-out lines that a batch of training pairs nearly equals."""
    rows = set[tuple[int, int]]()
    for split, sides in enumerate(_indices(files)):
        for side, (lines, index) in enumerate(sides):
            found = index.nearest([pair[side] for pair in batch], SIMILARITY)
            rows |= {(split, lines[int(number)]) for number in np.unique(found[found >= 0])}
    return rows
