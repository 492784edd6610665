"""Counts for data tables."""

import re
from pathlib import Path

from nmt.errors import DataError
from nmt.files import read_lines


def statistics(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Sentences and average words of every split and language in a raw or clean folder.

    Returns:
        ``{split: {language: {"sentences": n, "words": average words a sentence}}}``, sorted by name.

    Raises:
        DataError: the folder holds no ``{split}.{language}`` file, or one is not UTF-8.
    """
    table: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted(folder.glob("*.*")):
        if re.fullmatch(r"\.[a-z]{2,3}", path.suffix) and path.is_file():
            table.setdefault(path.stem, {})[path.suffix[1:]] = _count(path)
    if not table:
        raise DataError(f"{folder}: no text named split.language there, e.g. train.en; run nmt download first")
    return table


def _count(path: Path) -> dict[str, float]:
    sentences = words = 0
    for line in read_lines(path):
        sentences += 1
        words += len(line.split())
    return {"sentences": sentences, "words": words / max(sentences, 1)}
