"""How well filters find misaligned lines: pairs whose target is that of another line.

    python -m benchmarks.misaligned [--model demo] [--backward DIR] [--pairs 4000] [--rate 0.1]

English-French text that the model has not seen: the help of LibreOffice, and Multi30K's validation and test text. Two
kinds of misalignment: the target of a random line, and that of the next line, as after a lost line. The rules (length,
numbers, punctuation) need no model. The scores are those of ``nmt score-pairs``. Their threshold is chosen on one half
of the pairs, at a precision of at least 0.95, and measured on the other half.
"""

import gzip
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from nmt.config.corpus.filters import NumbersFilter, PunctuationFilter
from nmt.system.files import write_lines
from nmt.text.filters.judges import judge_of
from nmt.translation.pairs import score_text
from nmt.translation.translator import Translator

Pair = tuple[str, str]
PRECISION = 0.95
SETS = {
    "software help": ("debian_libreoffice_help/lohelp-7.4.7.en-fr.{}.gz",),
    "captions": ("multi30k/data/task1/raw/val.{}.gz", "multi30k/data/task1/raw/test_2016_flickr.{}.gz",
                 "multi30k/data/task1/raw/test_2017_flickr.{}.gz"),
}  # fmt: skip


def pairs_of(mirror: Path, names: Sequence[str], count: int) -> list[Pair]:
    """Consecutive pairs of some files, without pairs of the same sides."""
    found = list[Pair]()
    for name in names:
        sides = [gzip.decompress((mirror / name.format(code)).read_bytes()).decode() for code in ("en", "fr")]
        found += [(en.strip(), fr.strip()) for en, fr in zip(*(side.split("\n") for side in sides), strict=True)]
    return [pair for pair in found if pair[0].casefold() != pair[1].casefold()][:count]


def misaligned(pairs: Sequence[Pair], rate: float, shift: bool) -> tuple[list[Pair], NDArray[np.bool_]]:
    """Give some pairs the target of another line; return the pairs, and which are wrong."""
    random.seed(1)
    made, wrong = list(pairs), np.zeros(len(pairs), np.bool_)
    for number in range(len(pairs) - 1):
        if random.random() < rate:
            other = pairs[number + 1] if shift else random.choice(pairs)
            made[number] = (pairs[number][0], other[1])
            wrong[number] = other[1] != pairs[number][1]
    return made, wrong


def ratio(dropped: NDArray[np.bool_], wrong: NDArray[np.bool_]) -> tuple[float, float]:
    """Precision and recall."""
    both = int((dropped & wrong).sum())
    return both / max(1, int(dropped.sum())), both / max(1, int(wrong.sum()))


def threshold(scores: NDArray[np.float64], wrong: NDArray[np.bool_]) -> float:
    """The highest score below which at least `PRECISION` of the pairs are wrong."""
    order = np.argsort(scores)
    precision = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    fitting = np.flatnonzero(precision >= PRECISION)
    return float(scores[order[fitting[-1]]]) if len(fitting) else float("-inf")


def scored(translators: Sequence[Translator], pairs: Sequence[Pair]) -> tuple[NDArray[np.float64], float]:
    """The scores of all pairs, and pairs per second."""
    with tempfile.TemporaryDirectory() as scratch:
        files = [Path(scratch, name) for name in ("source", "target", "scores")]
        for side in range(2):
            write_lines(files[side], (pair[side] for pair in pairs))
        start = time.perf_counter()
        score_text(translators, *files)
        return np.loadtxt(files[2]), len(pairs) / (time.perf_counter() - start)


def by_length(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Whether a side has more than twice the letters of the other."""
    sizes = np.array([[len(side) + 5 for side in pair] for pair in pairs])
    return np.asarray(sizes.max(1) / sizes.min(1) > 2)


@click.command()
@click.option("--model", type=click.Path(path_type=Path), default=Path("demo"), show_default=True)
@click.option("--backward", type=click.Path(path_type=Path))
@click.option("--pairs", default=4000, show_default=True)
@click.option("--rate", default=0.1, show_default=True)
@click.option("--mirror", type=click.Path(path_type=Path), default=os.environ.get("NMT_MIRROR", "../shared/mirror"))
def main(model: Path, backward: Path | None, pairs: int, rate: float, mirror: Path) -> None:
    """Print precision and recall of each way."""
    translators = [Translator.load(folder, "cpu", 1) for folder in (model, backward) if folder]
    judges = [judge_of(each, ["en", "fr"], []) for each in (
        NumbersFilter(kind="numbers"), PunctuationFilter(kind="punctuation"))]  # fmt: skip
    print("| text | wrong target | found by | dropped | precision | recall | pairs/s |\n|---|---|---|---|---|---|---|")
    for name, files in SETS.items():
        for kind, shift in (("a random line's", False), ("the next line's", True)):
            made, wrong = misaligned(pairs_of(mirror, files, pairs), rate, shift)
            rules = [by_length(made), *(~np.array(judge(made), np.bool_) for judge in judges)]
            ways = dict(zip(("length", "numbers", "punctuation"), rules, strict=True))
            ways["the three rules"] = np.logical_or.reduce(rules)
            scores, speed = scored(translators, made)
            half = np.arange(len(made)) % 2 == 0
            for way, dropped in ways.items():
                print(row(name, kind, way, dropped[~half], wrong[~half], ""), flush=True)
            dropped = scores <= threshold(scores[half], wrong[half])
            print(row(name, kind, "scores of the model", dropped[~half], wrong[~half], f"{speed:.0f}"), flush=True)


def row(name: str, kind: str, way: str, dropped: NDArray[np.bool_], wrong: NDArray[np.bool_], speed: str) -> str:
    precision, recall = ratio(dropped, wrong)
    return f"| {name} | {kind} | {way} | {dropped.sum():,} | {precision:.3f} | {recall:.3f} | {speed} |"


if __name__ == "__main__":
    main()
