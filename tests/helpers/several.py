"""A small corpus of several pairs of languages: in each language a number has another word."""

import random
from collections.abc import Sequence
from pathlib import Path

from nmt.config.data import Subwords
from nmt.data.encode import encode_corpus
from nmt.system.files import write_json
from nmt.text.subwords import learn

COUNTS = {"en-de": 300, "en-fr": 60, "de-en": 20}
SYLLABLES = ["ba", "du", "fo", "gi", "ke", "la", "mo", "nu", "pi", "so"]
PAIRS = ",".join(COUNTS)


def sentence(numbers: Sequence[int], language: str) -> str:
    """Numbers in a language: a word is the language's code and a syllable."""
    return " ".join(language + SYLLABLES[number] for number in numbers)


def _write(path: Path, count: int, seed: int) -> None:
    """Sentences of four words, so that batches have few shapes."""
    numbers = random.Random(seed)
    lines = [sentence(numbers.choices(range(10), k=4), path.suffix[1:]) for _ in range(count)]
    path.write_text("".join(f"{line}\n" for line in lines))


def write_pairs(folder: Path, counts: dict[str, int] = COUNTS) -> list[Path]:
    """The cleaned text of each pair, with so many training pairs and 20 validation pairs; all pairs differ."""
    for seed, (pair, count) in enumerate(counts.items()):
        (folder / pair).mkdir(parents=True)
        for language in pair.split("-"):
            for split, number in (("train", count), ("valid", 20), ("test", 20)):
                _write(folder / pair / f"{split}.{language}", number, seed + 10 * len(split))
        report = {"cleaning": {}, "languages": pair, "corpus": "several", "splits": {}, "licence": f"of {pair}"}
        write_json(folder / pair / "report.json", report)
    return [folder / pair for pair in counts]


def encode_pairs(folder: Path, subwords: Subwords, counts: dict[str, int] = COUNTS) -> Path:
    """The encoded text of all pairs."""
    clean = write_pairs(folder / "clean", counts)
    learn(clean, folder / "subwords", ",".join(counts), subwords)
    encode_corpus(clean, folder / "subwords", folder / "encoded", ",".join(counts))
    return folder / "encoded"
