"""The corpus of scenes: its splits, disjoint in every language, and its files."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from nmt.corpora.scenes import english, french, german
from nmt.corpora.scenes.drawing import draw
from nmt.corpora.scenes.grammar import sample
from nmt.corpora.scenes.scene import Scene
from nmt.system.files import atomic_directory, write_text

SEED = 1
"""The corpus's seed: it is one corpus, the same everywhere."""

SIZES = {"test_ambiguous": 500, "test": 500, "valid": 500, "train": 10_000}
"""Sentence pairs a split, in the order in which they are drawn: the training text gives way to the others."""

_CLAUSES: dict[str, Callable[[Scene], str]] = {
    "en": english.clause,
    "de": german.clause,
    "fr": french.clause,
}
_FORMS: dict[str, Callable[[Scene], str]] = {
    "en": english.ambiguous_form,
    "de": german.ambiguous_form,
    "fr": french.ambiguous_form,
}


def sentence(scene: Scene, language: str) -> str:
    """What the scene shows, as a caption in ``en``, ``de`` or ``fr``."""
    clause = _CLAUSES[language](scene)
    return f"{clause[0].upper()}{clause[1:]}."


def scenes(seed: int, count: int) -> Iterator[Scene]:
    """Yield ``count`` scenes; the same ones for the same seed, whatever the machine or the process."""
    return islice(_endless(seed), count)


@cache
def splits() -> dict[str, tuple[Scene, ...]]:
    """The scenes of each split: no sentence, in any language, is in two of them, nor twice in one.

    ``train`` and ``valid`` have ambiguous words as they come, ``test`` has none. In ``test_ambiguous`` each English
    sentence comes twice in a row, once in each sense: who does not look at the picture gets half of them right.
    """
    taken: set[str] = set()
    stream = (scene for scene in _endless(SEED) if _claim(scene, taken))
    found: dict[str, tuple[Scene, ...]] = {}
    for split, size in SIZES.items():
        if split == "test_ambiguous":
            found[split] = tuple(islice(_with_twins(stream, taken), size))
        else:
            fitting = (scene for scene in stream if split != "test" or scene.ambiguous is None)
            found[split] = tuple(islice(fitting, size))
    return {split: found[split] for split in ("train", "valid", "test", "test_ambiguous")}


def write_corpus(folder: Path, languages: str, limit: int | None = None) -> None:
    """Write ``{split}.{language}`` for each split and language.

    Where English is the source of a pair, also ``test_ambiguous.words.tsv``: for each line of that test set the
    ambiguous English word, its translation in the reference, and its translation in the wrong sense.

    Args:
        folder: where to write; made if it is not there.
        languages: source and target, e.g. ``en-de``; or one, ``en``.
        limit: write only the first so many pairs of each split.
    """
    codes = languages.split("-")
    chosen = {split: found[:limit] for split, found in splits().items()}
    for split, found in chosen.items():
        for language in codes:
            _write_lines(folder / f"{split}.{language}", (sentence(scene, language) for scene in found))
    if codes[0] == "en" and len(codes) == 2:
        words = ("\t".join(ambiguous_words(scene, codes[1])) for scene in chosen["test_ambiguous"])
        _write_lines(folder / "test_ambiguous.words.tsv", words)


def write_pictures(folder: Path, limit: int | None = None) -> None:
    """Draw the scenes of each split: ``{split}/00001.png`` and so on, named line by line in ``{split}.txt``.

    Args:
        folder: where to write, whole or not at all.
        limit: draw only the first so many of each split.
    """
    from tqdm import tqdm

    with atomic_directory(folder, "train.txt") as part:
        for split, found in splits().items():
            (part / split).mkdir()
            names = [f"{split}/{number:05}.png" for number, _ in enumerate(found[:limit], 1)]
            for name, scene in zip(tqdm(names, split, unit="picture", disable=None), found, strict=False):
                draw(scene).save(part / name, compress_level=1)
            _write_lines(part / f"{split}.txt", iter(names))


def ambiguous_words(scene: Scene, language: str) -> tuple[str, str, str]:
    """An ambiguous scene's English word; in ``language`` its noun as the sentence has it; and the other sense's."""
    form = _FORMS[language]
    return english.ambiguous_form(scene), form(scene), form(scene.twin)


def _endless(seed: int) -> Iterator[Scene]:
    rng = random.Random(f"scenes {seed}")  # a text seeds by its SHA-512, not by Python's hash
    while True:
        yield sample(rng)


def _claim(scene: Scene, taken: set[str]) -> bool:
    """Take a scene's sentences unless one of them is taken already; says whether that went well."""
    sentences = {sentence(scene, language) for language in _CLAUSES}
    if free := taken.isdisjoint(sentences):
        taken |= sentences
    return free


def _with_twins(stream: Iterator[Scene], taken: set[str]) -> Iterator[Scene]:
    """The ambiguous scenes of a stream, each with its other sense, whose English sentence is the same."""
    for scene in stream:
        if scene.ambiguous:
            taken |= {sentence(scene.twin, language) for language in _CLAUSES}
            yield from (scene, scene.twin)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
