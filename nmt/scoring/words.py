"""Ambiguous words: how often a translation has the sense that only the picture tells."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config.data import Cleaning
from nmt.system.errors import DataError
from nmt.system.files import read_lines
from nmt.text.clean import Cleaner

SAMPLES, SEED = 1000, 12345
"""Of a bootstrap: sacrebleu's own defaults."""


def accuracy(hypotheses: Sequence[str], words: Path, language: str, recipe: Cleaning) -> dict[str, Any]:
    """Share of lines with the right sense of their ambiguous word and not the wrong one, 0 to 100.

    Args:
        hypotheses: tokenised.
        words: a tab-separated file: for each line the ambiguous word, its translation in the reference, and that of
            its other sense.
        language: of the translations.
        recipe: how they were cleaned.

    Returns:
        ``score``, ``low``, ``high`` and ``signature`` as `nmt.scoring.score.score_lines` gives them, and ``wrong``, the
        share of lines with the wrong sense and not the right one.

    Raises:
        DataError: the file has not a row of three words for each line.
    """
    clean = Cleaner(recipe, language)
    rows = [line.split("\t") for line in read_lines(words)]
    if len(rows) != len(hypotheses) or any(len(row) != 3 for row in rows):
        raise DataError(f"{words}: expected {len(hypotheses)} rows of three words, got {len(rows)} rows")
    found = [
        (_holds(line, clean(right)), _holds(line, clean(wrong)))
        for line, (_, right, wrong) in zip(hypotheses, rows, strict=True)
    ]
    right, wrong = (sum(pair == wanted for pair in found) for wanted in ((True, False), (False, True)))
    return share(right, len(found), "right sense of the ambiguous word") | {"wrong": 100 * wrong / len(found)}


def share(hits: int, lines: int, name: str) -> dict[str, Any]:
    """A share of lines, 0 to 100, as `nmt.scoring.score.score_lines` gives scores: ``name`` begins its signature."""
    # A bootstrap sample of so many lines holds a binomial number of hits.
    drawn = np.random.default_rng(SEED).binomial(lines, hits / lines, SAMPLES) / lines
    low, high = (100 * float(np.quantile(drawn, q)) for q in (0.025, 0.975))
    return {"score": 100 * hits / lines, "low": low, "high": high, "signature": f"{name}|bs:{SAMPLES}|seed:{SEED}"}


def _holds(line: str, words: str) -> bool:
    """Whether a tokenised line has a word, or several in a row."""
    return f" {words} " in f" {line} "
