"""The built-in corpus of the copy task: sequences of the numbers 1 to 10, whose translation is themselves."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.system.files import write_text

"""A pair has two sides, and numbers are of no language."""

SEED = 1
LENGTHS, LONGER = range(4, 11), range(11, 17)
"""Numbers a sequence: of all splits, and of ``test_longer``."""

SIZES = {"train": 10_000, "valid": 500, "test": 500, "test_longer": 500}
"""Pairs a split, no sequence twice."""


def splits() -> dict[str, list[str]]:
    """The sequences of each split; the same ones on every machine."""
    taken: set[str] = set()
    return {
        split: list(islice(_unseen(LONGER if split == "test_longer" else LENGTHS, split, taken), size))
        for split, size in SIZES.items()
    }


def _unseen(lengths: range, split: str, taken: set[str]) -> Iterator[str]:
    numbers = random.Random(f"copy {SEED} {split}")  # a text seeds by its SHA-512, not by Python's hash
    while True:
        line = " ".join(str(numbers.randint(1, 10)) for _ in range(numbers.choice(lengths)))
        if line not in taken:
            taken.add(line)
            yield line


def write_corpus(folder: Path, languages: str, limit: int | None = None) -> None:
    """Write ``{split}.{language}`` for each split and side: both sides are the same.

    Args:
        folder: where to write; made if it is not there.
        languages: ``src-tgt``, or the other way round; or one of them.
        limit: write only the first so many pairs of each split.
    """
    for split, lines in splits().items():
        for language in languages.split("-"):
            write_text(folder / f"{split}.{language}", "".join(f"{line}\n" for line in lines[:limit]))
