"""The corpus of scenes: its splits, which are disjoint in every language, and its files."""

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
"""The seed is fixed, so the corpus is the same everywhere."""

SIZES = {"test_ambiguous": 500, "test": 500, "valid": 500, "train": 10_000}
"""Sentence pairs per split, in the order of drawing; training comes last and avoids the sentences of the others."""

_CLAUSES: dict[str, Callable[[Scene], str]] = {"en": english.clause, "de": german.clause, "fr": french.clause}
_FORMS: dict[str, Callable[[Scene], str]] = {
    "en": english.ambiguous_form,
    "de": german.ambiguous_form,
    "fr": french.ambiguous_form,
}


def sentence(scene: Scene, language: str) -> str:
    """Return a caption of the scene in ``en``, ``de`` or ``fr``."""
    clause = _CLAUSES[language](scene)
    return f"{clause[0].upper()}{clause[1:]}."


def scenes(seed: int, count: int) -> Iterator[Scene]:
    """Yield ``count`` scenes; a seed gives the same scenes on every machine."""
    return islice(_endless(seed), count)


@cache
def splits() -> dict[str, tuple[Scene, ...]]:
    """Return the scenes of each split; no sentence occurs twice, in any language.

    ``test`` has no ambiguous words, ``train`` and ``valid`` have some. In ``test_ambiguous`` each English sentence
    occurs twice in a row, once per sense: without the picture, a model can translate only half of them correctly.
    """
    used: set[str] = set()
    stream = (scene for scene in _endless(SEED) if _claim(scene, used))
    drawn: dict[str, tuple[Scene, ...]] = {}
    for split, size in SIZES.items():
        if split == "test_ambiguous":
            drawn[split] = tuple(islice(_with_twins(stream, used), size))
        else:
            fitting = (scene for scene in stream if split != "test" or scene.ambiguous is None)
            drawn[split] = tuple(islice(fitting, size))
    return {split: drawn[split] for split in ("train", "valid", "test", "test_ambiguous")}


def write_corpus(folder: Path, languages: str, limit: int | None = None) -> None:
    """Write ``{split}.{language}`` for each split and language.

    If English is the source of a pair, also write ``test_ambiguous.words.tsv``. For each line of that test set it has
    the ambiguous English word, its translation in the reference, and its translation in the wrong sense.

    Args:
        folder: where to write; created if needed.
        languages: source and target, e.g. ``en-de``; or one, e.g. ``en``.
        limit: write only the first ``limit`` pairs of each split.
    """
    codes = languages.split("-")
    limited = {split: drawn[:limit] for split, drawn in splits().items()}
    for split, drawn in limited.items():
        for language in codes:
            _write_lines(folder / f"{split}.{language}", (sentence(scene, language) for scene in drawn))
    if codes[0] == "en" and len(codes) == 2:
        words = ("\t".join(ambiguous_words(scene, codes[1])) for scene in limited["test_ambiguous"])
        _write_lines(folder / "test_ambiguous.words.tsv", words)


def write_pictures(folder: Path, limit: int | None = None) -> None:
    """Draw the scenes of each split as ``{split}/00001.png`` and so on; ``{split}.txt`` lists the names in order.

    Args:
        folder: where to write; it is written atomically.
        limit: draw only the first ``limit`` scenes of each split.
    """
    from tqdm import tqdm

    with atomic_directory(folder, "train.txt") as part:
        for split, drawn in splits().items():
            (part / split).mkdir()
            names = [f"{split}/{number:05}.png" for number, _ in enumerate(drawn[:limit], 1)]
            for name, scene in zip(tqdm(names, split, unit="picture", disable=None), drawn, strict=False):
                draw(scene).save(part / name, compress_level=1)
            _write_lines(part / f"{split}.txt", iter(names))


def ambiguous_words(scene: Scene, language: str) -> tuple[str, str, str]:
    """Return three forms of an ambiguous scene's noun, as the sentences have them.

    They are the English word, its translation into ``language``, and the translation of its other sense.
    """
    form = _FORMS[language]
    return english.ambiguous_form(scene), form(scene), form(scene.twin)


def _endless(seed: int) -> Iterator[Scene]:
    rng = random.Random(f"scenes {seed}")  # Python seeds with the SHA-512 of a string, not with its hash()
    while True:
        yield sample(rng)


def _claim(scene: Scene, used: set[str]) -> bool:
    """If none of a scene's sentences is used, mark them as used; return whether this was the case."""
    sentences = {sentence(scene, language) for language in _CLAUSES}
    if new := used.isdisjoint(sentences):
        used |= sentences
    return new


def _with_twins(stream: Iterator[Scene], used: set[str]) -> Iterator[Scene]:
    """Yield each ambiguous scene of a stream, followed by its twin with the other sense."""
    for scene in stream:
        if scene.ambiguous:
            used |= {sentence(scene.twin, language) for language in _CLAUSES}
            yield from (scene, scene.twin)


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
