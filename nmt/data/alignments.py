"""Given word alignments of the training text, carried to its pieces."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.encoded import kept_lines, load_array
from nmt.system.arrays import Indices
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import sha256
from nmt.system.lines import count_lines, read_lines
from nmt.text.subwords import SIDES, START, Vocabulary

BLOCK = 10_000
"""Sentences whose words are counted at a time."""


@dataclass(frozen=True)
class Side:
    """The pieces of one side: which of them begin a word, and how many each sentence has."""

    begins: NDArray[np.bool_]  # by id
    lengths: Indices  # in pieces

    @classmethod
    def open(cls, encoded: Path, side: str) -> "Side":
        """Read a side of the training text of an encoded corpus."""
        vocabulary = Vocabulary(encoded / f"{side}.model")
        if vocabulary.tags:
            raise ConfigError(
                f"{encoded}: expected subwords without tags of languages, which are no words to align, got tags of "
                f"{', '.join(vocabulary.tags)}; leave alignments out, or give initialise: {{own_subwords: true}}"
            )
        pieces = vocabulary.pieces(range(len(vocabulary)))
        begins = np.array([vocabulary.whole_words or piece.startswith(START) for piece in pieces])
        offsets = load_array(encoded / f"train.{side}.offsets.npy").astype(np.int64)
        return cls(begins, offsets[1:] - offsets[:-1])

    def count_words(self, ids: NDArray[Any], sentences: int) -> Indices:
        """Count the words of each of the first sentences, whose ids are flat."""
        counts, ends = np.zeros(sentences, np.int64), np.append(0, self.lengths[:sentences].cumsum())
        for first in range(0, sentences, BLOCK):
            bounds = ends[first : first + BLOCK + 1]
            begins = self.begins[ids[bounds[0] : bounds[-1]]]
            starts = bounds[:-1] - bounds[0]
            begins[starts[starts < len(begins)]] = True
            counts[first : first + BLOCK] = np.diff(np.append(0, begins.cumsum())[bounds - bounds[0]])
        return counts

    def words(self, padded: Tensor, indices: Indices) -> Indices:
        """Return the number of the word of each piece of padded sentences (B, S); -1 for BOS, EOS and padding."""
        begins, place = self.begins[padded.numpy()], np.arange(padded.shape[1])
        begins[:, 0], begins[:, 1] = False, True
        real = (place > 0) & (place <= self.lengths[indices][:, None])
        return np.where(real, begins.cumsum(1) - 1, -1)


@dataclass(frozen=True)
class Alignments:
    """The links of each training pair, as word numbers."""

    source: Side
    target: Side
    links: Indices  # (links, 2) source word and target word
    offsets: Indices  # (pairs + 1,)
    sha256: str  # of the file

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the alignments among the inputs of a training."""
        return {"alignments": {"sha256": self.sha256, "links": len(self.links)}}

    def matrices(self, indices: Indices, source: Tensor, target: Tensor) -> Tensor:
        """Return the alignments of a batch between pieces.

        Each piece of a target word is linked evenly to all pieces of the linked source words.

        Args:
            indices: indices of the pairs (B,).
            source: their padded ids (B, S).
            target: their padded ids (B, T).

        Returns:
            A distribution over the source for each piece of ``target[:, 1:]``, or zeros (B, T - 1, S), float32.
        """
        source_words, target_words = self.source.words(source, indices), self.target.words(target, indices)
        by_word = np.zeros((len(indices), target_words.max() + 2, source_words.max() + 2), np.float32)
        for row, pair in enumerate(indices % (len(self.offsets) - 1)):  # text encoded several times has each pair again
            i, j = self.links[self.offsets[pair] : self.offsets[pair + 1]].T
            by_word[row, j, i] = 1
        rows = np.arange(len(indices))[:, None, None]
        by_piece = by_word[rows, target_words[:, 1:, None], source_words[:, None]]  # number -1 is the empty last row
        return torch.from_numpy(by_piece / np.maximum(by_piece.sum(-1, keepdims=True), 1))


def load_alignments(path: Path, encoded: Path) -> Alignments:
    """Read the alignments of the training text of an encoded corpus: a line like ``0-0 1-2`` for each pair.

    The lines are those of the cleaned text, or those of the raw text; then those of dropped pairs do not count.

    Raises:
        ConfigError: the source sentences begin with tags of target languages.
        DataError: the file has another number of lines, no links, or a link that is malformed or outside the sentence.
    """
    source, target = (Side.open(encoded, side) for side in SIDES)
    kept, raw = kept_lines(encoded, "train", len(source.lengths))
    pairs = len(np.unique(kept))
    lines = count_lines(path)
    if lines not in (pairs, raw):
        dropped = f", or {raw:,} lines, one for each pair of the raw text" if raw > pairs else ""
        raise DataError(
            f"{path}: expected {pairs:,} lines, one for each pair of the cleaned training text{dropped}, got "
            f"{lines:,} lines; align the same text"
        )
    numbers = range(lines) if lines == pairs else kept[:pairs].tolist()
    sizes = [
        side.count_words(load_array(encoded / f"train.{name}.npy"), pairs).tolist()
        for name, side in zip(SIDES, (source, target), strict=True)
    ]
    links, offsets = array("i"), [0]
    wanted = set(numbers)
    chosen = compress(enumerate(read_lines(path), 1), (number in wanted for number in range(lines)))
    for (number, line), source_size, target_size in zip(chosen, *sizes, strict=True):
        for link in sorted(parse_links(line, f"{path}, line {number}", (source_size, target_size))):
            links.extend(link)
        offsets.append(len(links) // 2)
    if not links:
        raise DataError(f"{path}: expected links, got only blank lines; align the text again")
    return Alignments(source, target, np.array(links).reshape(-1, 2), np.array(offsets, np.int64), sha256(path))


def parse_links(line: str, where: str, sizes: Iterable[int], hint: str = "") -> set[tuple[int, int]]:
    """Parse the links of one pair, a line in Pharaoh format: ``0-0 1-2``.

    Args:
        line: the line.
        where: its place, for messages.
        sizes: number of words of the source and of the target.
        hint: end of the message about a word that does not exist.

    Raises:
        DataError: a link is malformed, or has no such word.
    """
    (source_size, target_size), links = sizes, set()
    for link in line.split():
        i, _, j = link.partition("-")
        if not (i.isdecimal() and j.isdecimal() and len(link) < 20):
            raise DataError(f"{where}: expected links i-j between words counted from 0, got '{link[:20]}'")
        if int(i) >= source_size or int(j) >= target_size:
            raise DataError(
                f"{where}: expected words below {source_size}-{target_size} (source-target), got {link}; the words are "
                f"those of the cleaned text{hint}"
            )
        links.add((int(i), int(j)))
    return links
