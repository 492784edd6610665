"""Temperature sampling over the pairs of languages of a training text (Arivazhagan and others 2019)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.system.indices import Indices


def probabilities(counts: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """Return the probability of each pair, proportional to n^(1/T) for n sentences; 0 for a pair without any."""
    sizes = np.array(counts, np.float64)
    weights = np.where(sizes > 0, (sizes / sizes.max()) ** (1 / temperature), 0)
    return np.asarray(weights / weights.sum())


def quotas(counts: Sequence[int], temperature: float) -> list[int]:
    """Return how many sentences of each pair an epoch has; all together as many as there are.

    Each is the expected number, rounded down or up; those with the largest remainders are rounded up.
    """
    expected = probabilities(counts, temperature) * sum(counts)
    rounded = np.floor(expected).astype(np.int64)
    missing = sum(counts) - int(rounded.sum())
    rounded[np.argsort(rounded - expected, kind="stable")[:missing]] += 1
    return [int(quota) for quota in rounded]


def draw(groups: Sequence[Indices], temperature: float, random: np.random.Generator) -> Indices:
    """Draw the sentences of an epoch.

    A pair that has fewer sentences than its quota gives each of them as often as it can, and the rest at random,
    without repetition; so the sentences of a pair are used evenly.

    Args:
        groups: indices of the sentences of each pair.
        temperature: of the sampling, 1 or more.
        random: it alone decides what is drawn.
    """
    drawn = []
    for group, quota in zip(groups, quotas([len(group) for group in groups], temperature), strict=True):
        times, rest = divmod(quota, len(group)) if len(group) else (0, 0)
        drawn += [np.tile(group, times), random.permutation(group)[:rest]]
    return np.concatenate(drawn)
