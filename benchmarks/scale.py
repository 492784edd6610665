"""What the stages cost against the size of a corpus: pairs a second and peak memory, each in a process of its own.

    python -m benchmarks.scale [--sizes 10000,100000,1000000] [--folder /tmp]

The text is made up: words of syllables, 50,000 a language, drawn by Zipf's law; lengths log-normal, 15 words on
average; 5 of 100 pairs repeat an earlier one. It is written to a folder of its own, and deleted; 10^7 need 12 GB.
Cleaning is that of large corpora: NFC, invisible characters, lowercase, filters of length and ratio, no repetitions;
for up to ``--tokenised`` pairs also the default, with Moses punctuation and tokenisation. Only the first ``--decoded``
lines are translated.
"""

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from nmt.system.files import count_lines

FILTERS = {"tokenize": "none", "punctuation": False, "deduplicate": True, "max_words": 50, "max_ratio": 5}
SUBWORDS = {"size": 16000}
MODEL = {"layers": 1, "width": 64, "ffn": 128, "heads": 2}
TRAINING = {"updates": 1, "batch": "1024 tokens", "validation_bleu": False}
DECODING = {"beam": 1, "length_factor": 1.0}
WORDS, BLOCK, REPEATED = 50_000, 10_000, 0.05
SYLLABLES = {
    "en": ["th", "er", "on", "an", "re", "he", "in", "ed", "nd", "ha", "at", "en", "es", "of", "or", "nt", "ea", "ti"],
    "de": ["er", "en", "ch", "de", "ei", "nd", "te", "in", "ie", "ge", "st", "ne", "be", "es", "un", "re", "ü", "ß"],
}


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    wall: float  # seconds
    processor: float  # seconds, of user and system
    memory: float  # MB, at its peak


def measured(*command: str) -> Cost:
    """Run a command; raises if it fails."""
    started = time.perf_counter()
    pid = os.posix_spawn(sys.executable, [sys.executable, *command], os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def lexicon(language: str) -> list[str]:
    """Distinct words, short ones first, as frequent words are short."""
    random = np.random.default_rng([len(language), *language.encode()])
    words: dict[str, None] = {}
    while len(words) < WORDS:
        length = 1 + random.poisson(0.5 + len(words) / WORDS * 2)
        words["".join(random.choice(SYLLABLES[language], length))] = None
    return list(words)


def sentences(words: list[str], lengths: np.ndarray, random: np.random.Generator) -> list[str]:
    """Sentences of these lengths."""
    ranks = np.cumsum(1 / np.arange(1, WORDS + 1))
    drawn = np.searchsorted(ranks, random.random(lengths.sum()) * ranks[-1]).tolist()
    chosen, ends = [words[i] for i in drawn], np.cumsum(lengths).tolist()
    texts = [" ".join(chosen[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
    return [f"{text.capitalize()}." for text in texts]


def generate(folder: Path, size: int) -> None:
    """A raw folder as the download stage writes it, of one file a language and split."""
    folder.mkdir(parents=True)
    for split, count, seed in (("train", size, 1), ("valid", 1000, 2)):
        random = np.random.default_rng([seed, size])
        words = {language: lexicon(language) for language in SYLLABLES}
        with (folder / f"{split}.en").open("w") as source, (folder / f"{split}.de").open("w") as target:
            for start in range(0, count, BLOCK):
                lengths = random.lognormal(2.5, 0.6, min(BLOCK, count - start)).astype(int) + 1
                others = np.maximum(1, (lengths * random.lognormal(0, 0.15, len(lengths))).astype(int))
                pairs = list(zip(*map(sentences, words.values(), (lengths, others), (random, random)), strict=True))
                again = random.random(len(pairs)) < REPEATED
                pairs = [pairs[i // 2] if repeat else pairs[i] for i, repeat in enumerate(again)]
                source.writelines(f"{pair[0]}\n" for pair in pairs)
                target.writelines(f"{pair[1]}\n" for pair in pairs)
    (folder / "corpus.json").write_text(json.dumps({"corpus": "made-up", "splits": {"train": {}, "valid": {}}}))


def model_of(encoded: Path, folder: Path) -> Path:
    """A model that has learned next to nothing: decoding costs the same."""
    settings = json.dumps({"model": MODEL, "training": TRAINING})
    measured("-m", "nmt", "train", str(encoded), str(folder / "run"), "--config", settings, "--device", "cpu")
    measured("-m", "nmt", "average", str(folder / "run"), str(folder / "model"), "--encoded", str(encoded))
    return folder / "model"


def stages(folder: Path, size: int, tokenised: int, decoded: int) -> dict[str, tuple[int, Cost]]:
    """What each stage costs: pairs (of decoding, lines) and cost."""
    raw, clean, subwords, encoded = (str(folder / name) for name in ("raw", "clean", "subwords", "encoded"))
    pair, found = ["--languages", "en-de"], dict[str, tuple[int, Cost]]()

    def stage(name: str, count: int, *arguments: str) -> None:
        found[name] = count, measured("-m", "nmt", *arguments)
        print(f"{size:>12,} {name:40} {row(*found[name])}", flush=True)

    generate(folder / "raw", size)
    stage("cleaning", size, "clean", raw, clean, *pair, "--config", json.dumps(FILTERS))
    if size <= tokenised:
        stage("cleaning, tokenised", size, "clean", raw, f"{clean}-tokenised", *pair)
    kept = count_lines(Path(clean, "train.en"))
    stage("subword learning", kept, "subwords", clean, subwords, *pair, "--config", json.dumps(SUBWORDS))
    stage("encoding", kept, "encode", clean, subwords, encoded, *pair)
    model, lines = str(model_of(Path(encoded), folder)), min(kept, decoded)
    with Path(clean, "train.en").open("rb") as given, (folder / "source").open("wb") as source:
        source.writelines(line for line, _ in zip(given, range(lines), strict=False))
    arguments = [model, str(folder / "source"), str(folder / "out"), "--config", json.dumps(DECODING)]
    stage("decoding", lines, "decode", *arguments, "--device", "cpu", "--threads", "1")
    return found


def row(count: int, cost: Cost) -> str:
    speeds = f"{count / cost.processor:,.0f} | {count / cost.wall:,.0f}"
    return f"| {count:,} | {speeds} | {cost.processor:,.1f} | {cost.memory:,.0f} |"


@click.command()
@click.option("--sizes", default="10000,100000,1000000", help="Pairs of the corpora.")
@click.option("--tokenised", default=100_000, help="Largest corpus that is cleaned with Moses, too.")
@click.option("--decoded", default=10_000, help="Lines that are decoded, at most.")
@click.option("--folder", default=tempfile.gettempdir(), help="Where the text lies meanwhile.")
def main(sizes: str, tokenised: int, decoded: int, folder: str) -> None:
    """Print the table of benchmarks/scale.md."""
    found: dict[str, list[str]] = {}
    for size in map(int, sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            for name, measure in stages(Path(scratch), size, tokenised, decoded).items():
                found.setdefault(name, []).append(row(*measure))
    for name, rows in found.items():
        heading = "| pairs | a second of processor time | a second | processor s | peak MB |\n|---|---|---|---|---|"
        print(f"\n{name}\n\n{heading}\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
