"""An encoded corpus, read memory-mapped and served as padded batches."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nmt.config.data import SpecialIds, Subwords
from nmt.config.types import amount
from nmt.data.features import OfSplit, Pictures, no_pictures
from nmt.system.errors import DataError
from nmt.system.files import (
    DROPPED,
    as_written,
    read_json,
    read_lines,
)
from nmt.system.indices import Indices, evenly
from nmt.text.subwords import SIDES


@dataclass(frozen=True)
class Batch:
    """Padded ids of some sentence pairs: BOS, pieces, EOS, padding."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T)
    places: Tensor  # of the pieces to predict, EOS included, among the B * (T - 1) of target[:, 1:]; (N,)
    images: Tensor | None = None  # features of their pictures (B, R, C)

    @property
    def pieces(self) -> int:
        """How many target pieces there are to predict, EOS included."""
        return len(self.places)

    @property
    def expected(self) -> Tensor:
        """The pieces to predict (N,)."""
        return self.target[:, 1:].flatten().index_select(0, self.places)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on a device; one in pinned memory is on its way when this returns."""
        return self.each(lambda part: part.to(device, non_blocking=True))

    def twice(self) -> "Batch":
        """Each sentence twice, all of them before all of them again."""
        both = self.each(lambda part: torch.cat([part, part]))
        both.places[len(self.places) :] += self.target[:, 1:].numel()
        return both

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch of its tensors changed."""
        return Batch(*map(change, self.tensors()))

    def tensors(self) -> list[Tensor]:
        """All there are, in the order of the fields."""
        return [part for part in (self.source, self.target, self.places, self.images) if part is not None]


class Side:
    """One side of an encoded split, memory-mapped."""

    def __init__(self, prefix: Path, ids: SpecialIds) -> None:
        self._special = ids
        try:
            self._ids = np.load(prefix.with_name(prefix.name + ".npy"), mmap_mode="r")
            self._offsets = np.load(prefix.with_name(prefix.name + ".offsets.npy"))
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{prefix}.npy: expected encoded text, got: {error}; run `nmt encode` again") from None
        if self._offsets[-1:].tolist() != [len(self._ids)]:
            raise DataError(f"{prefix}.npy: expected as many ids as its offsets say; run `nmt encode` again")
        self.lengths: Indices = np.diff(self._offsets) + 2  # BOS and EOS

    def pieces(self, index: int) -> list[int]:
        """The ids of one sentence, without BOS and EOS."""
        return [int(i) for i in self._ids[self._offsets[index] : self._offsets[index + 1]]]

    def pad(self, indices: Indices) -> Tensor:
        """Sentences (B,) as padded ids (B, longest), int64."""
        lengths, special = self.lengths[indices] - 2, self._special
        width = int(lengths.max()) + 2
        padded = np.full((len(indices), width), special.pad, np.int64)
        padded[:, 0] = special.bos
        columns = np.arange(width - 2)
        real = columns < lengths[:, None]
        padded[:, 1:-1][real] = self._ids[(self._offsets[indices][:, None] + columns)[real]]
        padded[np.arange(len(indices)), lengths + 1] = special.eos
        return torch.from_numpy(padded)


class Parallel:
    """An encoded split: pairs of sentences by index, with their pictures where there are any.

    Raises:
        DataError: the directory or one of its arrays is missing or damaged.
    """

    def __init__(self, encoded: Path, split: str, longest: int | None = None, pictures: OfSplit | None = None) -> None:
        meta = read_json(encoded / "meta.json")
        ids = SpecialIds(**meta["ids"])
        self.source, self.target = (Side(encoded / f"{split}.{side}", ids) for side in SIDES)
        if len(self.source.lengths) != len(self.target.lengths):
            raise DataError(
                f"{encoded}: expected as many {split} sentences in both languages, got {len(self.source.lengths)} and "
                f"{len(self.target.lengths)}; run `nmt encode` again"
            )
        lengths = np.maximum(self.source.lengths, self.target.lengths)
        self.kept: Indices = np.flatnonzero(lengths <= longest) if longest else np.arange(len(lengths))
        self.too_long = len(lengths) - len(self.kept)
        if not len(self.kept):
            raise DataError(f"{encoded}: no {split} pair fits in model.max_positions: {longest}; raise it")
        self.images: Pictures = pictures(split, *raw_lines(encoded, split, len(lengths))) if pictures else no_pictures

    def spread(self, count: int) -> "Parallel":
        """The same split cut to ``count`` pairs spread evenly over it, or to all where there are fewer."""
        part = copy(self)
        part.kept = self.kept[evenly(len(self.kept), count)]
        return part

    def batch(self, indices: Indices) -> Batch:
        """Pad the pairs of these indices."""
        target = self.target.pad(indices)
        real = torch.arange(1, target.shape[1]) < torch.from_numpy(self.target.lengths[indices])[:, None]
        return Batch(self.source.pad(indices), target, real.flatten().nonzero()[:, 0], self.images(indices))

    def pieces(self, indices: Indices) -> int:
        """Target pieces to predict in the pairs of these indices, EOS included."""
        return int(self.target.lengths[indices].sum()) - len(indices)

    def batches(self, size: str, shuffle: tuple[int, int] | None = None) -> list[Indices]:
        """Cut the split into batches of pairs of like length.

        Args:
            size: ``"64 sentences"``, or ``"4096 tokens"``: pairs times the longest sentence of either side.
            shuffle: (seed, epoch); pairs of one length are mixed and the batches shuffled, by these alone.
                None keeps a fixed order.
        """
        random = np.random.default_rng(shuffle) if shuffle else None
        order = random.permutation(self.kept) if random else self.kept
        target, source = self.target.lengths[order], self.source.lengths[order]
        by_length = np.lexsort((source, target))
        order, longest = order[by_length], np.maximum(target, source)[by_length]
        batches = list(cut(order, longest, *amount(size)))
        return [batches[i] for i in random.permutation(len(batches))] if random else batches


def raw_lines(encoded: Path, split: str, sentences: int) -> tuple[Indices, int]:
    """The line of the raw text, from 0, that each sentence of a split comes from, and how many lines that had.

    Of training text that goes through the same images again and again (`nmt.translation.augment`), or that is encoded
    several times, the lines are those of its first round.
    """
    meta = read_json(encoded / "meta.json")
    subwords = as_written(Subwords, meta["subwords"]["subwords"], encoded / "meta.json")
    times = subwords.segmentations if split == "train" else 1
    dropped = list(read_lines(encoded / DROPPED)) if split == "train" and (encoded / DROPPED).is_file() else []
    total = sentences // times + len(dropped)
    lines = np.tile(np.delete(np.arange(total), np.array(dropped, np.int64) - 1), times)
    images = meta.get("images", total) if split == "train" else total
    return lines % images, images


def cut(order: Indices, lengths: Indices, limit: int, unit: str) -> Iterator[Indices]:
    """Cut an order into runs of ``limit`` sentences, or of at most ``limit`` padded tokens (one sentence at least)."""
    if unit == "sentences":
        bounds = list(range(0, len(order), limit))
    else:
        bounds, start, widest = [0], 0, 0
        for i, length in enumerate(lengths.tolist()):
            widest = max(widest, length)
            if i > start and widest * (i + 1 - start) > limit:
                bounds.append(i)
                start, widest = i, length
    yield from (order[a:b] for a, b in pairwise([*bounds, len(order)]))
