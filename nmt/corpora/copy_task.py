"""The built-in corpus of the copy task: sequences of the numbers 1 to 10; source and target are the same."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.system.files import write_text

SEED = 1
LENGTHS, LONGER = range(4, 11), range(11, 17)
"""Length of a sequence: in most splits, and in ``test_longer``."""

SIZES = {"train": 10_000, "valid": 500, "test": 500, "test_longer": 500}
"""Pairs per split; all sequences differ."""


def splits() -> dict[str, list[str]]:
    """Return the sequences of each split, which are the same on every machine."""
    used: set[str] = set()
    return {
        split: list(islice(_new_sequences(LONGER if split == "test_longer" else LENGTHS, split, used), size))
        for split, size in SIZES.items()
    }


def _new_sequences(lengths: range, split: str, used: set[str]) -> Iterator[str]:
    rng = random.Random(f"copy {SEED} {split}")  # Python seeds with the SHA-512 of a string, not with its hash()
    while True:
        line = " ".join(str(rng.randint(1, 10)) for _ in range(rng.choice(lengths)))
        if line not in used:
            used.add(line)
            yield line


def write_corpus(folder: Path, languages: str, limit: int | None = None) -> None:
    """Write ``{split}.{language}`` for each split and side; both sides are the same.

    Args:
        folder: where to write; created if needed.
        languages: ``src-tgt``, ``tgt-src``, ``src`` or ``tgt``.
        limit: write only the first ``limit`` pairs of each split.
    """
    for split, lines in splits().items():
        for language in languages.split("-"):
            write_text(folder / f"{split}.{language}", "".join(f"{line}\n" for line in lines[:limit]))
