"""Near-equal texts by MinHash: signatures of trigrams, and bands that near-equal texts share.

Each of `ROUNDS` hash functions spreads the trigrams of a text over bins, which keep their smallest hash; an empty bin
takes that of the next full one (one permutation hashing: Li, Owen and Zhang 2012; Shrivastava and Li 2014). datasketch
takes one text at a time, and its index is in memory; `nmt.text.filters.duplicates` sorts bands on disk.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.sources import key

ROUNDS, BANDS = 8, 16
"""Hash functions, and bins of each. A band has one bin of each function, so two texts of similarity s share a band with
probability about 1 - (1 - s^8)^16: 0.99 for 0.85, 0.95 for 0.8, 0.06 for 0.5."""
BINS = ROUNDS * BANDS
GRAM = 3
"""Letters of a shingle."""
EMPTY = np.uint32(2**32 - 1)
SEEDS = np.arange(1, ROUNDS + 1, dtype=np.uint32) * np.uint32(0x9E3779B1)

Signatures = NDArray[np.uint8]
"""The lowest byte of each bin (N, BINS), enough to estimate a similarity."""
Bands = NDArray[np.uint64]
"""A hash of each band (N, BANDS)."""


def sketch(texts: Sequence[Sequence[str]]) -> tuple[Signatures, Bands]:
    """Return signatures and bands of texts, in which case, spaces and punctuation do not count.

    Args:
        texts: the sides of each text; an equal trigram on another side is another one.
    """
    hashes, owners = _shingles([[key(side) for side in sides] for sides in texts])
    minima = np.stack([_minima(_mixed(hashes ^ seed), owners, len(texts)) for seed in SEEDS], axis=1)
    return minima.reshape(-1, BINS).astype(np.uint8), _bands(minima)


def similarity(first: Signatures, second: Signatures) -> NDArray[np.float64]:
    """Estimate the Jaccard similarity of texts (N,) from their signatures (N, BINS); bytes can be equal by chance."""
    equal = (first == second).mean(axis=-1)
    return np.asarray(np.clip((equal - 1 / 256) / (255 / 256), 0, 1))


class NearIndex:
    """Finds texts that nearly equal one of some texts in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._signatures, bands = sketch([[text] for text in texts])
        self._orders = np.argsort(bands, axis=0, kind="stable")
        self._sorted = np.take_along_axis(bands, self._orders, axis=0)

    def holds(self, texts: Sequence[str], least: float) -> NDArray[np.bool_]:
        """Return for each text whether one of the index is at least so similar."""
        return self.nearest(texts, least) >= 0

    def nearest(self, texts: Sequence[str], least: float) -> NDArray[np.int64]:
        """Return for each text the number of one of the index that is at least so similar, or -1."""
        signatures, bands = sketch([[text] for text in texts])
        found = np.full(len(texts), -1, np.int64)
        if not len(self._signatures):
            return found
        for band in range(BANDS):
            column, places = self._sorted[:, band], np.searchsorted(self._sorted[:, band], bands[:, band])
            places = np.minimum(places, len(column) - 1)
            rows = np.flatnonzero((column[places] == bands[:, band]) & (found < 0))
            others = self._orders[places[rows], band]
            near = similarity(signatures[rows], self._signatures[others]) >= least
            found[rows[near]] = others[near]
        return found


def _shingles(texts: Sequence[Sequence[str]]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the hashed trigrams of all texts (G,), and the number of each one's text (G,)."""
    padded = [side.ljust(GRAM) for sides in texts for side in sides]
    codes = np.frombuffer("".join(padded).encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = np.array([len(side) for side in padded], np.int64)
    numbers = np.array([number for sides in texts for number in range(len(sides))], np.uint32)
    owners = np.repeat(np.arange(len(texts)), np.array([len(sides) for sides in texts], np.int64))
    grams = _mixed(codes + np.repeat(numbers, sizes) * np.uint32(0x9E3779B1))
    for distance in range(1, GRAM):
        grams[:-distance] = _mixed(grams[:-distance] * np.uint32(31) + codes[distance:])
    ends = np.cumsum(sizes)
    inside = np.ones(len(codes), np.bool_)
    for distance in range(1, GRAM):
        inside[ends - distance] = False  # a trigram there would reach into the next side
    return grams[inside], np.repeat(owners, sizes)[inside]


def _minima(hashes: NDArray[np.uint32], owners: NDArray[np.int64], count: int) -> NDArray[np.uint32]:
    """Return the smallest hash in each bin of each text (N, BANDS)."""
    bins = np.full(count * BANDS, EMPTY)
    np.minimum.at(bins, owners * BANDS + hashes % BANDS, hashes)
    twice = np.tile(bins.reshape(-1, BANDS), 2)
    places = np.where(twice == EMPTY, 2 * BANDS, np.arange(2 * BANDS))
    following = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1][:, :BANDS]
    return np.take_along_axis(twice, following, axis=1) + (following - np.arange(BANDS)).astype(np.uint32)


def _mixed(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix the bits of numbers (the finaliser of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def _bands(minima: NDArray[np.uint32]) -> Bands:
    """Hash the bins of each band; the minima are (N, ROUNDS, BANDS)."""
    hashed = np.zeros((len(minima), BANDS), np.uint64)
    for column in range(ROUNDS):
        hashed = (hashed ^ minima[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
    return hashed
