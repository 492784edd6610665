"""Cleaning: a recipe turns raw lines into model input, then filters drop unsuitable training pairs.

`Cleaner` does all the processing of a line. Corpora and sentences to be translated use the same class.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.config.corpus.noise import Noise
from nmt.config.data import Cleaning
from nmt.corpora.catalogue import names
from nmt.corpora.parts import misaligned
from nmt.system.chunks import WHOLE, Chunks, Shard, mark
from nmt.system.errors import DataError
from nmt.system.files import DROPPED, atomic_directory, read_json, write_json
from nmt.system.lines import count_lines, read_lines
from nmt.system.progress import Progress
from nmt.system.warnings import say, warn
from nmt.system.workers import Map, batched, stream_map
from nmt.text.characters import length
from nmt.text.cleaner import Cleaner
from nmt.text.filters.apply import apply_filters
from nmt.text.filters.noise import noisy
from nmt.text.filters.overlap import near_training_text
from nmt.text.join import COUNTS, DIGESTS, KEPT, SIDES, join
from nmt.text.languages import has_rules, is_spaceless
from nmt.text.repeats import WIDTH

CHUNK = 250_000
"""Pairs per chunk: chunks are written to disk one by one, and shards divide them among machines."""
BATCH = 1000
"""Pairs per task of a worker process."""

MARKED = re.compile(r"&(?:apos|quot|amp|lt|gt|nbsp|#\d+);|@-@| n(?:'|&apos;)t\b")
"""Marks of a tokeniser in raw text, which are escaped characters, split hyphens and split contractions; or of HTML."""
TOKENISED = re.compile(
    r"@-@| n(?:'|&apos;)t\b|(?<!\S)&apos;|&apos;(?!\S)|(?<!\S)&(?:quot|#91|#93|#124);(?!\S)| [.,](?!\S)"
)
"""What tells a line of a tokeniser from one of HTML: it sets apostrophes, quotation marks and full stops apart."""
UNESCAPE = 'python3 -c "import html, sys; sys.stdout.writelines(map(html.unescape, sys.stdin))" < old > new'

JOINERS_APART = {"hi-en-open", "flores200"}
"""Corpora whose joiners are words of their own, as their published tables were made."""

RULES = {"empty": "an empty side", "long": "max_words", "ratio": "max_ratio", "duplicate": "deduplicate"}
"""Reasons to drop a training pair, in the order in which they are checked, and the recipe key of each."""

Pair = tuple[str, str]
Cleaned = tuple[dict[str, bytes], Counter[str]]  # a batch's bytes for each file of its chunk, and its counts


def clean(raw: Path, out: Path, recipe: Cleaning, languages: str, jobs: int = 1, shard: Shard | None = None) -> None:
    """Clean a raw corpus folder; writes the folder ``out`` atomically, with ``report.json``.

    The report counts the dropped training pairs by reason. ``train.dropped.txt`` lists the numbers of their raw lines,
    from 1. The other splits keep all lines, so they stay aligned with the raw text. Memory use does not grow with
    the corpus: cleaned chunks are stored on disk, and repeated pairs are found on disk.

    Args:
        raw: folder with ``corpus.json`` and ``{split}.{language}`` files.
        out: folder to write.
        recipe: cleaning steps and limits.
        languages: source and target, e.g. ``en-de``.
        jobs: number of worker processes; the output does not depend on it.
        shard: clean only this share of the chunks, without joining; None cleans all missing chunks and joins them.

    Raises:
        DataError: files are misaligned or not UTF-8, no training pair is left, or a split has no words.
    """
    corpus = read_json(raw / "corpus.json")
    settings = {"corpus": corpus["corpus"], "languages": languages, "cleaning": recipe.model_dump(mode="json")}
    settings |= {key: corpus[key] for key in ("licence", "images", "parts", "tags") if key in corpus}
    texts = {split: [raw / f"{split}.{language}" for language in languages.split("-")] for split in corpus["splits"]}
    chunks = Chunks(out, mark([settings, CHUNK], chain.from_iterable(texts.values())), CHUNK)
    with stream_map(jobs) as run:
        if shard:
            for split, files in texts.items():
                _clean_chunks(chunks, split, files, recipe, run, shard)
            return
        with atomic_directory(out, "report.json") as part:
            try:
                _clean_and_join(chunks, texts, part, recipe, settings, run)
            except DataError:
                chunks.delete()  # the data is faulty, so they are useless
                raise
    chunks.delete()


def _clean_and_join(
    chunks: Chunks, texts: dict[str, list[Path]], part: Path, recipe: Cleaning, settings: dict[str, Any], run: Map
) -> None:
    """Clean all missing chunks, join them to the files of each split and write the report."""
    report, near, own = dict[str, Any](), dict[str, int](), settings["corpus"] not in names()
    held_out = {split: files for split, files in texts.items() if split != "train"}
    languages: list[str] = settings["languages"].split("-")
    spaceless = [is_spaceless(language) for language in languages]
    _warn_of_missing_rules(languages, next(iter(texts.values())), recipe)
    for split, files in texts.items():
        places = _clean_chunks(chunks, split, files, recipe, run)
        outs, training = [part / file.name for file in files], split == "train"
        unique = training and recipe.deduplicate
        counts = join(places, outs, part / DROPPED if training else None, unique, spaceless)
        report[split] = _report(counts, settings["languages"])
        _warn_of_text(split, files, counts, tokenises=own and recipe.tokenize == "moses")
        if training and recipe.filters:
            report[split] = _filter(report[split], files, part, recipe, list(held_out.values()), run)
        if training:
            _check_not_empty(report[split], files[0].parent, recipe)
            near = near_training_text(files, part / DROPPED, held_out, run) if own else {}
        elif near.get(split):
            report[split]["near_training"] = near[split]
            say(
                f"{files[0]}: {near[split]:,} of {counts['read']:,} pairs nearly equal training text; "
                "the filter overlap leaves those training pairs out"
            )
        for file, words in zip(files, (counts["source_words"], counts["target_words"]), strict=True):
            if not words:
                raise DataError(
                    f"{file}: expected sentences, got {counts['read']} lines without a word; add text to the file"
                )
    write_json(part / "report.json", settings | {"splits": report})


def _filter(
    train: dict[str, Any], raw: list[Path], part: Path, recipe: Cleaning, held_out: list[list[Path]], run: Map
) -> dict[str, Any]:
    """Apply the filters of the recipe to cleaned training text; return its report with what they dropped."""
    filtered = apply_filters(raw, part, recipe, held_out, run)
    words = {
        language: sum(length(line, is_spaceless(language)) for line in read_lines(part / file.name))
        for language, file in zip(train["words"], raw, strict=True)
    }
    dropped = {each["name"]: each["dropped"] for each in filtered}
    return train | {
        "kept": train["kept"] - sum(dropped.values()),
        "dropped": train["dropped"] | dropped,
        "words": words,
        "filters": filtered,
    }


def _warn_of_missing_rules(languages: Sequence[str], files: Sequence[Path], recipe: Cleaning) -> None:
    """Warn of languages whose text is tokenised without rules for it."""
    for language, file in zip(languages, files, strict=True):
        if recipe.tokenize == "moses" and not has_rules(language):
            warn(
                "language without rules", file, 1,
                f"there are no tokenisation rules for the language '{language}', so Moses' general ones are used, and "
                "its abbreviations of English",
                "look at some lines of the cleaned text; cleaning: {tokenize: none} leaves it whole, for the subwords "
                "to divide", scores=False,
            )  # fmt: skip


def _warn_of_text(split: str, files: Sequence[Path], counts: Counter[str], tokenises: bool) -> None:
    """Warn of text that is tokenised or HTML, whichever more lines are, as its escapes would be escaped again."""
    for side, file in zip(SIDES, files, strict=True):
        tokenised, html = counts[f"{side}_tokenised"], counts[f"{side}_html"]
        lines = f"{tokenised + html:,} of {counts['read']:,} lines have"
        if tokenises and html > tokenised:
            warn(
                "HTML entities", file, tokenised + html,
                f"{lines} HTML entities, such as &#39; or &amp;, which are tokenised as if they were text",
                f"unescape the text first, e.g. {UNESCAPE}", split=split,
            )  # fmt: skip
        elif tokenises and tokenised:
            warn(
                "tokenised text", file, tokenised + html,
                f"{lines} marks of a tokeniser, such as &apos; or @-@, and are tokenised again",
                "give raw text, or set cleaning: {tokenize: none}", split=split,
            )  # fmt: skip


def _clean_chunks(
    chunks: Chunks, split: str, files: list[Path], recipe: Cleaning, run: Map, shard: Shard = WHOLE
) -> list[Path]:
    """Clean the missing chunks of a shard of one split; return the paths of all chunks."""
    lines, target_lines = (count_lines(file) for file in files)
    if lines != target_lines:
        raise misaligned(dict(zip(files, (lines, target_lines), strict=True)))
    numbers = chunks.numbers(lines, shard)
    pairs = zip(*(read_lines(file, numbers.start * CHUNK) for file in files), strict=True)
    languages = [file.suffix.removeprefix(".") for file in files]
    corpus = read_json(files[0].with_name("corpus.json"))
    cleaners = [Cleaner(recipe, language, corpus["corpus"] in JOINERS_APART) for language in languages]
    work = partial(_clean_batch, cleaners, split == "train", corpus.get("tags", []))
    with Progress(f"clean {split}", min(lines, CHUNK * len(numbers)), "pair") as shown:
        for place, block in chunks.missing(pairs, numbers, f"{split}-"):
            with atomic_directory(place) as part:
                _write_chunk(part, run(work, batched(block, BATCH)), shown)
    return chunks.paths(lines, f"{split}-")


def _write_chunk(folder: Path, batches: Iterable[Cleaned], shown: Progress) -> None:
    """Write cleaned batches as one chunk, in the files that `nmt.text.join` reads."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in (*SIDES, KEPT, DIGESTS)}
        for contents, batch_counts in batches:
            counts.update(batch_counts)
            for name, data in contents.items():
                files[name].write(data)
            shown.update(batch_counts["read"])
    write_json(folder / COUNTS, counts)


def _clean_batch(cleaners: Sequence[Cleaner], training: bool, tags: Sequence[str], batch: list[Pair]) -> Cleaned:
    """Clean one batch in a worker; return its bytes for each file of its chunk, and its counts."""
    recipe, (source_cleaner, target_cleaner) = cleaners[0].recipe, cleaners
    spaceless = [is_spaceless(cleaner.language) for cleaner in cleaners]
    counts, kept, flags = Counter(read=len(batch)), list[Pair](), bytearray()
    if training and recipe.noise != Noise():
        codes = source_cleaner.language, target_cleaner.language
        spoiled = [noisy(pair, recipe.noise, codes, tags) for pair in batch]
        batch = [pair for pair, _ in spoiled]
        counts.update(f"noise_{kind}" for _, kinds in spoiled for kind in kinds)
    for side, cleaner in enumerate(cleaners):
        cleaner.prepare(pair[side] for pair in batch)
    for pair in batch:
        source, source_removed = source_cleaner.counted(pair[0])
        target, target_removed = target_cleaner.counted(pair[1])
        counts["characters_removed"] += source_removed + target_removed
        for name, text in zip(SIDES, pair, strict=True):
            if MARKED.search(text):
                counts[f"{name}_tokenised" if TOKENISED.search(text) else f"{name}_html"] += 1
        if fault := _fault((source, target), spaceless, recipe) if training else None:
            counts[fault] += 1
        else:
            kept.append((source, target))
        flags.append(fault is None)
    contents = {side: "".join(f"{pair[n]}\n" for pair in kept).encode() for n, side in enumerate(SIDES)}
    counts["kept"] = len(kept)
    for n, name in enumerate(SIDES):
        counts[f"{name}_words"] = sum(length(pair[n], spaceless[n]) for pair in kept)
    if training and recipe.deduplicate:
        contents[DIGESTS] = b"".join(blake2b("\n".join(pair).encode(), digest_size=WIDTH).digest() for pair in kept)
    return contents | {KEPT: bytes(flags)}, counts


def _fault(pair: Pair, spaceless: Sequence[bool], recipe: Cleaning) -> str | None:
    """Return the key in `RULES` of the first rule that a training pair breaks, or None.

    If one of the languages has no spaces between words, the ratio is one of characters.
    """
    if "" in pair:
        return "empty"
    for side, characters in zip(pair, spaceless, strict=True):
        if length(side, characters) > (recipe.max_characters if characters else recipe.max_words):
            return "long"
    shorter, longer = sorted(length(side, any(spaceless)) for side in pair)
    return "ratio" if longer > recipe.max_ratio * shorter else None


def _report(counts: Counter[str], languages: str) -> dict[str, Any]:
    source, target = languages.split("-")
    noise = {kind: counts[f"noise_{kind}"] for kind in Noise.model_fields if counts[f"noise_{kind}"]}
    return {
        "read": counts["read"],
        "kept": counts["kept"],
        "dropped": {rule: counts[rule] for rule in RULES},
        "characters_removed": counts["characters_removed"],
        "words": {source: counts["source_words"], target: counts["target_words"]},
        **({"noise": noise} if noise else {}),
    }


def _check_not_empty(train: dict[str, Any], raw: Path, recipe: Cleaning) -> None:
    if train["kept"]:
        return
    values = recipe.model_dump() | {"an empty side": "after cleaning"}
    rules = [
        f"{train['dropped'][rule]} by {key} ({values[key]})" for rule, key in RULES.items() if train["dropped"][rule]
    ]
    rules += [f"{each['dropped']} by the filter {each['name']}" for each in train.get("filters", []) if each["dropped"]]
    raise DataError(
        f"{raw}: no training pair is left of {train['read']}: {', '.join(rules) or 'the files are empty'}; "
        f"{train['characters_removed']} characters were removed (characters: {recipe.characters}); "
        f"check the files, or relax these keys under cleaning"
    )
