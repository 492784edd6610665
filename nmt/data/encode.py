"""Encode a cleaned corpus as flat arrays of subword ids, which training reads memory-mapped."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.config.data import Cleaning, Subwords
from nmt.data.encoded import checksums
from nmt.system.chunks import WHOLE, Chunks, Shard, blocks, mark
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED, atomic_directory, build_stored, copy_file, read_json, sha256, write_json
from nmt.system.lines import count_lines, read_lines
from nmt.system.progress import Progress
from nmt.system.workers import batched
from nmt.text.languages import folders_of
from nmt.text.subwords import SIDES, Vocabulary, load_vocabularies

SPLITS = ("train", "valid")
CHUNK = 1_000_000
"""Lines per chunk: chunks are written to disk one by one, and shards divide them among machines."""
BATCH = 10_000
"""Lines encoded at a time."""
IDS, LENGTHS = "ids", "lengths"
"""Files of a chunk: flat ids, and the number of ids of each line."""


@dataclass(frozen=True)
class _Text:
    """One side of the text of a pair of languages in a split."""

    file: Path
    vocabulary: Vocabulary
    name: str  # beginning of the names of its chunks
    to: str | None  # of a source side, the target language


def encode_corpus(
    clean: Path | Sequence[Path], subwords: Path, out: Path, languages: str, shard: Shard | None = None
) -> None:
    """Encode the training and validation text; writes the folder ``out`` atomically.

    The folder contains everything that training reads, including the subword models. Several pairs of languages follow
    one another, in one pair of arrays; ``meta.json`` has the number of sentences of each. If the vocabulary has tags of
    target languages, a source sentence begins with that of its target.

    Args:
        clean: folder of the cleaned text; of several pairs, the folder of each.
        subwords: folder of the subword models.
        out: folder to write.
        languages: source and target, e.g. ``en-de``; or several pairs, ``en-de,en-fr``.
        shard: encode only this share of the chunks, without joining; None encodes all missing chunks and joins them.

    Raises:
        DataError: a file is missing or not UTF-8, or the two sides have different numbers of lines.
        ConfigError: the subwords belong to other languages or to the other direction, or the cleaning of the pairs
            differs.
    """
    folders = folders_of(clean, languages)
    learned = read_json(subwords / "subwords.json")
    learned_languages = learned.get("languages", languages)  # older folders do not record them
    if learned_languages != languages:
        raise ConfigError(
            f"{subwords}: expected subwords of {languages}, got those of {learned_languages}; learn subwords of "
            f"{languages}, or change --languages"
        )
    vocabularies = load_vocabularies(subwords, learned["vocab_sha256"])
    texts = {split: _texts(folders, split, vocabularies) for split in SPLITS}
    files = [text.file for both in chain.from_iterable(texts.values()) for text in both]
    inputs = [*(subwords / f"{side}.model" for side in SIDES), *files]
    config = build_stored(Subwords, learned["subwords"], subwords / "subwords.json")
    chunks = Chunks(out, mark([CHUNK, config.dropout], inputs), CHUNK)
    if shard:
        for split, pairs in texts.items():
            for text in chain.from_iterable(pairs):
                _encode_side(chunks, text, _dropouts(split, config), shard)
        return
    with atomic_directory(out, "meta.json") as folder:
        try:
            splits = {
                split: _encode_split(chunks, split, dict(zip(folders, pairs, strict=True)), config, folder)
                for split, pairs in texts.items()
            }
            _write_rest(folder, folders, subwords, languages, splits)
        except DataError:
            chunks.delete()  # the data is faulty, so they are useless
            raise
    chunks.delete()


def _texts(folders: Mapping[str, Path], split: str, vocabularies: Sequence[Vocabulary]) -> list[list[_Text]]:
    """Return both sides of a split, of each pair of languages."""
    texts = []
    for pair, folder in folders.items():
        name, codes = f"{split}.{pair}" if len(folders) > 1 else split, pair.split("-")
        sides = zip(SIDES, codes, vocabularies, (codes[1], None), strict=True)
        texts.append([_Text(folder / f"{split}.{code}", v, f"{name}.{side}", to) for side, code, v, to in sides])
    return texts


def _dropouts(split: str, config: Subwords) -> list[float]:
    """Return the BPE-dropout of each encoding of a split; only the training split uses dropout."""
    return [config.dropout] * config.segmentations if split == "train" else [0.0]


def _write_rest(
    folder: Path, folders: Mapping[str, Path], subwords: Path, languages: str, splits: dict[str, Any]
) -> None:
    """Write all files except the arrays."""
    for name in (*(f"{side}.model" for side in SIDES), *(f"{side}.vocab" for side in SIDES)):
        copy_file(subwords / name, folder / name)
    if len(folders) == 1 and (dropped := next(iter(folders.values())) / DROPPED).is_file():
        copy_file(dropped, folder / DROPPED)
    with (folder / "valid.references.txt").open("wb") as stream:
        stream.writelines(blocks([clean / f"valid.{pair.split('-')[1]}" for pair, clean in folders.items()]))
    report, learned = _joined_report(folders.values()), read_json(subwords / "subwords.json")
    vocabularies = [Vocabulary(folder / f"{side}.model") for side in SIDES]
    meta: dict[str, Any] = {
        "languages": languages,
        "splits": splits,
        "vocabulary": {side: len(v) for side, v in zip(SIDES, vocabularies, strict=True)},
        "ids": vocabularies[0].ids.model_dump(),
        "cleaning": report["cleaning"],
        "subwords": {key: learned[key] for key in ("subwords", "vocab_sha256")},
        "corpus": report.get("corpus"),
        **{key: report[key] for key in ("licence", "images") if key in report},
        **({"parts": _parts(report["parts"], folder)} if "parts" in report and len(folders) == 1 else {}),
        "sha256": checksums(folder),
    }
    write_json(folder / "meta.json", meta)


def _parts(raw: Sequence[tuple[str, int]], folder: Path) -> list[tuple[str, int]]:
    """Return name and number of sentences of each part of the training text, given its raw lines; some are dropped."""
    lines = read_lines(folder / DROPPED) if (folder / DROPPED).is_file() else ()
    dropped, ends = np.fromiter(map(int, lines), np.int64), np.cumsum([0, *(lines for _, lines in raw)])
    kept = np.diff(ends - np.searchsorted(dropped, ends, side="right"))
    return [(name, int(sentences)) for (name, _), sentences in zip(raw, kept, strict=True)]


def _joined_report(folders: Iterable[Path]) -> dict[str, Any]:
    """Return what the reports of cleaning say of all pairs; raises ConfigError if their cleaning differs."""
    reports = {folder: read_json(folder / "report.json") for folder in folders}
    first, report = next(iter(reports.items()))
    for folder, other in reports.items():
        if Cleaning(**other["cleaning"]) != Cleaning(**report["cleaning"]):  # earlier versions wrote fewer keys
            raise ConfigError(f"{folder}: expected text cleaned like {first}, got another recipe; clean one again")
    licences = dict.fromkeys(other["licence"] for other in reports.values() if "licence" in other)
    return dict(report) | ({"licence": "; ".join(licences)} if licences else {})


def _encode_split(
    chunks: Chunks, split: str, pairs: Mapping[str, Sequence[_Text]], config: Subwords, folder: Path
) -> dict[str, Any]:
    """Encode all missing chunks of a split and join them; return its part of meta.json."""
    dropouts, parts = _dropouts(split, config), dict[str, dict[str, Any]]()
    places = {side: list[Path]() for side in SIDES}
    for pair, texts in pairs.items():
        chunks_of = [_encode_side(chunks, text, dropouts) for text in texts]
        counts = [_count(found, _dtype(text.vocabulary)) for found, text in zip(chunks_of, texts, strict=True)]
        _check_aligned([text.file for text in texts], [sentences // len(dropouts) for sentences, _ in counts])
        parts[pair] = {
            "sentences": counts[0][0],
            **{f"{side}_pieces": pieces for side, (_, pieces) in zip(SIDES, counts, strict=True)},
            **{f"{side}_sha256": sha256(text.file) for side, text in zip(SIDES, texts, strict=True)},
        }
        for side, found in zip(SIDES, chunks_of, strict=True):
            places[side] += found
    for side, text in zip(SIDES, next(iter(pairs.values())), strict=True):
        _join(places[side], folder / f"{split}.{side}", _dtype(text.vocabulary))
    if len(parts) == 1:
        return next(iter(parts.values()))
    totals = {key: sum(part[key] for part in parts.values()) for key in ("sentences", *(f"{s}_pieces" for s in SIDES))}
    return totals | {"pairs": parts}


def _check_aligned(files: Sequence[Path], counts: Sequence[int]) -> None:
    if counts[0] != counts[1]:
        pairs = " and ".join(f"{file} has {count:,} lines" for file, count in zip(files, counts, strict=True))
        raise DataError(f"{pairs}; expected the same number on both sides, as line n translates line n")
    if not counts[0]:
        raise DataError(
            f"{files[0]} and {files[1]}: expected sentences, got empty files; report.json of cleaning shows why"
        )


def _encode_side(chunks: Chunks, text: _Text, dropouts: Sequence[float], shard: Shard = WHOLE) -> list[Path]:
    """Encode a text once per dropout; return the paths of all chunks, in order."""
    rounds = [_encode_chunks(chunks, text, f"{text.name}-{n}-", p, shard) for n, p in enumerate(dropouts)]
    return list(chain.from_iterable(rounds))


def _encode_chunks(chunks: Chunks, text: _Text, name: str, dropout: float, shard: Shard) -> list[Path]:
    """Encode the missing chunks of a shard of one text; return the paths of all chunks."""
    lines = count_lines(text.file)
    numbers = chunks.numbers(lines, shard)
    total = min(lines, CHUNK * len(numbers))
    with Progress(f"encode {text.file.name}", total, "line") as shown:
        for place, block in chunks.missing(read_lines(text.file, numbers.start * CHUNK), numbers, name):
            with atomic_directory(place) as part, (part / IDS).open("wb") as ids, (part / LENGTHS).open("wb") as sizes:
                for batch in batched(block, BATCH):
                    # The seed depends only on the text and round, so resuming and sharding do not change the ids.
                    seed = zlib.crc32("\n".join([name, *batch]).encode()) if dropout else 0
                    rows = text.vocabulary.encode(batch, dropout, seed, text.to)
                    flat = np.fromiter(chain.from_iterable(rows), _dtype(text.vocabulary))
                    ids.write(flat.data)  # `tofile` hides a full disk
                    sizes.write(np.fromiter(map(len, rows), np.int64, len(rows)).data)
                    shown.update(len(batch))
    return chunks.paths(lines, name)


def _count(places: Sequence[Path], dtype: type[np.generic]) -> tuple[int, int]:
    """Return the numbers of sentences and pieces in chunks."""
    sentences = sum((place / LENGTHS).stat().st_size for place in places) // np.dtype(np.int64).itemsize
    return sentences, sum((place / IDS).stat().st_size for place in places) // np.dtype(dtype).itemsize


def _join(places: Sequence[Path], out: Path, dtype: type[np.generic]) -> None:
    """Write ``out.npy`` (flat ids) and ``out.offsets.npy`` from chunks."""
    sentences, pieces = _count(places, dtype)
    with _array(out.with_name(f"{out.name}.npy"), dtype, pieces) as stream:
        stream.writelines(blocks([place / IDS for place in places]))
    with _array(out.with_name(f"{out.name}.offsets.npy"), np.int64, sentences + 1) as stream:
        ends = np.zeros(1, np.int64)
        stream.write(ends.tobytes())
        for block in blocks([place / LENGTHS for place in places]):
            ends = ends[-1] + np.frombuffer(block, np.int64).cumsum()
            stream.write(ends.tobytes())


@contextmanager
def _array(path: Path, dtype: type[np.generic], items: int) -> Iterator[BinaryIO]:
    """Open a ``.npy`` file and write the header of a flat array; the caller writes the items."""
    with path.open("wb") as stream:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (items,)}
        np.lib.format.write_array_header_1_0(stream, header)
        yield stream


def _dtype(vocabulary: Vocabulary) -> type[np.generic]:
    return np.uint16 if len(vocabulary) <= 2**16 else np.int32
