"""Embeddings initialised from pre-trained word vectors, in the text format of GloVe or word2vec."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.models.base import TranslationModel
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import sha256
from nmt.system.lines import read_lines
from nmt.text.subwords import SIDES, START, Vocabulary

Vectors = dict[int, NDArray[np.float32]]
"""From piece ids to vectors (width,)."""


@dataclass(frozen=True)
class InitialVectors:
    """Pre-trained vectors for the embeddings of a training, by side."""

    vectors: Mapping[str, Vectors]
    facts: Mapping[str, dict[str, Any]]  # sha256 of the file and counts of pieces

    def fill(self, model: TranslationModel) -> None:
        """Copy the vectors into the model's embeddings, scaled to the mean square of random embeddings.

        That is 1 / width; without scale_embeddings, a recurrent model's is 1. Pieces without a vector keep their random
        values, and the padding its zeros.
        """
        config = model.config
        small = config.kind != "recurrent" or config.scale_embeddings
        for side, vectors in self.vectors.items():
            weight = model.get_submodule(f"{side}_embedding.pieces").weight
            assert isinstance(weight, torch.Tensor)
            rows = torch.tensor(list(vectors), device=weight.device)
            values = torch.from_numpy(np.stack(list(vectors.values()))).to(weight.device)
            with torch.no_grad():
                weight[rows] = values / values.square().mean().sqrt() / (math.sqrt(config.width) if small else 1)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Return what identifies the vectors among the inputs of a training; nothing without vectors."""
        return {"word_vectors": dict(self.facts)} if self.facts else {}


NO_VECTORS = InitialVectors({}, {})


def load_vectors(encoded: Path, files: Mapping[str, Path], width: int) -> InitialVectors:
    """Read the vectors for the vocabularies of an encoded corpus.

    Args:
        encoded: the encoded corpus.
        files: from ``source`` or ``target`` to a file. Each line is a word and its numbers, as GloVe writes them. A
            first line of two counts, as word2vec and fastText write it, is allowed.
        width: of the model's embeddings.

    Raises:
        DataError: a file is missing, has a faulty line or vectors of another width, or none of the words.
    """
    vectors, facts = {}, {}
    for side, path in files.items():
        vocabulary = Vocabulary(encoded / f"{side}.model")
        pieces = vocabulary.labels(range(len(vocabulary)))
        wanted = {piece.removeprefix(START): i for i, piece in enumerate(pieces) if piece.startswith(START)}
        vectors[side] = {wanted[word]: vector for word, vector in _read(path, width, wanted)}
        if not any(vector.any() for vector in vectors[side].values()):
            raise DataError(
                f"{path}: expected vectors of the {len(wanted):,} words of the {side} vocabulary, got none but zeros"
            )
        counts = {"words": len(wanted), "found": len(vectors[side]), "missing": len(wanted) - len(vectors[side])}
        facts[side] = {"sha256": sha256(path), "pieces": len(vocabulary), **counts}
        print(
            f"{path}: has vectors of {counts['found']:,} of the {len(wanted):,} pieces of the {side} vocabulary that "
            f"may be words; the other {counts['missing']:,} start at random",
            file=sys.stderr,
        )
    return InitialVectors(vectors, facts)


def _read(path: Path, width: int, wanted: Mapping[str, int]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the first vector of each wanted word in the file."""
    missing, first, promised, number = set(wanted), 1, 0, 0
    for number, line in enumerate(read_lines(path), 1):
        cells = line.rstrip().split(" ")
        if number == 1 and len(cells) == 2 and all(cell.isdecimal() for cell in cells):
            _check_width(f"{path}, line 1", int(cells[1]), width)
            first, promised = 2, int(cells[0])
            continue
        if number == first:
            _check_width(f"{path}, line {number}", len(cells) - 1, width)
        if len(cells) <= width:
            raise DataError(f"{path}, line {number}: expected a word and {width} numbers, got {len(cells) - 1}")
        word = " ".join(cells[:-width])  # a few of GloVe's words hold spaces
        if word in missing:
            missing.remove(word)
            yield word, _numbers(cells[-width:], f"{path}, line {number}")
    if promised and number - 1 < promised:
        raise DataError(f"{path}: expected {promised:,} vectors by its first line, got {number - 1:,}; fetch it again")


def _check_width(where: str, got: int, width: int) -> None:
    if got != width:
        raise DataError(
            f"{where}: expected vectors of the model's width, {width} numbers, got {got}; take another file, or change "
            "model.width"
        )


def _numbers(cells: list[str], where: str) -> NDArray[np.float32]:
    try:
        vector = np.array(cells, np.float32)
    except ValueError as error:
        raise DataError(f"{where}: expected numbers after the word: {error}") from None
    if not np.isfinite(vector).all():
        raise DataError(f"{where}: expected numbers after the word, got nan or inf")
    return vector


def parse_files(options: tuple[str, ...]) -> dict[str, Path]:
    """Return files by side from options ``SIDE=FILE``; raise ConfigError if one is wrong."""
    files = dict[str, Path]()
    for option in options:
        side, _, file = option.partition("=")
        if side not in SIDES or not file:
            raise ConfigError(f"--word-vectors: expected source=FILE or target=FILE, got '{option}'")
        if side in files:
            raise ConfigError(f"--word-vectors: expected one file for the {side}, got {files[side]} and {file}")
        files[side] = Path(file)
    return files
