"""Write a sample of the training text as a test set, raw and cleaned."""

from collections.abc import Iterator
from pathlib import Path

from nmt.config.data import Cleaning
from nmt.corpora.catalogue import TRAIN_SAMPLE
from nmt.corpora.parts import misaligned
from nmt.system.arrays import evenly
from nmt.system.errors import DataError
from nmt.system.files import DROPPED, atomic_directory, read_json, write_text
from nmt.system.lines import count_lines, read_lines
from nmt.text.filters.noise import noisy
from nmt.text.languages import base

Pair = tuple[str, str]


def sample(raw: Path, clean: Path, out: Path, languages: str, count: int) -> None:
    """Write evenly spaced training pairs to ``out/raw`` and ``out/clean``; writes ``out`` atomically.

    Training measures ``train_bleu`` on the same pairs, unless some pairs are too long for the model. The raw pairs have
    the noise of the recipe, as the cleaned ones do.

    Args:
        raw: folder of the raw corpus.
        clean: folder of the cleaned corpus.
        out: folder to write.
        languages: source and target, e.g. ``en-de``.
        count: number of pairs; all pairs if the corpus has fewer.

    Raises:
        DataError: a file is missing, or ``clean`` was not made from ``raw``.
    """
    codes = languages.split("-")
    dropped = set(read_lines(clean / DROPPED))
    for folder in (clean, raw):
        counts = {path: count_lines(path) for path in (folder / f"train.{code}" for code in codes)}
        if len(set(counts.values())) > 1:
            raise misaligned(counts)
    total, raw_total = (count_lines(folder / f"train.{codes[0]}") for folder in (clean, raw))
    if total + len(dropped) != raw_total:
        raise DataError(f"{clean}: expected the cleaned pairs of {raw}, got other pairs; delete it and clean again")
    wanted = set(evenly(total, count).tolist())
    kept = (pair for number, pair in enumerate(_pairs(raw, codes), 1) if str(number) not in dropped)
    report = read_json(clean / "report.json")
    noise, tags = Cleaning.model_validate(report["cleaning"]).noise, report.get("tags", [])
    chosen = [
        (noisy(before, noise, (base(codes[0]), base(codes[1])), tags)[0], after)
        for i, (before, after) in enumerate(zip(kept, _pairs(clean, codes), strict=True))
        if i in wanted
    ]
    with atomic_directory(out, "raw") as folder:
        for name, pairs in zip(("raw", "clean"), zip(*chosen, strict=True), strict=True):
            for code, lines in zip(codes, zip(*pairs, strict=True), strict=True):
                write_text(folder / name / f"{TRAIN_SAMPLE}.{code}", "".join(f"{line}\n" for line in lines))


def _pairs(folder: Path, codes: list[str]) -> Iterator[Pair]:
    source, target = (read_lines(folder / f"train.{code}") for code in codes)
    return zip(source, target, strict=True)
