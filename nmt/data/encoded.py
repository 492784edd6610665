"""Checks of an encoded corpus, before a training reads it: it may be damaged, or come from somebody else."""

from itertools import product
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from nmt.config.data import SpecialIds, Subwords
from nmt.config.types import Name, Pairs, Positive
from nmt.system.arrays import Indices, release
from nmt.system.errors import DataError, fitting
from nmt.system.files import DROPPED, build_stored, check_regular, read_json, sha256
from nmt.system.lines import read_lines
from nmt.text.subwords import SIDES, load_vocabularies

BLOCK = 2**20
"""Ids checked at a time."""


class LearnedSubwords(BaseModel):
    """How subwords were learned, and the checksums of the vocabularies."""

    subwords: dict[str, Any]
    vocab_sha256: dict[str, str] = {}


class Meta(BaseModel):
    """The content of ``meta.json`` as far as training and averaging rely on it."""

    languages: Pairs
    splits: dict[str, dict[str, int | str | dict[str, dict[str, int | str]]]]
    vocabulary: dict[str, Positive]
    ids: SpecialIds
    cleaning: dict[str, Any]
    subwords: LearnedSubwords
    corpus: Any = None
    images: Positive | None = None
    parts: list[tuple[str, int]] = Field([], description="name and sentences of each part of one training text")
    sha256: dict[Name, str] = Field({}, description="checksum by file name; folders of earlier versions have none")


def read_meta(encoded: Path) -> dict[str, Any]:
    """Read ``meta.json`` of an encoded corpus.

    Raises:
        DataError: the file is missing, or a value that training needs is missing or has the wrong type.
    """
    path = encoded / "meta.json"
    content: dict[str, Any] = read_json(path)
    with fitting(path, "the description of an encoded corpus", "run `nmt encode` again"):
        Meta.model_validate(content)
    return content


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksums of the arrays and texts of an encoded corpus, by file name."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".npy", ".txt"))
    return {path.name: sha256(path) for path in files}


def check_encoded(encoded: Path) -> None:
    """Check that vocabularies, arrays and texts are those that `nmt encode` wrote, and that every id has a piece.

    It reads everything once. Folders of earlier versions have no checksums of their files.

    Raises:
        DataError: a file is missing or was changed, or an id is out of range.
    """
    meta = read_meta(encoded)
    vocabularies, ids = load_vocabularies(encoded, meta["subwords"].get("vocab_sha256", {})), SpecialIds(**meta["ids"])
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if len(vocabulary) != meta["vocabulary"][side] or vocabulary.ids != ids:
            raise DataError(
                f"{encoded / f'{side}.model'}: expected {meta['vocabulary'][side]:,} pieces and the special ids that "
                f"meta.json says, got {len(vocabulary):,} pieces; run `nmt encode` again"
            )
    for name, expected in meta.get("sha256", {}).items():
        if not (encoded / name).exists() or sha256(encoded / name) != expected:
            raise DataError(f"{encoded / name}: is not as `nmt encode` wrote it; run `nmt encode` again")
    for split, side in product(("train", "valid"), SIDES):
        _check_ids(encoded / f"{split}.{side}.npy", meta["vocabulary"][side])


def kept_lines(encoded: Path, split: str, sentences: int) -> tuple[Indices, int]:
    """Return the raw line number, from 0, of each sentence of a split, and the number of raw lines.

    Cleaning drops training pairs. Training text that is encoded several times has the numbers of each round.
    """
    subwords = build_stored(Subwords, read_meta(encoded)["subwords"]["subwords"], encoded / "meta.json")
    rounds = subwords.segmentations if split == "train" else 1
    dropped = list(read_lines(encoded / DROPPED)) if split == "train" and (encoded / DROPPED).is_file() else []
    total = sentences // rounds + len(dropped)
    return np.tile(np.delete(np.arange(total), np.array(dropped, np.int64) - 1), rounds), total


def map_array(path: Path, expected: str, command: str) -> NDArray[Any]:
    """Memory-map a ``.npy`` file.

    Args:
        path: the file.
        expected: what it should hold, for messages.
        command: the command that writes it.

    Raises:
        DataError: the file is missing or damaged, or holds something else than an array.
    """
    check_regular(path)
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError, TypeError, LookupError, EOFError, SyntaxError, TokenError, OverflowError) as error:
        raise DataError(f"{path}: expected {expected}, got: {error}; run `{command}` again") from None
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: expected {expected}, got an archive; run `{command}` again")
    return array


def load_array(path: Path) -> NDArray[np.integer[Any]]:
    """Memory-map a flat array of integers; raise DataError if it is missing or something else."""
    array = map_array(path, "encoded text", "nmt encode")
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise DataError(
            f"{path}: expected encoded text, a flat array of integers, got other data; run `nmt encode` again"
        )
    return array


def _check_ids(path: Path, vocabulary: int) -> None:
    ids = load_array(path)
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK]
        wrong = np.flatnonzero((block < 0) | (block >= vocabulary))
        if len(wrong):
            raise DataError(
                f"{path}: expected ids from 0 to {vocabulary - 1}, got {block[wrong[0]]} at position "
                f"{start + wrong[0]:,}; run `nmt encode` again"
            )
        release(ids)
