"""Encoded corpora: written once as flat arrays of ids, read memory-mapped, served as padded batches."""

import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.data import SpecialIds, Subwords
from nmt.config.types import amount
from nmt.data.features import OfSplit, Pictures, none
from nmt.system.chunks import WHOLE, Chunks, Shard, blocks, mark
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import (
    DROPPED,
    as_written,
    atomic_directory,
    count_lines,
    read_json,
    read_lines,
    sha256,
    write_json,
)
from nmt.text.subwords import SIDES, Vocabulary, load_vocabularies

Indices = NDArray[np.int64]
SPLITS = ("train", "valid")
CHUNK = 1_000_000
"""Lines that are encoded before they are put on disk; shards share out such chunks."""
BATCH = 10_000
"""Lines encoded at a time."""
IDS, LENGTHS = "ids", "lengths"
"""The files of a chunk: flat ids, and how many each line has."""


def encode_corpus(clean: Path, subwords: Path, out: Path, languages: str, shard: Shard | None = None) -> None:
    """Encode training and validation text; ``out`` then holds all that training needs, subword models included.

    Args:
        clean: folder of the cleaned text.
        subwords: folder of the subword models.
        out: the folder to write, whole or not at all.
        languages: source and target, e.g. ``en-de``.
        shard: encode this share of the chunks, and stop; None encodes those that are missing, and joins all.

    Raises:
        DataError: a file is missing, not UTF-8, or the two sides differ in length.
        ConfigError: the subwords are of other languages, or of these the other way round.
    """
    learned = read_json(subwords / "subwords.json")
    if (of := learned.get("languages", languages)) != languages:  # a folder made before they were written down has none
        raise ConfigError(f"{subwords}: expected subwords of {languages}, got those of {of}; learn these, or name them")
    vocabularies = load_vocabularies(subwords, learned["vocab_sha256"])
    texts = {split: [clean / f"{split}.{language}" for language in languages.split("-")] for split in SPLITS}
    read = [*(subwords / f"{side}.model" for side in SIDES), *chain.from_iterable(texts.values())]
    config = as_written(Subwords, learned["subwords"], subwords / "subwords.json")
    chunks = Chunks(out, mark([CHUNK, config.dropout], read), CHUNK)
    if shard:
        for split, files in texts.items():
            for file, vocabulary, side in zip(files, vocabularies, SIDES, strict=True):
                _encode_side(chunks, file, vocabulary, f"{split}.{side}", _cuts(split, config), shard)
        return
    try:
        with atomic_directory(out, "meta.json") as folder:
            splits = {
                split: _encode_split(chunks, split, files, vocabularies, _cuts(split, config), folder)
                for split, files in texts.items()
            }
            _complete(folder, clean, subwords, languages, splits)
    except DataError:
        chunks.forget()  # as it cannot go on
        raise
    chunks.forget()


def _cuts(split: str, config: Subwords) -> list[float]:
    """The dropout of each time that a split is encoded: what is translated is always cut in one way."""
    return [config.dropout] * config.segmentations if split == "train" else [0.0]


def _complete(folder: Path, clean: Path, subwords: Path, languages: str, splits: dict[str, Any]) -> None:
    """Write what there is besides the arrays."""
    for name in (*(f"{side}.model" for side in SIDES), *(f"{side}.vocab" for side in SIDES)):
        shutil.copyfile(subwords / name, folder / name)
    if (dropped := clean / DROPPED).is_file():
        shutil.copyfile(dropped, folder / DROPPED)
    shutil.copyfile(clean / f"valid.{languages.split('-')[1]}", folder / "valid.references.txt")
    report, learned = read_json(clean / "report.json"), read_json(subwords / "subwords.json")
    vocabularies = [Vocabulary(folder / f"{side}.model") for side in SIDES]
    meta = {
        "languages": languages,
        "splits": splits,
        "vocabulary": {side: len(v) for side, v in zip(SIDES, vocabularies, strict=True)},
        "ids": vocabularies[0].ids.model_dump(),
        "cleaning": report["cleaning"],
        "subwords": {key: learned[key] for key in ("subwords", "vocab_sha256")},
        "corpus": report.get("corpus"),
        **({"images": report["images"]} if "images" in report else {}),
    }
    write_json(folder / "meta.json", meta)


def _encode_split(
    chunks: Chunks,
    split: str,
    files: Sequence[Path],
    vocabularies: Sequence[Vocabulary],
    cuts: Sequence[float],
    folder: Path,
) -> dict[str, Any]:
    """Encode the chunks of a split that are missing, and join all; returns its part of meta.json."""
    counts = []
    for file, vocabulary, side in zip(files, vocabularies, SIDES, strict=True):
        places = _encode_side(chunks, file, vocabulary, f"{split}.{side}", cuts)
        counts.append(_join(places, folder / f"{split}.{side}", _dtype(vocabulary)))
    _check_aligned(files, [sentences // len(cuts) for sentences, _ in counts])
    return {
        "sentences": counts[0][0],
        **{f"{side}_pieces": pieces for side, (_, pieces) in zip(SIDES, counts, strict=True)},
        **{f"{side}_sha256": sha256(file) for side, file in zip(SIDES, files, strict=True)},
    }


def _check_aligned(files: Sequence[Path], counts: Sequence[int]) -> None:
    if counts[0] != counts[1]:
        pairs = " and ".join(f"{file} has {count:,} lines" for file, count in zip(files, counts, strict=True))
        raise DataError(f"{pairs}; expected as many on both sides: line n translates line n")
    if not counts[0]:
        raise DataError(f"{files[0]} and {files[1]}: expected sentences, got empty files; look at cleaning's report")


def _encode_side(
    chunks: Chunks, text: Path, vocabulary: Vocabulary, name: str, cuts: Sequence[float], shard: Shard = WHOLE
) -> list[Path]:
    """Encode a text once for each of ``cuts``, their dropout; returns the places of all chunks, in order."""
    each = [_encode_chunks(chunks, text, vocabulary, f"{name}-{n}-", cut, shard) for n, cut in enumerate(cuts)]
    return list(chain.from_iterable(each))


def _encode_chunks(
    chunks: Chunks, text: Path, vocabulary: Vocabulary, name: str, dropout: float, shard: Shard
) -> list[Path]:
    """Encode a shard's chunks of a text that are not there yet; returns the places of all chunks."""
    lines = count_lines(text)
    numbers = chunks.numbers(lines, shard)
    for place, block in chunks.undone(read_lines(text, numbers.start * CHUNK), numbers, name):
        with atomic_directory(place) as part, (part / IDS).open("wb") as ids, (part / LENGTHS).open("wb") as lengths:
            while some := list(islice(block, BATCH)):
                # Of the text and which time it is, so that an encoding that is resumed, or shared out, is the same.
                seed = zlib.crc32("\n".join([name, *some]).encode()) if dropout else 0
                rows = vocabulary.encode(some, dropout, seed)
                np.fromiter(chain.from_iterable(rows), _dtype(vocabulary)).tofile(ids)
                np.fromiter(map(len, rows), np.int64, len(rows)).tofile(lengths)
    return chunks.places(lines, name)


def _join(places: Sequence[Path], out: Path, dtype: type[np.generic]) -> tuple[int, int]:
    """Write ``out.npy`` (flat ids) and ``out.offsets.npy`` from chunks; gives counts of sentences and pieces."""
    sentences = sum((place / LENGTHS).stat().st_size for place in places) // np.dtype(np.int64).itemsize
    pieces = sum((place / IDS).stat().st_size for place in places) // np.dtype(dtype).itemsize
    with _array(out.with_name(f"{out.name}.npy"), dtype, pieces) as stream:
        stream.writelines(blocks([place / IDS for place in places]))
    with _array(out.with_name(f"{out.name}.offsets.npy"), np.int64, sentences + 1) as stream:
        ends = np.zeros(1, np.int64)
        stream.write(ends.tobytes())
        for block in blocks([place / LENGTHS for place in places]):
            ends = ends[-1] + np.frombuffer(block, np.int64).cumsum()
            stream.write(ends.tobytes())
    return sentences, pieces


@contextmanager
def _array(path: Path, dtype: type[np.generic], items: int) -> Iterator[BinaryIO]:
    """A file to write a flat array of so many items into, as `numpy.save` does."""
    with path.open("wb") as stream:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (items,)}
        np.lib.format.write_array_header_1_0(stream, header)
        yield stream


def _dtype(vocabulary: Vocabulary) -> type[np.generic]:
    return np.uint16 if len(vocabulary) <= 2**16 else np.int32


def evenly(total: int, count: int) -> Indices:
    """So many of the numbers from 0 to below ``total``, spread evenly over them; all where there are fewer."""
    return np.linspace(0, total - 1, min(count, total), dtype=np.int64)


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
        self.images: Pictures = pictures(split, *raw_lines(encoded, split, len(lengths))) if pictures else none

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
    times = len(_cuts(split, subwords))
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
