"""A small corpus of several pairs of languages: in each language a number has another word."""

from pathlib import Path

from copytask import copy_lines

from nmt.config.data import Subwords
from nmt.data.encode import encode_corpus
from nmt.system.files import write_json
from nmt.text.subwords import learn

COUNTS = {"en-de": 300, "en-fr": 60, "de-en": 20}
SYLLABLES = ["ba", "du", "fo", "gi", "ke", "la", "mo", "nu", "pi", "so"]
PAIRS = ",".join(COUNTS)


def words(line: str, language: str) -> str:
    """A line of the copy task in a language: a word is a language's code and a syllable for the number."""
    return " ".join(language + SYLLABLES[int(word[1:])] for word in line.split())


def write_pairs(folder: Path, counts: dict[str, int] = COUNTS) -> list[Path]:
    """The cleaned text of each pair, with so many training pairs and 20 validation pairs; all pairs differ."""
    for seed, (pair, count) in enumerate(counts.items()):
        (folder / pair).mkdir(parents=True)
        for language in pair.split("-"):
            for split, number in (("train", count), ("valid", 20), ("test", 20)):
                lines = [words(line, language) for line in copy_lines(number, seed + 10 * len(split))]
                (folder / pair / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
        report = {"cleaning": {}, "languages": pair, "corpus": "several", "splits": {}, "licence": f"of {pair}"}
        write_json(folder / pair / "report.json", report)
    return [folder / pair for pair in counts]


def encode_pairs(folder: Path, subwords: Subwords, counts: dict[str, int] = COUNTS) -> Path:
    """The encoded text of all pairs."""
    clean = write_pairs(folder / "clean", counts)
    learn(clean, folder / "subwords", ",".join(counts), subwords)
    encode_corpus(clean, folder / "subwords", folder / "encoded", ",".join(counts))
    return folder / "encoded"
