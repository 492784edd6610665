"""A sample of the training text as a test set, raw and cleaned."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.config import Cleaning
from nmt.corpora import TRAIN_SAMPLE
from nmt.errors import DataError
from nmt.files import atomic_directory, read_json, read_lines, write_text
from nmt.text.clean import Cleaner

CHUNK = 1000
Pair = tuple[str, ...]


def sample(raw: Path, clean: Path, out: Path, languages: str, count: int) -> None:
    """Write training pairs spread evenly over the cleaned text: ``out/raw`` and ``out/clean``, whole or not at all.

    They are those whose BLEU training watches (``train_bleu``), but where that leaves out pairs too long for the model.

    Args:
        raw: folder of the raw corpus.
        clean: folder that it was cleaned into.
        out: the folder to write.
        languages: source and target, e.g. ``en-de``.
        count: how many; all pairs where there are fewer.

    Raises:
        DataError: a file is missing, or ``clean`` was not made of ``raw``.
    """
    from nmt.data import evenly

    codes = languages.split("-")
    total = sum(1 for _ in read_lines(clean / f"train.{codes[0]}"))
    wanted = set(evenly(total, count).tolist())
    recipe = Cleaning(**read_json(clean / "report.json")["cleaning"])
    found = [both for i, both in enumerate(_kept(raw, clean, codes, recipe)) if i in wanted]
    if len(found) < len(wanted):
        raise DataError(f"{clean}: expected what {raw} is when cleaned, got other pairs; delete it and clean again")
    with atomic_directory(out) as folder:
        for name, pairs in zip(("raw", "clean"), zip(*found, strict=True), strict=True):
            for code, lines in zip(codes, zip(*pairs, strict=True), strict=True):
                write_text(folder / name / f"{TRAIN_SAMPLE}.{code}", "".join(f"{line}\n" for line in lines))


def _kept(raw: Path, clean: Path, codes: list[str], recipe: Cleaning) -> Iterator[tuple[Pair, Pair]]:
    """Each cleaned training pair after its raw one: raw pairs are cleaned again, and the dropped ones passed over."""
    cleaners = [Cleaner(recipe, code) for code in codes]
    kept = _pairs(clean, codes)
    expected = next(kept, None)
    pairs = _pairs(raw, codes)
    while chunk := list(islice(pairs, CHUNK)):
        for side, cleaner in enumerate(cleaners):
            cleaner.prepare(pair[side] for pair in chunk)
        for pair in chunk:
            if tuple(cleaner(line) for cleaner, line in zip(cleaners, pair, strict=True)) == expected:
                yield pair, expected
                expected = next(kept, None)


def _pairs(folder: Path, codes: list[str]) -> Iterator[Pair]:
    return zip(*(read_lines(folder / f"train.{code}") for code in codes), strict=True)
