"""Subword counts for data tables."""

from collections.abc import Mapping
from pathlib import Path

from nmt.system.files import read_json
from nmt.system.lines import read_lines
from nmt.system.workers import batched
from nmt.text.subwords import SIDES, Vocabulary

CHUNK = 10_000
"""Lines encoded at a time."""


def subwords(encoded: Path, texts: Mapping[str, Path], languages: str) -> dict[str, dict[str, float]]:
    """Count the subwords of some splits by language.

    The counts of the training and validation splits come from the encode stage. If the training text was encoded
    several times (``segmentations``), its count is the mean.

    Args:
        encoded: folder of encoded text, which holds the subword models.
        texts: folder of the cleaned text of each split.
        languages: source and target, e.g. ``hi-en``.

    Returns:
        ``{split: {language: subwords}}``, without BOS, EOS and tags of languages.

    Raises:
        DataError: a file is missing or damaged.
    """
    meta = read_json(encoded / "meta.json")
    encoded_splits, rounds = meta["splits"], {"train": meta["subwords"]["subwords"].get("segmentations", 1)}
    counts: dict[str, dict[str, float]] = {}
    for side, language in zip(SIDES, languages.split("-"), strict=True):
        vocabulary = Vocabulary(encoded / f"{side}.model")
        for split, folder in texts.items():
            known = encoded_splits.get(split, {})
            known = known.get("pairs", {}).get(languages, known)
            if f"{side}_pieces" in known:
                tags = known["sentences"] if side == "source" and vocabulary.tags else 0
                count = known[f"{side}_pieces"] - tags
            else:
                count = _count(folder / f"{split}.{language}", vocabulary)
            counts.setdefault(split, {})[language] = count / rounds.get(split, 1)
    return counts


def _count(path: Path, vocabulary: Vocabulary) -> int:
    return sum(len(row) for chunk in batched(read_lines(path), CHUNK) for row in vocabulary.encode(chunk))
