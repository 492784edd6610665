"""Sampling of training text from several groups of sentences: pairs of languages, or corpora."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.system.arrays import Indices
from nmt.system.errors import DataError

Shares = NDArray[np.float64]
"""The probability of each group; their sum is 1."""


def tempered(counts: Sequence[int], temperature: float) -> Shares:
    """Return shares proportional to n^(1/T) for n sentences (Arivazhagan and others 2019); 0 without any."""
    sizes = np.array(counts, np.float64)
    weights = np.where(sizes > 0, (sizes / sizes.max()) ** (1 / temperature), 0)
    return np.asarray(weights / weights.sum())


def weighted(groups: Mapping[str, Indices], weights: Mapping[str, float]) -> Shares:
    """Return shares proportional to the weights of ``training.mixing``, in the order of the groups.

    Raises:
        DataError: a group has no sentence, or too small a weight for a single one in an epoch.
    """
    shares = np.array([weights[name] for name in groups], np.float64)
    shares /= shares.sum()
    counts = [len(group) for group in groups.values()]
    for name, count, quota in zip(groups, counts, quotas(shares, sum(counts)), strict=True):
        if not count or not quota:
            why = "no sentence of it fits the model" if not count else "an epoch would have no sentence of it"
            remedy = "leave it out of the corpus" if not count else "raise it"
            raise DataError(f"training.mixing.{name}: got the weight {weights[name]:g}, but {why}; {remedy}")
    return shares


def quotas(shares: Shares, sentences: int) -> list[int]:
    """Return how many sentences of each group an epoch of so many sentences has.

    Each is the expected number, rounded down or up; those with the largest remainders are rounded up.
    """
    expected = shares * sentences
    rounded = np.floor(expected).astype(np.int64)
    missing = sentences - int(rounded.sum())
    rounded[np.argsort(rounded - expected, kind="stable")[:missing]] += 1
    return [int(quota) for quota in rounded]


def draw(groups: Sequence[Indices], shares: Shares, random: np.random.Generator) -> Indices:
    """Draw the sentences of an epoch, all together as many as there are.

    A group that has fewer sentences than its quota gives each of them as often as it can, and the rest at random,
    without repetition; so the sentences of a group are used evenly.

    Args:
        groups: indices of the sentences of each group.
        shares: of each group.
        random: it alone decides what is drawn.
    """
    drawn = []
    for group, quota in zip(groups, quotas(shares, sum(map(len, groups))), strict=True):
        times, rest = divmod(quota, len(group)) if len(group) else (0, 0)
        drawn += [np.tile(group, times), random.permutation(group)[:rest]]
    return np.concatenate(drawn)


def by_name(indices: Indices, parts: list[tuple[str, int]], rounds: int = 1) -> dict[str, Indices]:
    """Divide indices among the named parts of a text; parts of one name are one group.

    Args:
        indices: of sentences, in ascending order.
        parts: name and number of sentences of each part, in order.
        rounds: how often the text is there, one round after the other.
    """
    ends = np.cumsum([count for _, count in parts] * rounds).astype(indices.dtype)  # else NumPy would copy the indices
    slices = np.split(indices, np.searchsorted(indices, ends[:-1]))
    groups = dict[str, list[Indices]]()
    for (name, _), part in zip(parts * rounds, slices, strict=True):
        groups.setdefault(name, []).append(part)
    return {name: found[0] if len(found) == 1 else np.concatenate(found) for name, found in groups.items()}
