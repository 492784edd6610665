"""Filters of training pairs: precision, recall and speed on 10^6 pairs with noise at known rates, and the memory.

    python -m benchmarks.filters [--pairs 1000000] [--jobs 2]

Real English-French pairs, two at a time, are the clean text. Each kind of noise replaces 3 % of the pairs.
"""

import gzip
import json
import os
import random
import resource
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from nmt.config.data import Cleaning
from nmt.corpora.near import sketch
from nmt.system.files import read_json
from nmt.system.lines import read_lines
from nmt.text.clean import clean
from nmt.text.filters.duplicates import Sketches

Pair = tuple[str, str]
RATE = 0.03
KIND: dict[str, tuple[str, ...]] = {
    "language": ("wrong language", "swapped sides"), "script": ("garbage",), "numbers": ("numbers changed",),
    "punctuation": ("marks changed",), "equal": ("copied source",), "duplicates": ("near duplicates",),
    "overlap": ("test text",),
}  # fmt: skip
"""The kinds of noise that each filter is for."""


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
        yield (kind if made != pair else ""), made
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


def measure(raw: Path, out: Path, filters: list[dict[str, Any]], jobs: int) -> tuple[float, float, set[int]]:
    """Clean with filters; return seconds of the clock and of processors, and the numbers of the dropped pairs."""
    rest = {"tokenize": "none", "punctuation": False, "max_ratio": 100, "max_words": 1000}
    recipe = Cleaning.model_validate({"filters": filters} | rest)
    start, used = time.perf_counter(), os.times()
    clean(raw, out, recipe, "en-fr", jobs)
    now = os.times()
    cpu = sum(now[:4]) - sum(used[:4])
    return time.perf_counter() - start, cpu, {int(line) - 1 for line in read_lines(out / "train.dropped.txt")}


@click.command()
@click.option("--pairs", default=1_000_000)
@click.option("--jobs", default=2)
@click.option("--only", multiple=True, type=click.Choice(list(KIND)), help="Measure these filters alone.")
@click.option("--mirror", type=click.Path(path_type=Path), default=os.environ.get("NMT_MIRROR", "../shared/mirror"))
def main(pairs: int, jobs: int, only: tuple[str, ...], mirror: Path) -> None:
    """Print a table of all filters, and examples of what each dropped."""
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch, "raw")
        kinds = write(raw, pairs, mirror)
        before, base_cpu, _ = measure(raw, Path(scratch, "none"), [], jobs)
        print(f"{pairs:,} pairs, {RATE:.0%} of them of each kind of noise; {jobs} processes. Cleaning alone: "
              f"{pairs / before:,.0f} pairs/s, {base_cpu:,.0f} s of processor time.\n")  # fmt: skip
        print("| filter | its kind of noise | dropped | precision | recall of its kind | pairs per processor second |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, own in {name: KIND[name] for name in only or KIND}.items():
            _, cpu, dropped = measure(raw, Path(scratch, name), [{"kind": name}], jobs)
            mine = {number for number, kind in enumerate(kinds) if kind in own}
            right = sum(bool(kinds[number]) for number in dropped) / max(1, len(dropped))
            speed = pairs / max(1e-9, cpu - base_cpu)
            recall = len(mine & dropped) / max(1, len(mine))
            print(
                f"| {name} | {', '.join(own)} | {len(dropped):,} | {right:.3f} | {recall:.3f} | {speed:,.0f} |",
                flush=True,
            )
        if only:
            return
        together, cpu, dropped = measure(raw, Path(scratch, "all"), [{"kind": name} for name in KIND], jobs)
        noisy = {number for number, kind in enumerate(kinds) if kind}
        print(f"| all in a row | all | {len(dropped):,} | {len(noisy & dropped) / len(dropped):.3f} | "
              f"{len(noisy & dropped) / len(noisy):.3f} | {pairs / (cpu - base_cpu):,.0f} |")  # fmt: skip
        peak = [resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(f"\nAll in a row: {pairs / together:,.0f} pairs/s. Most memory: {peak[0]:,} MiB of the main process, "
              f"which also holds the kinds of noise, {peak[1]:,} MiB of a worker.\n")  # fmt: skip
        print("Precision counts a dropped pair as right if it is noise of any kind. Ten pairs that each dropped:\n")
        for each in read_json(Path(scratch, "all", "report.json"))["splits"]["train"]["filters"]:
            print(f"- **{each['name']}**")
            for source, target in each["examples"]:
                print(f"    - {shown(source)} → {shown(target)}")


def shown(text: str) -> str:
    text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
    return (text if len(text) < 90 else text[:89] + "…").replace("|", "\\|")


if __name__ == "__main__":
    main()
