"""Filters of training pairs: precision, recall and speed on 10^6 pairs with noise at known rates, and the memory.

    python -m benchmarks.filters [--pairs 1000000] [--jobs 2] [--together]

Real English-French pairs, two at a time, are the clean text. Each kind of noise replaces 3 % of the pairs.
"""

import gzip
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from nmt.corpora.near import sketch
from nmt.system.files import read_json
from nmt.system.lines import read_lines
from nmt.text.filters.duplicates import Sketches

Pair = tuple[str, str]
RATE = 0.03
KIND: dict[str, tuple[str, ...]] = {
    "language": ("wrong language", "swapped sides"), "script": ("garbage",), "numbers": ("numbers changed",),
    "punctuation": ("marks changed",), "equal": ("copied source",), "duplicates": ("near duplicates", "repeated"),
    "overlap": ("test text",),
}  # fmt: skip
"""The kinds of noise that each filter is for."""
HEADS = [
    "filter", "its kind of noise", "dropped", "precision", "recall of its kind", "recall of misaligned lines",
    "pairs per processor second", "MiB",
]  # fmt: skip


def main_pairs(mirror: Path) -> list[Pair]:
    """Distinct English-French pairs of Multi30K, Tatoeba and the help of LibreOffice."""
    task, office = mirror / "multi30k/data/task1/raw", mirror / "debian_libreoffice_help"
    pairs = list(zip(lines(task / "train.en.gz"), lines(task / "train.fr.gz"), strict=True))
    with zipfile.ZipFile(mirror / "tatoeba_manythings/fra-eng.2019-04-08.zip") as archive:
        rows = archive.read("fra-eng/fra.txt").decode().splitlines()
    pairs += [(row.split("\t")[0], row.split("\t")[1]) for row in rows]
    pairs += list(
        zip(lines(office / "lohelp-7.4.7.en-fr.en.gz"), lines(office / "lohelp-7.4.7.en-fr.fr.gz"), strict=True)
    )
    return distinct([pair for pair in dict.fromkeys(pairs) if all(12 <= len(side) <= 300 for side in pair)])


def distinct(pairs: list[Pair]) -> list[Pair]:
    """Leave out pairs that nearly equal an earlier one, so that the only near duplicates are those that are made."""
    with tempfile.TemporaryDirectory() as scratch:
        sketches = Sketches(Path(scratch))
        for first in range(0, len(pairs), 1000):
            sketches.add(*sketch(pairs[first : first + 1000]))
        repeated = sketches.repeats(np.ones(len(pairs), np.bool_), 0.7)
    return [pair for pair, repeats in zip(pairs, repeated, strict=True) if not repeats]


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return stream.read().splitlines()


def noises(pairs: list[Pair], test: list[Pair], german: list[str]) -> dict[str, Callable[[Pair, list[Pair]], Pair]]:
    """Functions that spoil a pair; they are given the pairs so far."""

    def typo(text: str) -> str:
        place = random.randrange(len(text))
        return text[:place] + random.choice("aeiounrst") + text[place:]

    def digits(text: str) -> str:
        return "".join(str((int(c) + 5) % 10) if c.isdigit() else c for c in text)

    def garbage() -> str:
        ranges = [(0x2500, 0x25FF), (0xA1, 0xBF), (0x4E00, 0x4EFF), (0x400, 0x44F)]
        low, high = random.choice(ranges)
        return " ".join("".join(chr(random.randint(low, high)) for _ in range(random.randint(2, 8))) for _ in range(8))

    def near(_: Pair, seen: list[Pair]) -> Pair:
        source, target = random.choice(seen)
        forms = [(source.upper(), target), (typo(source), target), (source.rstrip(".") + " !", typo(target))]
        return random.choice(forms)

    def numbers(pair: Pair, _: list[Pair]) -> Pair:
        year = str(random.randint(1000, 9999))
        return f"{pair[0]} ({year})", f"{pair[1]} ({digits(year)})"

    return {
        "near duplicates": near,
        "repeated": lambda _, seen: random.choice(seen),
        "misaligned": lambda pair, seen: (pair[0], random.choice(seen)[1]),
        "wrong language": lambda pair, _: (pair[0], " ".join(random.sample(german, 2))),
        "swapped sides": lambda pair, _: (pair[1], pair[0]),
        "copied source": lambda pair, _: (pair[0], pair[0]),
        "garbage": lambda pair, _: (pair[0], garbage()) if random.random() < 0.5 else (garbage(), pair[1]),
        "numbers changed": numbers,
        "marks changed": lambda pair, _: (f"{pair[0]} (yes?) (no!)", pair[1].replace(".", "")),
        "test text": lambda pair, _: (random.choice(test)[0], pair[1]),
    }


def corpus(count: int, mirror: Path) -> Iterator[tuple[str, Pair]]:
    """Yield pairs with their kind; first the 2,000 pairs of test text."""
    random.seed(1)
    pairs, german = main_pairs(mirror), lines(mirror / "multi30k/data/task1/raw/train.de.gz")
    german += lines(mirror / "debian_libreoffice_help/lohelp-7.4.7.en-de.de.gz")
    random.shuffle(pairs)
    test, pairs = pairs[:2000], pairs[2000:]
    yield from (("test", pair) for pair in test)
    make, used, recent = noises(pairs, test, [text for text in german if len(text) > 30]), set[Pair](), list[Pair]()
    while count:
        first, second = random.sample(pairs, 2)
        if not 0.5 < len(first[0]) / len(second[0]) < 2:  # else the longer one alone makes near duplicates
            continue
        pair = f"{first[0]} {second[0]}", f"{first[1]} {second[1]}"
        if pair in used:
            continue
        used.add(pair)
        kind = next(iter(random.choices([*make, ""], [RATE] * len(make) + [1 - RATE * len(make)])))
        made = make[kind](pair, recent) if kind and len(recent) > 100 else pair
        yield (kind if made != pair else ""), made  # a repeated pair differs from the one in whose place it is
        if not kind:
            recent.append(pair)
            recent[:-5000] = []
        count -= 1


def write(folder: Path, count: int, mirror: Path) -> list[str]:
    """Write the corpus; return the kind of each training pair."""
    folder.mkdir()
    made, kinds = corpus(count, mirror), list[str]()
    for split, part in (("test", islice(made, 2000)), ("train", made)):
        with (folder / f"{split}.en").open("w") as english, (folder / f"{split}.fr").open("w") as french:
            for kind, (source, target) in part:
                english.write(f"{source}\n")
                french.write(f"{target}\n")
                kinds += [kind] if split == "train" else []
    (folder / "corpus.json").write_text(json.dumps({"corpus": "copy", "splits": {"train": {}, "test": {}}}))
    return kinds


class Measured(NamedTuple):
    """What cleaning with some filters took, and what it dropped."""

    seconds: float
    processor: float
    """Seconds of all processes together."""
    memory: int
    """Most memory of a process, in MiB."""
    dropped: set[int]


def measure(raw: Path, out: Path, filters: list[dict[str, Any]], jobs: int) -> Measured:
    """Clean with filters, in a process of its own."""
    recipe = {"tokenize": "none", "punctuation": False, "max_ratio": 100, "max_words": 1000, "filters": filters}
    command = [sys.executable, "-m", "nmt", "clean", str(raw), str(out), "--languages=en-fr", f"--jobs={jobs}"]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--config", json.dumps(recipe)], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"nmt clean ended with {os.waitstatus_to_exitcode(status)}")
    seconds, processor = time.perf_counter() - start, used.ru_utime + used.ru_stime
    dropped = {int(line) - 1 for line in read_lines(out / "train.dropped.txt")}
    return Measured(seconds, processor, used.ru_maxrss // 1024, dropped)


@click.command()
@click.option("--pairs", default=1_000_000)
@click.option("--jobs", default=2)
@click.option("--only", multiple=True, type=click.Choice(list(KIND)), help="Measure these filters alone.")
@click.option("--each/--together", default=True, help="Whether each filter is measured by itself, too.")
@click.option("--mirror", type=click.Path(path_type=Path), default=os.environ.get("NMT_MIRROR", "../shared/mirror"))
def main(pairs: int, jobs: int, only: tuple[str, ...], each: bool, mirror: Path) -> None:
    """Print a table of all filters, and examples of what each dropped."""
    chosen = {name: KIND[name] for name in only or KIND}
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch, "raw")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            kinds = pool.submit(write, raw, pairs, mirror).result()  # its memory would count as that of the others
        base = measure(raw, Path(scratch, "none"), [], jobs)
        print(
            f"{pairs:,} pairs, {RATE:.0%} of them of each kind of noise; {jobs} processes. Cleaning alone: "
            f"{pairs / base.seconds:,.0f} pairs/s, {base.processor:,.0f} s of processor time, {base.memory} MiB.\n"
        )
        print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
        for name, own in chosen.items() if each else ():
            print(row(name, own, kinds, base, measure(raw, Path(scratch, name), [{"kind": name}], jobs)), flush=True)
        together = measure(raw, Path(scratch, "all"), [{"kind": name} for name in chosen], jobs)
        own = tuple(kind for kinds_of_one in chosen.values() for kind in kinds_of_one)
        print(row("all in a row", own, kinds, base, together))
        print(
            f"\nAll in a row: {pairs / together.seconds:,.0f} pairs/s. Precision counts a dropped pair as right if it "
            "is noise of any kind. Ten pairs that each dropped:\n"
        )
        for found in read_json(Path(scratch, "all", "report.json"))["splits"]["train"]["filters"]:
            print(f"- **{found['name']}**")
            for source, target in found["examples"]:
                print(f"    - {shown(source)} → {shown(target)}")


def row(name: str, own: tuple[str, ...], kinds: list[str], base: Measured, found: Measured) -> str:
    """Format a line of the table."""

    def recall(wanted: tuple[str, ...]) -> float:
        mine = {number for number, kind in enumerate(kinds) if kind in wanted}
        return len(mine & found.dropped) / max(1, len(mine))

    right = sum(bool(kinds[number]) for number in found.dropped) / max(1, len(found.dropped))
    speed = len(kinds) / max(1e-9, found.processor - base.processor)
    noise = ", ".join(own) if len(own) < 4 else "all of them"
    return (
        f"| {name} | {noise} | {len(found.dropped):,} | {right:.3f} | {recall(own):.3f} | "
        f"{recall(('misaligned',)):.3f} | {speed:,.0f} | {found.memory} |"
    )


def shown(text: str) -> str:
    text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
    return (text if len(text) < 90 else text[:89] + "…").replace("|", "\\|")


if __name__ == "__main__":
    main()
