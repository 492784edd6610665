"""Encoded corpus, read from memory-mapped files and returned as padded batches."""

import math
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nmt.config.data import SpecialIds
from nmt.config.types import amount
from nmt.data.alignments import Alignments
from nmt.data.encoded import kept_lines, load_array, read_meta
from nmt.data.features import PictureLoader, Pictures, no_pictures
from nmt.data.order import BLOCK, Batches, blocks, cut, shuffle_ties, sort_by
from nmt.data.sampling import by_name, draw, tempered, weighted
from nmt.system.arrays import HELD, Indices, evenly, release, scratch, take
from nmt.system.errors import DataError
from nmt.text.subwords import SIDES


@dataclass(frozen=True)
class Batch:
    """Batch of sentence pairs as padded ids; a row is BOS, pieces, EOS, padding."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T)
    positions: Tensor  # (N,) indices of the pieces to predict, EOS included, in target[:, 1:].flatten()
    images: Tensor | None = None  # (B, R, C) features of the pictures
    links: Tensor | None = None  # (B, T - 1, S) given alignment of each piece in target[:, 1:], see `Alignments`

    @property
    def pieces(self) -> int:
        """Number of target pieces to predict, EOS included."""
        return len(self.positions)

    @property
    def expected(self) -> Tensor:
        """Ids of the pieces to predict (N,)."""
        return self.target[:, 1:].flatten().index_select(0, self.positions)

    @property
    def sentence_shares(self) -> Tensor:
        """Weights of the pieces to predict (N,), float32: 1 divided by the number of them in the sentence."""
        sentence = self.positions // (self.target.shape[1] - 1)
        return sentence.bincount(minlength=len(self.target)).float().reciprocal().index_select(0, sentence)

    def to(self, device: torch.device) -> "Batch":
        """Copy the batch to a device; from pinned memory the copy is asynchronous."""
        return self.map_tensors(lambda tensor: tensor.to(device, non_blocking=True))

    def twice(self) -> "Batch":
        """Return a batch of 2B rows: all rows of this one, then all of them again."""
        both = self.map_tensors(lambda tensor: torch.cat([tensor, tensor]))
        both.positions[len(self.positions) :] += self.target[:, 1:].numel()
        return both

    def map_tensors(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """Return a batch of this batch's tensors after applying ``function`` to each."""
        present = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return Batch(**{name: function(tensor) for name, tensor in present.items()})

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are not None, in the order of the fields."""
        return [tensor for tensor in vars(self).values() if tensor is not None]


class Side:
    """One side of an encoded split, memory-mapped.

    Raises:
        DataError: an array is missing or damaged.
    """

    def __init__(self, prefix: Path, ids: SpecialIds) -> None:
        self._special = ids
        self._ids = load_array(prefix.with_name(prefix.name + ".npy"))
        place = prefix.with_name(f"{prefix.name}.offsets.npy")
        self.lengths = _lengths(place)  # BOS and EOS included
        self._offsets = load_array(place)
        if self._offsets[-1:].tolist() != [len(self._ids)]:
            raise DataError(
                f"{prefix}.npy: expected as many ids as {prefix}.offsets.npy says, got {len(self._ids)}; run "
                "`nmt encode` again"
            )

    def pieces(self, index: int) -> list[int]:
        """Return the ids of one sentence, without BOS and EOS."""
        return [int(i) for i in self._ids[self._offsets[index] : self._offsets[index + 1]]]

    def pad(self, indices: Indices) -> Tensor:
        """Return the sentences of these indices (B,) as padded ids (B, longest sentence), int64."""
        lengths, special = take(self.lengths, indices).astype(np.int64) - 2, self._special
        width = int(lengths.max()) + 2
        padded = np.full((len(indices), width), special.pad, np.int64)
        padded[:, 0] = special.bos
        columns = np.arange(width - 2)
        real = columns < lengths[:, None]
        places = take(self._offsets, indices)[:, None] + columns
        padded[:, 1:-1][real] = take(self._ids, places[real])
        padded[np.arange(len(indices)), lengths + 1] = special.eos
        return torch.from_numpy(padded)


def _lengths(offsets: Path) -> Indices:
    """Return the length of each sentence with BOS and EOS, in the smallest type; raises DataError."""
    mapped = load_array(offsets)
    longest = max((int(lengths.max()) for _, lengths in _differences(mapped)), default=2)
    result = scratch(max(0, len(mapped) - 1), np.min_scalar_type(longest))
    for start, lengths in _differences(mapped):
        if (start == 0 and mapped[0]) or lengths.min() < 2:
            raise DataError(f"{offsets}: expected offsets from 0 that never fall; run `nmt encode` again")
        result[start : start + BLOCK] = lengths
        release(result)
    return result


def _differences(offsets: Indices) -> Iterator[tuple[int, Indices]]:
    """Yield the number of the first sentence of each block, and the lengths of its sentences with BOS and EOS."""
    for start in range(0, len(offsets) - 1, BLOCK):
        ends = offsets[start : start + BLOCK + 1].astype(np.int64)
        yield start, ends[1:] - ends[:-1] + 2
        release(offsets)


class Parallel:
    """Encoded split: sentence pairs by index, optionally with pictures.

    Attributes:
        source: source sentences.
        target: target sentences.
        indices: indices of the pairs that are short enough for the model.
        too_long: number of the other pairs.
        images: function from indices to features of their pictures.
        links: given alignments, if there are any.

    Raises:
        DataError: the directory or one of its arrays is missing or damaged, or no pair is short enough.
    """

    def __init__(
        self, encoded: Path, split: str, longest: int | None = None, pictures: PictureLoader | None = None
    ) -> None:
        """Open a split of the folder ``encoded``.

        Args:
            encoded: folder of the encoded corpus.
            split: name of the split.
            longest: maximum length of a sentence in pieces, BOS and EOS included; None for no limit.
            pictures: loader of the pictures; None for a text-only model.
        """
        meta = read_meta(encoded)
        ids = SpecialIds(**meta["ids"])
        self.source, self.target = (Side(encoded / f"{split}.{side}", ids) for side in SIDES)
        if len(self.source.lengths) != len(self.target.lengths):
            raise DataError(
                f"{encoded}: expected as many {split} sentences in both languages, got {len(self.source.lengths)} and "
                f"{len(self.target.lengths)}; run `nmt encode` again"
            )
        total = len(self.source.lengths)
        self.indices = self._short_enough(longest or math.inf)
        self.too_long = total - len(self.indices)
        if not len(self.indices):
            raise DataError(f"{encoded}: no {split} pair fits in model.max_positions: {longest}; raise it")
        self.images: Pictures = pictures(split, *raw_lines(encoded, split, total)) if pictures else no_pictures
        self.links: Alignments | None = None
        self._pairs = [(name, pair["sentences"]) for name, pair in meta["splits"][split].get("pairs", {}).items()]
        self._parts = self._pairs or meta.get("parts") or [(str(meta.get("corpus")), total)]
        self._meta = encoded / "meta.json"

    def _short_enough(self, longest: float) -> Indices:
        """Return the indices of the pairs whose sides have at most so many pieces, BOS and EOS included."""
        total = len(self.source.lengths)
        indices, kept = scratch(total, np.int32 if total < 2**31 else np.int64), 0
        for start in range(0, total, BLOCK):
            block = slice(start, start + BLOCK)
            fits = np.maximum(self.source.lengths[block], self.target.lengths[block]) <= longest
            found = start + np.flatnonzero(fits)
            indices[kept : kept + len(found)] = found
            kept += len(found)
            for array in (indices, self.source.lengths, self.target.lengths):
                release(array)
        return indices[:kept]

    @cached_property
    def groups(self) -> dict[str, Indices]:
        """``indices`` of each pair of languages; of a single pair, of each named part of the training text.

        Raises:
            DataError: the parts have not as many sentences as the text.
        """
        once, total = sum(count for _, count in self._parts), len(self.source.lengths)
        if not once or total % once:
            raise DataError(
                f"{self._meta}: expected parts of {total:,} sentences, got {once:,}; run `nmt encode` again"
            )
        return by_name(self.indices, self._parts, total // once)

    def sample(self, count: int) -> "Parallel":
        """Return this split reduced to ``count`` evenly spaced pairs, or to all pairs if it has fewer."""
        sample = copy(self)
        sample.indices = self.indices[evenly(len(self.indices), count)]
        return sample

    def batch(self, indices: Indices) -> Batch:
        """Return the pairs of these indices (B,) as a padded batch."""
        source, target = self.source.pad(indices), self.target.pad(indices)
        lengths = torch.from_numpy(take(self.target.lengths, indices).astype(np.int64))
        real = torch.arange(1, target.shape[1]) < lengths[:, None]
        links = self.links.matrices(indices, source, target) if self.links else None
        return Batch(source, target, real.flatten().nonzero()[:, 0], self.images(indices), links)

    def pieces(self, indices: Indices) -> int:
        """Count the target pieces to predict in the pairs of these indices, EOS included."""
        return int(take(self.target.lengths, indices).sum()) - len(indices)

    def batches(
        self,
        size: str,
        shuffle: tuple[int, int] | None = None,
        temperature: float = 1.0,
        weights: Mapping[str, float] | None = None,
    ) -> Batches:
        """Split the pairs into batches of similar length.

        Args:
            size: batch size, ``"64 sentences"`` or ``"4096 tokens"``; the number of tokens is the number of pairs
                times the length of the longest sentence of either side.
            shuffle: (seed, epoch), which alone determine the order of the batches and of pairs of equal length;
                None for a fixed order.
            temperature: of the sampling over pairs of languages (`nmt.data.sampling`), which ``shuffle`` alone
                determines too; 1, or without ``shuffle``: each sentence once.
            weights: of each of the `groups`, for sampling instead of a temperature.

        Returns:
            Indices of the pairs of each batch.

        Raises:
            DataError: no sentence can be drawn from a group.
        """
        random = np.random.default_rng(shuffle) if shuffle else None
        order = self._sampled(temperature, weights, random) if random else self.indices
        few = order.nbytes <= HELD  # a permutation of more would need all of them in memory
        if random and few:
            order = random.permutation(order)
        for side in (self.source, self.target):
            order = sort_by(side.lengths, order)
        if random and not few:
            shuffle_ties(order, [self.source.lengths, self.target.lengths], random)
        batches = cut(order, self._longest(order), *amount(size))
        if random:
            batches.shuffle(random)
        return batches

    def _longest(self, order: Indices) -> Iterator[Indices]:
        """Yield the length of the longer side of each pair, in blocks."""
        for block in blocks(order):
            yield np.maximum(self.source.lengths[block], self.target.lengths[block])
            for side in (self.source, self.target):
                release(side.lengths)

    def _sampled(self, temperature: float, weights: Mapping[str, float] | None, random: np.random.Generator) -> Indices:
        """Return the indices of an epoch, before they are shuffled."""
        if weights:
            return draw(list(self.groups.values()), weighted(self.groups, weights), random)
        if temperature == 1:
            return self.indices
        groups = list(self.groups.values()) if self._pairs else [self.indices]
        return draw(groups, tempered([len(group) for group in groups], temperature), random)


def raw_lines(encoded: Path, split: str, sentences: int) -> tuple[Indices, int]:
    """Return the raw line number, from 0, of each sentence of a split, and the number of raw lines.

    Image features have one row per raw line. Training text may repeat the same images several times
    (`nmt.translation.augment`), or may be encoded several times; then the numbers are those of the first round.
    """
    lines, total = kept_lines(encoded, split, sentences)
    images = read_meta(encoded).get("images", total) if split == "train" else total
    return lines % images, images
