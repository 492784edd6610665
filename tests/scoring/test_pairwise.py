"""Utilities of minimum Bayes risk decoding against sacrebleu."""

import random

import pytest
from sacrebleu.metrics import BLEU, CHRF

from nmt.scoring.pairwise import mean_utilities, utilities


def texts() -> list[str]:
    numbers = random.Random(1)
    words = ["a", "dog", "runs", "über", "das", "Gras", "."]
    drawn = [" ".join(numbers.choices(words, k=numbers.randint(1, 9))) for _ in range(12)]
    return [*drawn, drawn[0], "", "x", "a dog", "dog a"]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_utilities_are_those_of_sacrebleu(metric: str) -> None:
    scorer = CHRF() if metric == "chrf" else BLEU(tokenize="none", effective_order=True)
    found = utilities(texts(), metric)
    for row, text in zip(found, texts(), strict=True):
        expected = [scorer.sentence_score(text, [reference]).score for reference in texts()]
        assert row.tolist() == pytest.approx(expected, abs=1e-9)


def test_a_mean_counts_repeated_texts_as_often_as_they_occur() -> None:
    rows = utilities(texts(), "chrf")
    assert mean_utilities(texts(), "chrf") == pytest.approx(rows.mean(1).tolist())
