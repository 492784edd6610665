"""The order of an epoch: sentences sorted by length, and cut into batches, with few bytes for each sentence.

Arrays of many sentences are in files (`nmt.system.arrays`) and are read block by block.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np

from nmt.system.arrays import Indices, release, scratch

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
        batch = self._order[self._starts[number] : self._ends[number]].astype(np.int64)
        release(self._order)
        return batch

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
    top, result = int(max((block.max() for block in blocks(keys)), default=0)) + 1, scratch(len(order), order.dtype)
    counts = np.zeros(top, np.int64)
    for block in blocks(order):
        counts += np.bincount(keys[block], minlength=top)
        release(keys)
    places = np.cumsum(counts) - counts  # of the next index with each key
    for block in blocks(order):
        own = keys[block]
        by_key = np.argsort(own, kind="stable")
        own, counts = own[by_key], np.bincount(own, minlength=top)
        first = np.cumsum(counts) - counts
        result[(places - first)[own] + np.arange(len(own))] = block[by_key]
        places += counts
        release(keys)
        release(result)
    return result


def shuffle_ties(order: Indices, keys: Sequence[Indices], random: np.random.Generator) -> None:
    """Shuffle each run of sentences that have all keys in common, in place.

    After sorting, this is what a shuffle before sorting brings about, run by run instead of everywhere at once.
    """
    ends = list[int]()
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK + 1]
        changes = np.any([np.diff(key[block]) != 0 for key in keys], axis=0)
        ends += (start + 1 + np.flatnonzero(changes)).tolist()
        for array in (order, *keys):
            release(array)
    for start, end in pairwise([0, *ends, len(order)]):
        order[start:end] = random.permutation(order[start:end])
        release(order)


def cut(order: Indices, lengths: Iterator[Indices], limit: int, unit: str) -> Batches:
    """Split an order into batches of ``limit`` sentences, or of at most ``limit`` tokens with padding.

    Args:
        order: indices of the sentences (N,), at least one.
        lengths: their lengths (N,), in blocks of any size.
        limit: maximum size of a batch; a longer sentence becomes a batch of its own.
        unit: ``sentences`` or ``tokens``.
    """
    starts = range(limit, len(order), limit) if unit == "sentences" else _starts(lengths, limit)
    return Batches(order, np.append(np.fromiter(starts, np.int64), len(order)))


def _starts(lengths: Iterator[Indices], limit: int) -> Iterator[int]:
    """Yield the place of the first sentence of each batch of tokens, but the first batch."""
    start, widest, i = 0, 0, 0
    for block in lengths:
        for length in block.tolist():
            widest = max(widest, length)
            if i > start and widest * (i + 1 - start) > limit:
                yield i
                start, widest = i, length
            i += 1


def blocks(array: Indices) -> Iterator[Indices]:
    """Yield an array in parts of `BLOCK` numbers; a mapped one leaves the memory again part by part."""
    for start in range(0, len(array), BLOCK):
        yield array[start : start + BLOCK]
        release(array)
