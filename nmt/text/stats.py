"""Counts for data tables."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from nmt.system.files import read_json, read_lines
from nmt.text.subwords import SIDES, Vocabulary

CHUNK = 10_000
"""Lines encoded at a time."""


def subwords(encoded: Path, texts: Mapping[str, Path], languages: str) -> dict[str, dict[str, float]]:
    """Subwords of some splits, a language each; training and validation as counted when they were encoded.

    Of training text that is encoded several times, the mean of these times.

    Args:
        encoded: folder of encoded text, which holds the subword models.
        texts: the folder of cleaned text that holds each split.
        languages: source and target, e.g. ``hi-en``.

    Returns:
        ``{split: {language: subwords}}``, without BOS and EOS.

    Raises:
        DataError: a file is missing or damaged.
    """
    meta = read_json(encoded / "meta.json")
    counted, times = meta["splits"], {"train": meta["subwords"]["subwords"].get("segmentations", 1)}
    found: dict[str, dict[str, float]] = {}
    for side, language in zip(SIDES, languages.split("-"), strict=True):
        vocabulary = Vocabulary(encoded / f"{side}.model")
        for split, folder in texts.items():
            known = counted.get(split, {}).get(f"{side}_pieces")
            count = _count(folder / f"{split}.{language}", vocabulary) if known is None else known
            found.setdefault(split, {})[language] = count / times.get(split, 1)
    return found


def _count(path: Path, vocabulary: Vocabulary) -> int:
    lines, count = read_lines(path), 0
    while chunk := list(islice(lines, CHUNK)):
        count += sum(map(len, vocabulary.encode(chunk)))
    return count
