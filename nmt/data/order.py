"""The order of an epoch: sentences sorted by length, and cut into batches, with few bytes for each sentence."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from nmt.system.indices import Indices

BLOCK = 2**16
"""Sentences at a time; only arrays of so many have eight bytes for each."""


class Batches(Sequence[Indices]):
    """Batches of an order, each made when it is asked for.

    Args:
        order: indices of the sentences (N,).
        ends: for each batch, the place in the order after its last sentence.
    """

    def __init__(self, order: Indices, ends: Indices) -> None:
        self._order, self._ends = order, ends
        self._starts: Indices = np.concatenate([[0], ends[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, number: int) -> Indices: ...
    @overload
    def __getitem__(self, number: slice) -> list[Indices]: ...
    def __getitem__(self, number: int | slice) -> Indices | list[Indices]:
        if isinstance(number, slice):
            return [self[i] for i in range(len(self))[number]]
        return self._order[self._starts[number] : self._ends[number]].astype(np.int64)

    def shuffle(self, random: np.random.Generator) -> None:
        """Shuffle the batches in place."""
        order = random.permutation(len(self))
        self._starts, self._ends = self._starts[order], self._ends[order]


def sort_by(keys: Indices, order: Indices) -> Indices:
    """Sort indices by their keys; those of equal keys keep their order.

    It counts each key and then deals the indices out to their places, block by block. An index takes as many bytes as
    in the given order, where `numpy.lexsort` takes sixteen and more.

    Args:
        keys: of each sentence, numbers from 0.
        order: indices of sentences (N,).
    """
    top, result = int(keys.max(initial=0)) + 1, np.empty_like(order)
    counts = sum((np.bincount(keys[block], minlength=top) for block in _blocks(order)), np.zeros(top, np.int64))
    places = np.cumsum(counts) - counts  # of the next index with each key
    for block in _blocks(order):
        own = keys[block]
        by_key = np.argsort(own, kind="stable")
        own, counts = own[by_key], np.bincount(own, minlength=top)
        first = np.cumsum(counts) - counts
        result[(places - first)[own] + np.arange(len(own))] = block[by_key]
        places += counts
    return result


def cut(order: Indices, lengths: Indices, limit: int, unit: str) -> Batches:
    """Split an order into batches of ``limit`` sentences, or of at most ``limit`` tokens with padding.

    Args:
        order: indices of the sentences (N,), at least one.
        lengths: their lengths (N,).
        limit: maximum size of a batch; a longer sentence becomes a batch of its own.
        unit: ``sentences`` or ``tokens``.
    """
    starts = range(limit, len(order), limit) if unit == "sentences" else _starts(lengths, limit)
    return Batches(order, np.append(np.fromiter(starts, np.int64), len(order)))


def _starts(lengths: Indices, limit: int) -> Iterator[int]:
    """Yield the place of the first sentence of each batch of tokens, but the first batch."""
    start, widest, i = 0, 0, 0
    for block in _blocks(lengths):
        for length in block.tolist():
            widest = max(widest, length)
            if i > start and widest * (i + 1 - start) > limit:
                yield i
                start, widest = i, length
            i += 1


def _blocks(array: Indices) -> Iterator[Any]:
    return (array[start : start + BLOCK] for start in range(0, len(array), BLOCK))
