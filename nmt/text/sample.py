"""A sample of the training text as a test set, raw and cleaned."""

from collections.abc import Iterator
from pathlib import Path

from nmt.corpora.catalogue import TRAIN_SAMPLE, misaligned
from nmt.system.errors import DataError
from nmt.system.files import DROPPED, atomic_directory, count_lines, read_lines, write_text
from nmt.system.indices import evenly

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
    codes = languages.split("-")
    gone = set(read_lines(clean / DROPPED))
    for folder in (clean, raw):
        counts = {path: count_lines(path) for path in (folder / f"train.{code}" for code in codes)}
        if len(set(counts.values())) > 1:
            raise misaligned(counts)
    total, there = (count_lines(folder / f"train.{codes[0]}") for folder in (clean, raw))
    if total + len(gone) != there:
        raise DataError(f"{clean}: expected what {raw} is when cleaned, got other pairs; delete it and clean again")
    wanted = set(evenly(total, count).tolist())
    left = (pair for number, pair in enumerate(_pairs(raw, codes), 1) if str(number) not in gone)
    found = [both for i, both in enumerate(zip(left, _pairs(clean, codes), strict=True)) if i in wanted]
    with atomic_directory(out, "raw") as folder:
        for name, pairs in zip(("raw", "clean"), zip(*found, strict=True), strict=True):
            for code, lines in zip(codes, zip(*pairs, strict=True), strict=True):
                write_text(folder / name / f"{TRAIN_SAMPLE}.{code}", "".join(f"{line}\n" for line in lines))


def _pairs(folder: Path, codes: list[str]) -> Iterator[Pair]:
    return zip(*(read_lines(folder / f"train.{code}") for code in codes), strict=True)
