"""Cleaning: raw text becomes the text that models see; lines by a recipe, then training pairs by shape.

`Cleaner` is all that happens to a line; corpora and sentences to be translated go through the same one.
"""

import hashlib
import multiprocessing
import os
import threading
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from nmt.config import Cleaning
from nmt.corpora import misaligned
from nmt.errors import DataError
from nmt.files import DROPPED, atomic_directory, read_json, read_lines, write_json
from nmt.text.steps import devanagari, hyphens, ranges, symbols
from nmt.text.tokenize import detokenize, normalize_punctuation, tokenize
from nmt.text.transliterate import scheme, to_devanagari, to_latin

CHUNK = 1000
"""Pairs that a worker cleans at a time."""

RULES = {"empty": "a side is empty", "long": "max_words", "ratio": "max_ratio", "duplicate": "deduplicate"}
"""Why training pairs are dropped, in the order tried, and the recipe's key behind it."""

Pair = tuple[str, str]
Cleaned = tuple[list[Pair | None], Counter[str]]  # None: a pair that was dropped
Map = Callable[[Callable[[list[Pair]], Cleaned], Iterable[list[Pair]]], Iterable[Cleaned]]


class _Characters(dict[int, str | int | None]):
    """A translation table for `str.translate` that is filled as characters are met."""

    def __init__(self, rule: Callable[[str], str | int | None]) -> None:
        self.rule = rule

    def __missing__(self, code: int) -> str | int | None:
        self[code] = result = self.rule(chr(code))
        return result


def _visible(character: str) -> str | int | None:
    """White space becomes a space; control, format and private characters go.

    The no-break space stays for now: punctuation normalisation reads it (``10 000``). Joiners stay for good:
    Indic and Arabic scripts spell with them.
    """
    if character.isspace():
        return character if character == "\u00a0" else " "
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Co") and character not in "\u200c\u200d"
    return None if hidden else ord(character)


def _latin(character: str) -> str | int | None:
    """Keep Latin letters (and accents that stand alone), ASCII, punctuation and spaces."""
    category = unicodedata.category(character)
    letter = category[0] == "L" and unicodedata.name(character, "").startswith("LATIN ")
    keep = character.isascii() or letter or category[0] in "PZ" or "\u0300" <= character <= "\u036f"
    return ord(character) if keep else None


_VISIBLE, _LATIN = _Characters(_visible), _Characters(_latin)


class Cleaner:
    """One language's lines by one recipe: ``Cleaner(recipe, "de")("Ein  Hund.")`` → ``"ein hund ."``."""

    def __init__(self, recipe: Cleaning, language: str) -> None:
        """Take a recipe and the language's ISO code, on which punctuation and tokenisation depend."""
        self.recipe = recipe
        self.language = language
        self._steps = [step for step in (ranges, symbols, hyphens) if getattr(recipe, step.__name__)]
        self._scheme = scheme(recipe, language)

    def __call__(self, text: str) -> str:
        """A line as models see it."""
        return self.counted(text)[0]

    def prepare(self, lines: Iterable[str]) -> None:
        """Have ready what costs less for many lines at once: their transliterated words."""
        if self._scheme:
            to_latin(unicodedata.normalize("NFC", "\n".join(lines)), self._scheme)

    def counted(self, text: str) -> tuple[str, int]:
        """A line as models see it, and how many characters were removed as control or not allowed ones."""
        if self.recipe.unicode != "none":
            text = unicodedata.normalize(self.recipe.unicode, text)
        visible = text.translate(_VISIBLE)
        removed = len(text) - len(visible)
        text = devanagari(visible, self.language) if self.recipe.devanagari else visible
        text = text.lower() if self.recipe.lowercase else text
        if self.recipe.punctuation:
            text = normalize_punctuation(text, self.language)
        for step in self._steps:
            text = step(text, self.language)
        if self.recipe.tokenize == "moses":
            text = tokenize(text, self.language)
        if self._scheme:
            text = to_latin(text, self._scheme)
        if self.recipe.characters == "latin":
            allowed = text.translate(_LATIN)
            removed, text = removed + len(text) - len(allowed), allowed
        return " ".join(text.split()), removed


def clean_line(text: str, language: str, recipe: Cleaning) -> str:
    """A line of a language as models see it."""
    return Cleaner(recipe, language)(text)


def restore(text: str, language: str, recipe: Cleaning) -> str:
    """A cleaned line as people write it, as far as it tells: in its own script, detokenised."""
    if found := scheme(recipe, language):
        text = to_devanagari(text, found)
    return detokenize(text, language) if recipe.tokenize == "moses" else text


def clean(raw: Path, out: Path, recipe: Cleaning, languages: str, jobs: int = 1) -> None:
    """Clean a raw folder into another, whole or not at all, with ``report.json`` of what was dropped and why.

    Only training pairs are dropped, and the numbers of their raw lines, from 1, written to ``train.dropped.txt``; lines
    of the other splits stay aligned with their raw text. Memory does not grow with the corpus, but where pairs are
    dropped: by a number each, and for duplicates by a 16-byte digest a kept pair.

    Args:
        raw: folder with ``corpus.json`` and ``{split}.{language}`` files.
        out: the folder to write.
        recipe: what to do.
        languages: source and target, e.g. ``en-de``.
        jobs: worker processes; the output does not depend on them.

    Raises:
        DataError: misaligned or non-UTF-8 files, or no training pair left.
    """
    corpus = read_json(raw / "corpus.json")
    report: dict[str, Any] = {
        "corpus": corpus["corpus"],
        "languages": languages,
        "cleaning": recipe.model_dump(mode="json"),
        **({"images": corpus["images"]} if "images" in corpus else {}),
        "splits": {},
    }
    with atomic_directory(out) as part, _workers(jobs) as run:
        for split in corpus["splits"]:
            report["splits"][split] = _clean_split(split, raw, part, recipe, languages, run)
        if "train" in report["splits"]:
            _refuse_empty(report["splits"]["train"], raw, recipe)
        write_json(part / "report.json", report)


def _clean_split(split: str, raw: Path, out: Path, recipe: Cleaning, languages: str, run: Map) -> dict[str, Any]:
    """Clean both sides of a split; returns its part of the report."""
    names = [f"{split}.{language}" for language in languages.split("-")]
    work = partial(_clean_chunk, recipe, languages, split == "train")
    counts: Counter[str] = Counter()
    unique = _unique(counts) if recipe.deduplicate and split == "train" else None
    dropped: list[int] = []
    with (
        (out / names[0]).open("w", encoding="utf-8") as source,
        (out / names[1]).open("w", encoding="utf-8") as target,
    ):
        for pairs, found in run(work, _chunks(_pairs(raw / names[0], raw / names[1]))):
            counts.update(found)
            for number, pair in enumerate(pairs, counts["read"] - len(pairs) + 1):
                if pair is None or (unique and not unique(pair)):
                    dropped.append(number)
                    continue
                source.write(pair[0] + "\n")
                target.write(pair[1] + "\n")
                counts.update(kept=1, source_words=len(pair[0].split()), target_words=len(pair[1].split()))
    if split == "train":
        (out / DROPPED).write_text("".join(f"{line}\n" for line in dropped), encoding="utf-8")
    return _report(counts, languages)


def _clean_chunk(recipe: Cleaning, languages: str, training: bool, chunk: list[Pair]) -> Cleaned:
    """What one worker does: each pair cleaned, or None where it is dropped, and counts by reason."""
    source_cleaner, target_cleaner = (Cleaner(recipe, language) for language in languages.split("-"))
    source_cleaner.prepare(pair[0] for pair in chunk)
    target_cleaner.prepare(pair[1] for pair in chunk)
    cleaned: list[Pair | None] = []
    counts = Counter(read=len(chunk))
    for pair in chunk:
        source, removed = source_cleaner.counted(pair[0])
        target, also_removed = target_cleaner.counted(pair[1])
        counts["characters_removed"] += removed + also_removed
        if training and (fault := _fault(source, target, recipe)):
            counts[fault] += 1
            cleaned.append(None)
        else:
            cleaned.append((source, target))
    return cleaned, counts


def _fault(source: str, target: str, recipe: Cleaning) -> str | None:
    """The first rule that a training pair breaks."""
    shorter, longer = sorted((len(source.split()), len(target.split())))
    if shorter == 0:
        return "empty"
    if longer > recipe.max_words:
        return "long"
    return "ratio" if longer > recipe.max_ratio * shorter else None


def _unique(counts: Counter[str]) -> Callable[[Pair], bool]:
    """A test for pairs not seen before; counts the others."""
    seen: set[bytes] = set()

    def unseen(pair: Pair) -> bool:
        digest = hashlib.blake2b("\n".join(pair).encode(), digest_size=16).digest()
        if digest in seen:
            counts["duplicate"] += 1
            return False
        seen.add(digest)
        return True

    return unseen


def _report(counts: Counter[str], languages: str) -> dict[str, Any]:
    source, target = languages.split("-")
    return {
        "read": counts["read"],
        "kept": counts["kept"],
        "dropped": {rule: counts[rule] for rule in RULES},
        "characters_removed": counts["characters_removed"],
        "words": {source: counts["source_words"], target: counts["target_words"]},
    }


def _refuse_empty(train: dict[str, Any], raw: Path, recipe: Cleaning) -> None:
    if train["kept"]:
        return
    values = recipe.model_dump() | {"a side is empty": "after cleaning"}
    rules = [
        f"{train['dropped'][rule]} by {key} ({values[key]})" for rule, key in RULES.items() if train["dropped"][rule]
    ]
    raise DataError(
        f"{raw}: no training pair is left of {train['read']}: {', '.join(rules) or 'the files are empty'}; "
        f"{train['characters_removed']} characters were removed (characters: {recipe.characters}); "
        f"check the files, or relax these keys under cleaning"
    )


def _pairs(source: Path, target: Path) -> Iterator[Pair]:
    for one, other in zip_longest(read_lines(source), read_lines(target)):
        if one is None or other is None:
            raise misaligned({path: sum(1 for _ in read_lines(path)) for path in (source, target)})
        yield one, other


def _chunks(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk


@contextmanager
def _workers(jobs: int) -> Iterator[Map]:
    """Give a map over ``jobs`` processes that keeps the order."""
    if jobs <= 1:
        yield map
        return
    try:
        with ProcessPoolExecutor(jobs, initializer=_end_with_parent) as pool:
            yield partial(_map_ahead, pool, 2 * jobs)
    except BrokenProcessPool:
        raise DataError("a cleaning process was killed, likely for lack of memory; run again with fewer jobs") from None


def _map_ahead(
    pool: ProcessPoolExecutor, ahead: int, work: Callable[[list[Pair]], Cleaned], chunks: Iterable[list[Pair]]
) -> Iterator[Cleaned]:
    """Results in order, ``ahead`` chunks in flight (the pool's own map would read the whole corpus first)."""
    waiting: deque[Future[Cleaned]] = deque()
    for chunk in chunks:
        waiting.append(pool.submit(work, chunk))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _end_with_parent() -> None:
    """Make a worker end when its parent is killed; it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
