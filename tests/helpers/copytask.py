"""The copy task: random sequences whose translation is themselves."""

import random
from pathlib import Path

from nmt.system.files import write_json

WORDS = [f"w{i}" for i in range(10)]


def copy_lines(count: int, seed: int) -> list[str]:
    """Random sequences of ten words: the target of the copy task is its source."""
    numbers = random.Random(seed)
    return [" ".join(numbers.choices(WORDS, k=numbers.randint(1, 9))) for _ in range(count)]


def write_clean(folder: Path, splits: dict[str, list[str]]) -> Path:
    """A cleaned corpus whose target equals its source."""
    folder.mkdir(parents=True)
    for split, lines in splits.items():
        for language in ("en", "de"):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    write_json(folder / "report.json", {"cleaning": {}, "languages": "en-de", "corpus": "copy", "splits": {}})
    return folder


def write_links(path: Path, lines: list[str]) -> Path:
    """The alignments of the copy task: word n to word n."""
    path.write_text("".join(" ".join(f"{n}-{n}" for n, _ in enumerate(line.split())) + "\n" for line in lines))
    return path
