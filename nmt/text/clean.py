"""Cleaning: raw text becomes the text that models see; lines by a recipe, then training pairs by shape.

`Cleaner` is all that happens to a line; corpora and sentences to be translated go through the same one.
"""

import multiprocessing
import os
import sys
import threading
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any

from nmt.config.data import Cleaning
from nmt.corpora.catalogue import misaligned
from nmt.system.chunks import WHOLE, Chunks, Shard, mark
from nmt.system.errors import DataError
from nmt.system.files import DROPPED, atomic_directory, count_lines, read_json, read_lines, write_json
from nmt.text.join import COUNTS, DIGESTS, KEPT, SIDES, join
from nmt.text.repeats import WIDTH
from nmt.text.steps import devanagari, hyphens, ranges, symbols
from nmt.text.tokenize import detokenize, normalize_punctuation, tokenize
from nmt.text.transliterate import scheme, to_devanagari, to_latin

SPACELESS = {"zh", "ja", "th", "lo", "km", "my", "bo"}  # languages written without spaces between words
CHUNK = 1_000_000
"""Pairs that are cleaned before they are put on disk; shards share out such chunks."""
BATCH = 1000
"""Pairs that a worker cleans at a time."""

RULES = {"empty": "a side is empty", "long": "max_words", "ratio": "max_ratio", "duplicate": "deduplicate"}
"""Why training pairs are dropped, in the order tried, and the recipe's key behind it."""

Pair = tuple[str, str]
Cleaned = tuple[dict[str, bytes], Counter[str]]  # what a batch adds to the files of its chunk
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
        visible = text if text.isprintable() else text.translate(_VISIBLE)
        removed = len(text) - len(visible)
        text = devanagari(visible, self.language) if self.recipe.devanagari else visible
        text = _lower(text, self.language) if self.recipe.lowercase else text
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


def clean(raw: Path, out: Path, recipe: Cleaning, languages: str, jobs: int = 1, shard: Shard | None = None) -> None:
    """Clean a raw folder into another, whole or not at all, with ``report.json`` of what was dropped and why.

    Only training pairs are dropped, and the numbers of their raw lines, from 1, written to ``train.dropped.txt``; lines
    of the other splits stay aligned with their raw text. Memory does not grow with the corpus: chunks of it are kept on
    disk, where repeated pairs are found too.

    Args:
        raw: folder with ``corpus.json`` and ``{split}.{language}`` files.
        out: the folder to write.
        recipe: what to do.
        languages: source and target, e.g. ``en-de``.
        jobs: worker processes; the output does not depend on them.
        shard: clean this share of the chunks, and stop; None cleans those that are missing, and joins all.

    Raises:
        DataError: misaligned or non-UTF-8 files, no training pair left, or a split without a word.
    """
    if spaceless := SPACELESS & set(languages.split("-")):
        print(
            f"nmt: warning: {' and '.join(sorted(spaceless))} is written without spaces, between which words are "
            "counted (max_words, max_ratio) and BLEU measured: segment the text into words first",
            file=sys.stderr,
        )
    corpus = read_json(raw / "corpus.json")
    made = {"corpus": corpus["corpus"], "languages": languages, "cleaning": recipe.model_dump(mode="json")}
    made |= {"images": corpus["images"]} if "images" in corpus else {}
    texts = {split: [raw / f"{split}.{language}" for language in languages.split("-")] for split in corpus["splits"]}
    chunks = Chunks(out, mark([made, CHUNK], chain.from_iterable(texts.values())), CHUNK)
    with _workers(jobs) as run:
        if shard:
            for split, files in texts.items():
                _clean_chunks(chunks, split, files, recipe, run, shard)
            return
        try:
            _clean_and_join(chunks, texts, out, recipe, made, run)
        except DataError:
            chunks.forget()  # as it cannot go on
            raise
    chunks.forget()


def _clean_and_join(
    chunks: Chunks, texts: dict[str, list[Path]], out: Path, recipe: Cleaning, made: dict[str, Any], run: Map
) -> None:
    """Clean the chunks that are missing, and write everything."""
    report: dict[str, Any] = {}
    with atomic_directory(out, "report.json") as part:
        for split, files in texts.items():
            places = _clean_chunks(chunks, split, files, recipe, run)
            outs, training = [part / file.name for file in files], split == "train"
            counts = join(places, outs, part / DROPPED if training else None, training and recipe.deduplicate)
            report[split] = _report(counts, made["languages"])
            if training:
                _refuse_empty(report[split], files[0].parent, recipe)
            for file, words in zip(files, (counts["source_words"], counts["target_words"]), strict=True):
                if not words:
                    raise DataError(f"{file}: expected sentences, got {counts['read']} lines without a word; give some")
        write_json(part / "report.json", made | {"splits": report})


def _clean_chunks(
    chunks: Chunks, split: str, files: list[Path], recipe: Cleaning, run: Map, shard: Shard = WHOLE
) -> list[Path]:
    """Clean a shard's chunks of a split that are not there yet; returns the places of all chunks."""
    lines, others = (count_lines(file) for file in files)
    if lines != others:
        raise misaligned(dict(zip(files, (lines, others), strict=True)))
    numbers = chunks.numbers(lines, shard)
    pairs = zip(*(read_lines(file, numbers.start * CHUNK) for file in files), strict=True)
    languages = [file.suffix.removeprefix(".") for file in files]
    work = partial(_clean_batch, [Cleaner(recipe, language) for language in languages], split == "train")
    for place, block in chunks.undone(pairs, numbers, f"{split}-"):
        with atomic_directory(place) as part:
            _write_chunk(part, run(work, _batches(block)))
    return chunks.places(lines, f"{split}-")


def _write_chunk(folder: Path, batches: Iterable[Cleaned]) -> None:
    """Write cleaned batches as a chunk, in the files that `nmt.text.join` reads."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in (*SIDES, KEPT, DIGESTS)}
        for written, found in batches:
            counts.update(found)
            for name, data in written.items():
                files[name].write(data)
    write_json(folder / COUNTS, counts)


def _clean_batch(cleaners: Sequence[Cleaner], training: bool, batch: list[Pair]) -> Cleaned:
    """What one worker does: what a batch adds to the files of its chunk, and counts by reason."""
    for side, cleaner in enumerate(cleaners):
        cleaner.prepare(pair[side] for pair in batch)
    recipe, (one, other) = cleaners[0].recipe, cleaners
    counts, kept, flags = Counter(read=len(batch)), list[Pair](), bytearray()
    for pair in batch:
        (source, removed), (target, also_removed) = one.counted(pair[0]), other.counted(pair[1])
        counts["characters_removed"] += removed + also_removed
        if fault := _fault(source, target, recipe) if training else None:
            counts[fault] += 1
        else:
            kept.append((source, target))
        flags.append(fault is None)
    written = {side: "".join(f"{pair[n]}\n" for pair in kept).encode() for n, side in enumerate(SIDES)}
    counts.update(kept=len(kept), source_words=sum(_words(pair[0]) for pair in kept))
    counts.update(target_words=sum(_words(pair[1]) for pair in kept))
    if training and recipe.deduplicate:
        written[DIGESTS] = b"".join(blake2b("\n".join(pair).encode(), digest_size=WIDTH).digest() for pair in kept)
    return written | {KEPT: bytes(flags)}, counts


def _lower(text: str, language: str) -> str:
    """In small letters; of a capital I with a dot Python would make two characters, which are no word's letter."""
    if language in ("tr", "az"):
        text = text.replace("I", "ı")
    return text.replace("İ", "i").lower()


def _fault(source: str, target: str, recipe: Cleaning) -> str | None:
    """The first rule that a training pair breaks."""
    shorter, longer = sorted((_words(source), _words(target)))
    if shorter == 0:
        return "empty"
    if longer > recipe.max_words:
        return "long"
    return "ratio" if longer > recipe.max_ratio * shorter else None


def _words(cleaned: str) -> int:
    """How many words a line has, with one space between two of them."""
    return cleaned.count(" ") + 1 if cleaned else 0


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


def _batches(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while batch := list(islice(pairs, BATCH)):
        yield batch


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
    pool: ProcessPoolExecutor, ahead: int, work: Callable[[list[Pair]], Cleaned], batches: Iterable[list[Pair]]
) -> Iterator[Cleaned]:
    """Results in order, ``ahead`` batches in flight (the pool's own map would read the whole corpus first)."""
    waiting: deque[Future[Cleaned]] = deque()
    for batch in batches:
        waiting.append(pool.submit(work, batch))
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
