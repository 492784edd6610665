"""Sentence-level chrF and BLEU of each text of a list against every other, for minimum Bayes risk decoding.

The scores equal sacrebleu's, which a test checks. Translation does not depend on sacrebleu.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
ORDER = {"chrf": 6, "bleu": 4}
"""Length of the longest n-grams, by metric: of characters for chrF, of words for BLEU."""
BETA = 2  # chrF: weight of recall


def mean_utilities(texts: Sequence[str], metric: str) -> list[float]:
    """Return the mean score of each text against all texts, itself included, from 0 to 100.

    Args:
        texts: tokenised sentences; they may repeat.
        metric: ``chrf`` (Popović 2015, without white space) or ``bleu`` (words separated by spaces, exponential
            smoothing, effective order).
    """
    counts = Counter(texts)
    frequency = np.array(list(counts.values())) / len(texts)
    means = dict(zip(counts, utilities(list(counts), metric) @ frequency, strict=True))
    return [float(means[text]) for text in texts]


def utilities(texts: Sequence[str], metric: str) -> Matrix:
    """Return the score of each text (row) against each text as its reference (column), from 0 to 100."""
    units: list[Sequence[str]] = [text.split() if metric == "bleu" else "".join(text.split()) for text in texts]
    orders = [_overlaps(units, n) for n in range(1, ORDER[metric] + 1)]
    matches, sizes = np.stack([overlap for overlap, _ in orders]), np.stack([size for _, size in orders])
    return _bleu(matches, sizes) if metric == "bleu" else _chrf(matches, sizes)


def _overlaps(units: Sequence[Sequence[str]], n: int) -> tuple[Matrix, Matrix]:
    """Count the n-grams that each pair of N texts shares (N, N), and the n-grams of each text (N,)."""
    columns: dict[tuple[str, ...], int] = {}
    bags = [Counter(zip(*(text[i:] for i in range(n)), strict=False)) for text in units]
    for bag in bags:
        for ngram in bag:
            columns.setdefault(ngram, len(columns))
    table = np.zeros((len(units), len(columns)))
    for row, bag in zip(table, bags, strict=True):
        row[[columns[ngram] for ngram in bag]] = list(bag.values())
    return np.stack([np.minimum(row, table).sum(1) for row in table]), table.sum(1)


def _chrf(matches: Matrix, sizes: Matrix) -> Matrix:
    """Compute chrF (N, N) from shared n-grams (6, N, N) and n-grams (6, N); only orders that both texts have count."""
    both = (sizes[:, :, None] > 0) & (sizes[:, None] > 0)
    orders = np.maximum(both.sum(0), 1)
    precision = (matches / np.maximum(sizes[:, :, None], 1)).sum(0, where=both) / orders
    recall = (matches / np.maximum(sizes[:, None], 1)).sum(0, where=both) / orders
    weighted = BETA**2 * precision + recall
    scores: Matrix = 100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return scores


def _bleu(matches: Matrix, sizes: Matrix) -> Matrix:
    """Compute BLEU (N, N) from shared n-grams (4, N, N) and n-grams (4, N) of texts and references."""
    totals = np.broadcast_to(sizes[:, :, None], matches.shape)
    zeros = np.cumsum((matches == 0) & (totals > 0), 0)  # the first order without a match counts as 1/2, the next 1/4
    precision = np.where(matches > 0, matches, 0.5**zeros) / np.maximum(totals, 1)
    orders = (totals > 0).sum(0)  # an order of which the text has no n-gram does not count
    logs = np.log(precision).sum(0, where=totals > 0) / np.maximum(orders, 1)
    brevity = np.minimum(0, 1 - sizes[0][None] / np.maximum(sizes[0][:, None], 1))
    return np.where(matches.any(0), 100 * np.exp(logs + brevity), 0.0)
