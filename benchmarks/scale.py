"""Measure the cost of the stages against the size of a corpus: pairs per second and peak memory.

    python -m benchmarks.scale [--sizes 10000,100000,1000000] [--folder /tmp]

Each stage runs in its own process. The text is random. Each language has 50,000 words of syllables, drawn by Zipf's
law. Lengths are log-normal, 15 words on average; 5 of 100 pairs repeat an earlier pair. The text is in a temporary
folder; 10^7 pairs need 12 GB.

The costs are pairs a second, processor time, peak memory, the size of the output, and the temporary space beside it.
``--killed`` kills cleaning, subword learning and encoding with SIGKILL halfway and starts them again; the work that was
lost is the processor time of both runs less that of one without a kill.

``--orders`` measures only the order of one epoch, on arrays of random lengths: bytes a pair beyond what the imports
take, and processor time.

Cleaning has the settings for large corpora: NFC, invisible characters, lowercase, filters of length and ratio, no
repeated pairs. Up to ``--tokenised`` pairs are also cleaned with the default, which has Moses punctuation and
tokenisation. Only the first ``--decoded`` lines are translated.
"""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from nmt.system.files import sha256
from nmt.system.lines import count_lines

FILTERS = {"tokenize": "none", "punctuation": False, "deduplicate": True, "max_words": 50, "max_ratio": 5}
SUBWORDS = {"size": 16000}
MODEL = {"layers": 1, "width": 64, "ffn": 128, "heads": 2}
TRAINING = {"updates": 500, "batch": "1024 tokens", "validation_bleu": False, "checkpoint_every": "500 updates"}
DECODING = {"beam": 1, "length_factor": 1.0}
ORDER = """import sys
from pathlib import Path
from nmt.data.batches import Parallel
if len(sys.argv) > 1:
    Parallel(Path(sys.argv[1]), "train", 256).batches("4096 tokens", (1, 0))
"""
WORDS, BLOCK, REPEATED = 50_000, 10_000, 0.05
SYLLABLES = {
    "en": ["th", "er", "on", "an", "re", "he", "in", "ed", "nd", "ha", "at", "en", "es", "of", "or", "nt", "ea", "ti"],
    "de": ["er", "en", "ch", "de", "ei", "nd", "te", "in", "ie", "ge", "st", "ne", "be", "es", "un", "re", "ü", "ß"],
}


@dataclass(frozen=True)
class Cost:
    """The cost of a process."""

    wall: float  # seconds
    processor: float  # seconds of user and system time
    memory: float  # peak in MB
    disk: float  # MB that it left
    temporary: float  # MB that it used besides, at most


class Watched(threading.Thread):
    """Looks at the size of a folder twice a second."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.before, self.most = folder, size_of(folder), 0.0
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.5):
            self.most = max(self.most, size_of(self.folder))

    def end(self) -> tuple[float, float]:
        """Return what was left, and what was used besides."""
        self._ended.set()
        self.join()
        after = size_of(self.folder)
        return after - self.before, max(0.0, self.most - after)


def size_of(folder: Path) -> float:
    """Return the size of the files in a folder in MB; files that vanish meanwhile count nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total / 1e6


def measured(folder: Path, *command: str, kill_after: float | None = None) -> Cost:
    """Run a command that writes into a folder, and return its cost; exit if it fails without being killed."""
    started, watched = time.perf_counter(), Watched(folder)
    pid = os.posix_spawn(sys.executable, [sys.executable, *command], os.environ | {"OMP_NUM_THREADS": "1"})
    killer = threading.Timer(kill_after or 0, os.kill, (pid, signal.SIGKILL))
    if kill_after:
        killer.start()
    _, status, used = os.wait4(pid, 0)
    killer.cancel()
    if status and not kill_after:
        sys.exit(f"{' '.join(command)}: ended with {os.waitstatus_to_exitcode(status)}")
    cost = time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return Cost(*cost, *watched.end())


def lexicon(language: str) -> list[str]:
    """Return distinct words, short words first, because frequent words are short."""
    random = np.random.default_rng([len(language), *language.encode()])
    words: dict[str, None] = {}
    while len(words) < WORDS:
        length = 1 + random.poisson(0.5 + len(words) / WORDS * 2)
        words["".join(random.choice(SYLLABLES[language], length))] = None
    return list(words)


def sentences(words: list[str], lengths: np.ndarray, random: np.random.Generator) -> list[str]:
    """Return random sentences of these lengths."""
    ranks = np.cumsum(1 / np.arange(1, WORDS + 1))
    drawn = np.searchsorted(ranks, random.random(lengths.sum()) * ranks[-1]).tolist()
    chosen, ends = [words[i] for i in drawn], np.cumsum(lengths).tolist()
    texts = [" ".join(chosen[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
    return [f"{text.capitalize()}." for text in texts]


def generate(folder: Path, size: int) -> None:
    """Write a raw folder like the download stage, with one file per language and split."""
    folder.mkdir(parents=True)
    for split, count, seed in (("train", size, 1), ("valid", 1000, 2)):
        random = np.random.default_rng([seed, size])
        words = {language: lexicon(language) for language in SYLLABLES}
        with (folder / f"{split}.en").open("w") as source, (folder / f"{split}.de").open("w") as target:
            for start in range(0, count, BLOCK):
                lengths = random.lognormal(2.5, 0.6, min(BLOCK, count - start)).astype(int) + 1
                others = np.maximum(1, (lengths * random.lognormal(0, 0.15, len(lengths))).astype(int))
                pairs = list(zip(*map(sentences, words.values(), (lengths, others), (random, random)), strict=True))
                repeats = random.random(len(pairs)) < REPEATED
                pairs = [pairs[i // 2] if repeat else pairs[i] for i, repeat in enumerate(repeats)]
                source.writelines(f"{pair[0]}\n" for pair in pairs)
                target.writelines(f"{pair[1]}\n" for pair in pairs)
    (folder / "corpus.json").write_text(json.dumps({"corpus": "made-up", "splits": {"train": {}, "valid": {}}}))


def stages(folder: Path, size: int, tokenised: int, decoded: int, killed: bool) -> dict[str, tuple[int, Cost]]:
    """Run the stages; return pairs (for decoding, lines) and cost of each stage."""
    raw, clean, subwords, encoded = (str(folder / name) for name in ("raw", "clean", "subwords", "encoded"))
    pair, costs = ["--languages", "en-de"], dict[str, tuple[int, Cost]]()

    def stage(name: str, count: int, *arguments: str, out: str = "") -> None:
        costs[name] = count, measured(folder, "-m", "nmt", *arguments)
        print(f"{size:>12,} {name:40} {row(*costs[name])}", flush=True)
        if killed and out:
            again = interrupted(folder, Path(out), costs[name][1], *arguments)
            print(f"{size:>12,} {name:40} lost by a kill: {again:.1f} s of processor time", flush=True)

    generate(folder / "raw", size)
    stage("cleaning", size, "clean", raw, clean, *pair, "--config", json.dumps(FILTERS), out=clean)
    if size <= tokenised:
        stage("cleaning, tokenised", size, "clean", raw, f"{clean}-tokenised", *pair)
    kept = count_lines(Path(clean, "train.en"))
    stage("subword learning", kept, "subwords", clean, subwords, *pair, "--config", json.dumps(SUBWORDS), out=subwords)
    stage("encoding", kept, "encode", clean, subwords, encoded, *pair, out=encoded)
    run, model = str(folder / "run"), str(folder / "model")
    options = ["--config", json.dumps({"model": MODEL, "training": TRAINING}), "--device", "cpu", "--threads", "1"]
    stage("training, 500 updates", kept, "train", encoded, run, *options)
    measured(folder, "-m", "nmt", "average", run, model, "--encoded", encoded)
    lines = min(kept, decoded)
    with Path(clean, "train.en").open("rb") as text, (folder / "source").open("wb") as source:
        source.writelines(line for line, _ in zip(text, range(lines), strict=False))
    arguments = [model, str(folder / "source"), str(folder / "out"), "--config", json.dumps(DECODING)]
    stage("decoding", lines, "decode", *arguments, "--device", "cpu", "--threads", "1")
    return costs


def order_of_epoch(folder: Path, size: int) -> str:
    """Return the bytes a pair and the processor time that the order of an epoch takes."""
    writer = multiprocessing.get_context("spawn").Process(target=write_arrays, args=(folder, size))
    writer.start()  # the peak memory of a process is at least that of the one that starts it
    writer.join()
    imports, whole = (measured(folder, "-c", ORDER, *arguments) for arguments in ((), (str(folder),)))
    size_of_pair = (whole.memory - imports.memory) * 2**20 / size
    return f"{size:>12,} pairs: {size_of_pair:.0f} bytes a pair, {whole.processor - imports.processor:.1f} s"


def write_arrays(folder: Path, size: int) -> None:
    """Write encoded sentences of random lengths."""
    random = np.random.default_rng(size)
    lengths = random.lognormal(2.9, 0.6, size).astype(np.int64) + 1
    for side in ("source", "target"):
        offsets = np.concatenate([[0], lengths.cumsum()])
        np.save(folder / f"train.{side}.offsets.npy", offsets)
        np.save(folder / f"train.{side}.npy", np.zeros(offsets[-1], np.uint16))
        random.shuffle(lengths)
    meta = {"languages": "en-de", "splits": {"train": {"sentences": size}}, "vocabulary": {"source": 9, "target": 9}}
    meta |= {"ids": {"pad": 0, "unk": 1, "bos": 2, "eos": 3}, "cleaning": {}, "subwords": {"subwords": {}}}
    (folder / "meta.json").write_text(json.dumps(meta))


def interrupted(folder: Path, out: Path, whole: Cost, *arguments: str) -> float:
    """Kill a stage halfway, run it again, and return the processor time that was lost; its output is the same."""
    kept = out.rename(out.with_name(f"{out.name}-kept"))
    costs = [measured(folder, "-m", "nmt", *arguments, kill_after=seconds) for seconds in (whole.wall / 2, None)]
    for path in kept.iterdir():  # a model of sentencepiece contains the name of a temporary file
        assert path.suffix == ".model" or path.name == "meta.json" or sha256(path) == sha256(out / path.name), path
    shutil.rmtree(kept)
    return sum(cost.processor for cost in costs) - whole.processor


def row(count: int, cost: Cost) -> str:
    speeds = f"{count / cost.processor:,.0f} | {count / cost.wall:,.0f}"
    space = f"{cost.disk:,.0f} | {cost.temporary:,.0f}"
    return f"| {count:,} | {speeds} | {cost.processor:,.1f} | {cost.memory:,.0f} | {space} |"


@click.command()
@click.option("--sizes", default="10000,100000,1000000", help="Numbers of pairs of the corpora.")
@click.option("--tokenised", default=100_000, help="Pairs of the largest corpus that is also cleaned with Moses.")
@click.option("--decoded", default=10_000, help="Greatest number of decoded lines.")
@click.option("--orders", help="Numbers of pairs; measure only the order of an epoch of so many.")
@click.option("--killed", is_flag=True, help="Also kill stages halfway, and run them again.")
@click.option("--folder", default=tempfile.gettempdir(), help="Parent of the temporary folder.")
def main(sizes: str, tokenised: int, decoded: int, orders: str | None, killed: bool, folder: str) -> None:
    """Print the table of benchmarks/scale.md."""
    for size in map(int, orders.split(",") if orders else ()):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            print(order_of_epoch(Path(scratch), size), flush=True)
    if orders:
        return
    lines: dict[str, list[str]] = {}
    for size in map(int, sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            for name, measure in stages(Path(scratch), size, tokenised, decoded, killed).items():
                lines.setdefault(name, []).append(row(*measure))
    for name, rows in lines.items():
        heading = "| pairs | a second of processor time | a second | processor s | peak MB | disk MB | temporary MB |"
        heading += "\n|---|---|---|---|---|---|---|"
        print(f"\n{name}\n\n{heading}\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
