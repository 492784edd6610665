"""Encode a cleaned corpus as flat arrays of subword ids, which training reads memory-mapped."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.config.data import Subwords
from nmt.data.encoded import checksums
from nmt.system.chunks import WHOLE, Chunks, Shard, blocks, mark
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED, atomic_directory, build_stored, copy_file, read_json, sha256, write_json
from nmt.system.lines import count_lines, read_lines
from nmt.system.progress import Progress
from nmt.text.subwords import SIDES, Vocabulary, load_vocabularies

SPLITS = ("train", "valid")
CHUNK = 1_000_000
"""Lines per chunk: chunks are written to disk one by one, and shards divide them among machines."""
BATCH = 10_000
"""Lines encoded at a time."""
IDS, LENGTHS = "ids", "lengths"
"""Files of a chunk: flat ids, and the number of ids of each line."""


def encode_corpus(clean: Path, subwords: Path, out: Path, languages: str, shard: Shard | None = None) -> None:
    """Encode the training and validation text; writes the folder ``out`` atomically.

    The folder contains everything that training reads, including the subword models.

    Args:
        clean: folder of the cleaned text.
        subwords: folder of the subword models.
        out: folder to write.
        languages: source and target, e.g. ``en-de``.
        shard: encode only this share of the chunks, without joining; None encodes all missing chunks and joins them.

    Raises:
        DataError: a file is missing or not UTF-8, or the two sides have different numbers of lines.
        ConfigError: the subwords belong to other languages or to the other direction.
    """
    learned = read_json(subwords / "subwords.json")
    learned_languages = learned.get("languages", languages)  # older folders do not record them
    if learned_languages != languages:
        raise ConfigError(
            f"{subwords}: expected subwords of {languages}, got those of {learned_languages}; learn subwords of "
            f"{languages}, or change --languages"
        )
    vocabularies = load_vocabularies(subwords, learned["vocab_sha256"])
    texts = {split: [clean / f"{split}.{language}" for language in languages.split("-")] for split in SPLITS}
    inputs = [*(subwords / f"{side}.model" for side in SIDES), *chain.from_iterable(texts.values())]
    config = build_stored(Subwords, learned["subwords"], subwords / "subwords.json")
    chunks = Chunks(out, mark([CHUNK, config.dropout], inputs), CHUNK)
    if shard:
        for split, files in texts.items():
            for file, vocabulary, side in zip(files, vocabularies, SIDES, strict=True):
                _encode_side(chunks, file, vocabulary, f"{split}.{side}", _dropouts(split, config), shard)
        return
    try:
        with atomic_directory(out, "meta.json") as folder:
            splits = {
                split: _encode_split(chunks, split, files, vocabularies, _dropouts(split, config), folder)
                for split, files in texts.items()
            }
            _write_rest(folder, clean, subwords, languages, splits)
    except DataError:
        chunks.delete()  # the data is faulty, so they are useless
        raise
    chunks.delete()


def _dropouts(split: str, config: Subwords) -> list[float]:
    """Return the BPE-dropout of each encoding of a split; only the training split uses dropout."""
    return [config.dropout] * config.segmentations if split == "train" else [0.0]


def _write_rest(folder: Path, clean: Path, subwords: Path, languages: str, splits: dict[str, Any]) -> None:
    """Write all files except the arrays."""
    for name in (*(f"{side}.model" for side in SIDES), *(f"{side}.vocab" for side in SIDES)):
        copy_file(subwords / name, folder / name)
    if (dropped := clean / DROPPED).is_file():
        copy_file(dropped, folder / DROPPED)
    copy_file(clean / f"valid.{languages.split('-')[1]}", folder / "valid.references.txt")
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
        **{key: report[key] for key in ("licence", "images") if key in report},
        "sha256": checksums(folder),
    }
    write_json(folder / "meta.json", meta)


def _encode_split(
    chunks: Chunks,
    split: str,
    files: Sequence[Path],
    vocabularies: Sequence[Vocabulary],
    dropouts: Sequence[float],
    folder: Path,
) -> dict[str, Any]:
    """Encode all missing chunks of a split and join them; return its part of meta.json."""
    counts = []
    for file, vocabulary, side in zip(files, vocabularies, SIDES, strict=True):
        places = _encode_side(chunks, file, vocabulary, f"{split}.{side}", dropouts)
        counts.append(_join(places, folder / f"{split}.{side}", _dtype(vocabulary)))
    _check_aligned(files, [sentences // len(dropouts) for sentences, _ in counts])
    return {
        "sentences": counts[0][0],
        **{f"{side}_pieces": pieces for side, (_, pieces) in zip(SIDES, counts, strict=True)},
        **{f"{side}_sha256": sha256(file) for side, file in zip(SIDES, files, strict=True)},
    }


def _check_aligned(files: Sequence[Path], counts: Sequence[int]) -> None:
    if counts[0] != counts[1]:
        pairs = " and ".join(f"{file} has {count:,} lines" for file, count in zip(files, counts, strict=True))
        raise DataError(f"{pairs}; expected the same number on both sides, as line n translates line n")
    if not counts[0]:
        raise DataError(
            f"{files[0]} and {files[1]}: expected sentences, got empty files; report.json of cleaning shows why"
        )


def _encode_side(
    chunks: Chunks, text: Path, vocabulary: Vocabulary, name: str, dropouts: Sequence[float], shard: Shard = WHOLE
) -> list[Path]:
    """Encode a text once per dropout; return the paths of all chunks, in order."""
    rounds = [_encode_chunks(chunks, text, vocabulary, f"{name}-{n}-", p, shard) for n, p in enumerate(dropouts)]
    return list(chain.from_iterable(rounds))


def _encode_chunks(
    chunks: Chunks, text: Path, vocabulary: Vocabulary, name: str, dropout: float, shard: Shard
) -> list[Path]:
    """Encode the missing chunks of a shard of one text; return the paths of all chunks."""
    lines = count_lines(text)
    numbers = chunks.numbers(lines, shard)
    total = min(lines, CHUNK * len(numbers))
    with Progress(f"encode {text.name}", total, "line") as shown:
        for place, block in chunks.missing(read_lines(text, numbers.start * CHUNK), numbers, name):
            with atomic_directory(place) as part, (part / IDS).open("wb") as ids, (part / LENGTHS).open("wb") as sizes:
                while batch := list(islice(block, BATCH)):
                    # The seed depends only on the text and round, so resuming and sharding do not change the ids.
                    seed = zlib.crc32("\n".join([name, *batch]).encode()) if dropout else 0
                    rows = vocabulary.encode(batch, dropout, seed)
                    flat = np.fromiter(chain.from_iterable(rows), _dtype(vocabulary))
                    ids.write(flat.data)  # `tofile` hides a full disk
                    sizes.write(np.fromiter(map(len, rows), np.int64, len(rows)).data)
                    shown.update(len(batch))
    return chunks.paths(lines, name)


def _join(places: Sequence[Path], out: Path, dtype: type[np.generic]) -> tuple[int, int]:
    """Write ``out.npy`` (flat ids) and ``out.offsets.npy`` from chunks; return the numbers of sentences and pieces."""
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
    """Open a ``.npy`` file and write the header of a flat array; the caller writes the items."""
    with path.open("wb") as stream:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (items,)}
        np.lib.format.write_array_header_1_0(stream, header)
        yield stream


def _dtype(vocabulary: Vocabulary) -> type[np.generic]:
    return np.uint16 if len(vocabulary) <= 2**16 else np.int32
