"""Sentences that training text shares with held-out text: found, counted, left out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from nmt.corpora.sources import key
from nmt.system.lines import count_lines, read_lines
from nmt.system.warnings import warn

Key = tuple[int, str]
"""A side (0: source) and the `key` of a sentence of that side."""


class HeldOut:
    """Held-out sentences of each side: those of test sets, later also of validation text."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()

    def add(self, lines: Iterable[tuple[str, ...]]) -> None:
        """Hold out the sentences of some lines."""
        for line in lines:
            self.keys.update(keys(line))

    def overlaps(self, line: tuple[str, ...]) -> bool:
        """Return whether any side of a line is held out; sentences are compared by `key`."""
        return any(key in self.keys for key in keys(line))


def keys(line: Iterable[str]) -> list[Key]:
    """Return the key of each side of a line."""
    return [(side, key(sentence)) for side, sentence in enumerate(line)]


def shared_pairs(folder: Path, split: str, others: Iterable[str], languages: Sequence[str]) -> dict[str, int]:
    """Count the pairs of other splits that share a sentence with a split.

    Args:
        folder: of raw text.
        split: the split that is read line by line, e.g. ``train``.
        others: splits that fit into memory.
        languages: codes of the sides.

    Returns:
        The number of such pairs by split, without splits that share nothing.
    """
    held_out = {other: [keys(line) for line in _lines(folder, other, languages)] for other in others}
    wanted = {key for lines in held_out.values() for line in lines for key in line if key[1].strip()}
    found = wanted.intersection(chain.from_iterable(map(keys, _lines(folder, split, languages)))) if wanted else wanted
    counts = {other: sum(not found.isdisjoint(line) for line in lines) for other, lines in held_out.items()}
    return {other: count for other, count in counts.items() if count}


def warn_of_overlap(name: str, folder: Path, files: Mapping[str, Path], languages: str) -> None:
    """Warn of each split of a user's corpus that shares sentences with its training or validation text.

    Args:
        name: of the user's corpus.
        folder: of its raw text.
        files: for each split the file of the user that the warning names.
        languages: source and target, e.g. ``en-de``; or one.
    """
    remedies = {
        "train": f"set corpora: {name}: disjoint: true, which leaves such pairs out of the training text",
        "valid": f"set corpora: {name}: disjoint: all, which leaves such pairs out of the validation text too",
    }
    for split in (split for split in remedies if split in files):
        others = [other for other in files if other not in ("train", split)]
        for other, count in shared_pairs(folder, split, others, languages.split("-")).items():
            total = count_lines(folder / f"{other}.{languages.split('-')[0]}")
            warn(
                "overlapping splits", files[other], count,
                f"{count:,} of {total:,} pairs of {other} share a sentence with {split}, apart from case, spaces and "
                "punctuation", remedies[split], split=other,
            )  # fmt: skip


def _lines(folder: Path, split: str, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(read_lines(folder / f"{split}.{language}") for language in languages), strict=True)
