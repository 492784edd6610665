"""Accuracy of ambiguous words: how often a translation has the sense that only the picture shows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.config.data import Cleaning
from nmt.system.errors import DataError
from nmt.system.files import Json
from nmt.system.lines import read_lines
from nmt.text.cleaner import Cleaner

SAMPLES, SEED = 1000, 12345
"""Number of bootstrap samples and seed: sacrebleu's defaults."""


def accuracy(hypotheses: Sequence[str], words: Path, language: str, recipe: Cleaning) -> Json:
    """Return the share of lines, 0 to 100, with the right sense of the ambiguous word and not the wrong one.

    Args:
        hypotheses: tokenised translations.
        words: tab-separated file; each row has an ambiguous word, its translation in the reference and the
            translation of its other sense.
        language: language of the translations.
        recipe: cleaning recipe of the translations.

    Returns:
        ``score``, ``low``, ``high`` and ``signature`` in the form of `nmt.scoring.score.score_lines`, and ``wrong``,
        the share of lines with the wrong sense and not the right one.

    Raises:
        DataError: the file does not have one row of three words per line.
    """
    clean = Cleaner(recipe, language)
    rows = [line.split("\t") for line in read_lines(words)]
    if len(rows) != len(hypotheses) or any(len(row) != 3 for row in rows):
        raise DataError(f"{words}: expected {len(hypotheses)} rows of three words, got {len(rows)} rows")
    senses = [
        (_contains(line, clean(right)), _contains(line, clean(wrong)))
        for line, (_, right, wrong) in zip(hypotheses, rows, strict=True)
    ]
    right, wrong = senses.count((True, False)), senses.count((False, True))
    return share(right, len(senses), "right sense of the ambiguous word") | {"wrong": 100 * wrong / len(senses)}


def share(hits: int, lines: int, name: str) -> Json:
    """Return a share of lines, 0 to 100, in the form of `nmt.scoring.score.score_lines`.

    Args:
        hits: number of lines that count.
        lines: number of all lines.
        name: start of the signature.
    """
    # The number of hits in a bootstrap sample has a binomial distribution.
    shares = np.random.default_rng(SEED).binomial(lines, hits / lines, SAMPLES) / lines
    low, high = (100 * float(np.quantile(shares, q)) for q in (0.025, 0.975))
    return {"score": 100 * hits / lines, "low": low, "high": high, "signature": f"{name}|bs:{SAMPLES}|seed:{SEED}"}


def _contains(line: str, words: str) -> bool:
    """Return whether a tokenised line contains a word or a sequence of words."""
    return f" {words} " in f" {line} "
