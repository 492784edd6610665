"""Apply a list of filters to cleaned training text: one parallel pass over the pairs, then the files are written."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config.corpus.filters import DuplicatesFilter, Filter, ScoresFilter
from nmt.config.data import Cleaning
from nmt.corpora.near import Bands, Signatures, sketch
from nmt.corpora.sources import Text
from nmt.system.arrays import evenly
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED
from nmt.system.lines import read_lines
from nmt.system.workers import Map, batched
from nmt.text.filters.duplicates import Sketches
from nmt.text.filters.judges import Judge, Pair, judge_of

BATCH = 1000
"""Pairs per task of a worker process."""
EXAMPLES = 10
"""Pairs that the report shows of each filter, evenly spaced among those that it dropped."""
Scored = tuple[str, str, tuple[float, ...]]
"""A raw pair, and its score in the file of each filter that has one."""


class Judged(NamedTuple):
    """What a worker finds of a batch."""

    first: bytes  # for each pair the number, from 1, of the first filter that drops it; 0 for none
    signatures: Signatures | None  # for the filters of duplicates
    bands: Bands | None


class Work(NamedTuple):
    """What a worker needs; the recipe as JSON, so that a process makes its judges once."""

    recipe: str
    languages: tuple[str, str]
    held_out: tuple[tuple[Path, ...], ...]


def apply_filters(
    raw: Sequence[Path], folder: Path, recipe: Cleaning, held_out: Sequence[Sequence[Path]], run: Map
) -> list[dict[str, Any]]:
    """Filter the cleaned training text of a folder in place, and add the dropped pairs to its list of dropped lines.

    Args:
        raw: files of the raw training text, source first; their suffixes are the languages.
        folder: with the cleaned files of the same names, and the list of dropped lines.
        recipe: with the filters.
        held_out: files of the sides of validation text and each test set.
        run: maps a function over batches, in order, perhaps in several processes.

    Returns:
        For each filter its settings, ``name``, the number ``dropped``, and ``examples``, raw pairs.

    Raises:
        ConfigError: a package is missing, or a filter does not suit the languages.
        DataError: a file of scores does not fit the text.
    """
    languages = raw[0].suffix[1:], raw[1].suffix[1:]
    work = Work(recipe.model_dump_json(include={"filters"}), languages, tuple(map(tuple, held_out)))
    judges_of(work)  # raises for a faulty filter before the work begins
    with TemporaryDirectory(dir=folder) as scratch:
        sketches, verdicts = Sketches(Path(scratch)), list[bytes]()
        for judged in run(partial(_judge, work), batched(_kept(raw, folder / DROPPED, recipe.filters), BATCH)):
            verdicts.append(judged.first)
            if judged.signatures is not None and judged.bands is not None:
                sketches.add(judged.signatures, judged.bands)
        reasons = np.frombuffer(bytearray(b"".join(verdicts)), np.uint8)
        for number, settings in enumerate(recipe.filters, 1):
            if isinstance(settings, DuplicatesFilter):
                reasons[sketches.repeats((reasons == 0) | (reasons > number), settings.similarity)] = number
    examples = _write(raw, folder, reasons)
    names = filter_names(recipe.filters)
    return [
        settings.model_dump(mode="json")
        | {"name": name, "dropped": int((reasons == number).sum()), "examples": examples.get(number, [])}
        for number, (settings, name) in enumerate(zip(recipe.filters, names, strict=True), 1)
    ]


def filter_names(filters: Sequence[Filter]) -> list[str]:
    """Return a different name for each filter: ``language``, ``scores``, ``scores 2``, ``LengthRatioFilter``."""
    kinds = [getattr(settings, "name", settings.kind) for settings in filters]
    counts = [kinds[: place + 1].count(kind) for place, kind in enumerate(kinds)]
    return [f"{kind} {count}" if count > 1 else kind for kind, count in zip(kinds, counts, strict=True)]


@lru_cache(1)
def judges_of(work: Work) -> list[Judge | None]:
    """Make the judges of all filters, once in each process; None for those that do not judge a pair by itself."""
    filters = Cleaning.model_validate_json(work.recipe).filters
    alone = (ScoresFilter, DuplicatesFilter)
    return [
        None if isinstance(settings, alone) else judge_of(settings, work.languages, work.held_out)
        for settings in filters
    ]


def _judge(work: Work, batch: list[Scored]) -> Judged:
    """Judge a batch in a worker: pairs that a filter drops do not reach the next."""
    filters = Cleaning.model_validate_json(work.recipe).filters
    first, column = np.zeros(len(batch), np.uint8), 0
    for number, (settings, judge) in enumerate(zip(filters, judges_of(work), strict=True), 1):
        rows = np.flatnonzero(first == 0)
        if isinstance(settings, ScoresFilter):
            scores = np.array([batch[row][2][column] for row in rows])
            first[rows[~(scores >= settings.minimum)]] = number
            column += 1
        elif judge is not None and len(rows):
            kept = judge([batch[row][:2] for row in rows])
            first[rows[~np.array(kept, np.bool_)]] = number
    if not any(isinstance(settings, DuplicatesFilter) for settings in filters):
        return Judged(first.tobytes(), None, None)
    return Judged(first.tobytes(), *sketch([pair[:2] for pair in batch]))


def kept_pairs(raw: Sequence[Path], dropped: Path) -> Iterator[Pair]:
    """Yield the raw pairs that cleaning has kept."""
    return ((source, target) for source, target, _ in _kept(raw, dropped, []))


def _kept(raw: Sequence[Path], dropped: Path, filters: Sequence[Filter]) -> Iterator[Scored]:
    """Yield the raw pairs that cleaning has kept, with their scores."""
    scores = [_scores(settings) for settings in filters if isinstance(settings, ScoresFilter)]
    gone = _numbers(dropped)
    skipped, count = next(gone, 0), 0
    for count, (source, target) in enumerate(zip(*map(read_lines, raw), strict=True), 1):
        values = tuple(_next(each, count, path) for path, each in scores)
        if count == skipped:
            skipped = next(gone, 0)
        else:
            yield source, target, values
    for path, each in scores:
        if more := sum(1 for _ in each):
            raise DataError(
                f"{path}: expected a score for each of {count:,} raw training pairs, got {count + more:,}; score the "
                f"text of {raw[0].parent} again"
            )


def _scores(settings: ScoresFilter) -> tuple[Path, Iterator[str]]:
    if settings.file is None:
        raise ConfigError(
            "cleaning.filters: kind: scores: expected file:, got forward:, which the stage score_pairs of the workflow "
            "reads; write the scores with `nmt score-pairs`, and name their file"
        )
    return settings.file, Text(settings.file, str(settings.file)).lines()


def _next(scores: Iterator[str], number: int, path: Path) -> float:
    line = next(scores, None)
    if line is None:
        raise DataError(
            f"{path}: expected a score for each raw training pair, got {number - 1:,}; score the text again"
        )
    try:
        return float(line.split("\t")[0])
    except ValueError:
        raise DataError(f"{path}, line {number}: expected a number, got {line[:60]!r}; fix the line") from None


def _numbers(dropped: Path) -> Iterator[int]:
    return map(int, read_lines(dropped)) if dropped.is_file() else iter(())


def _write(raw: Sequence[Path], folder: Path, reasons: NDArray[np.uint8]) -> dict[int, list[Pair]]:
    """Write the cleaned files and the list of dropped lines without the pairs that a filter drops; return examples."""
    wanted = _examples(reasons)
    examples, dropped = dict[int, list[Pair]](), folder / DROPPED
    outs = [folder / f"{path.name}.filtered" for path in (*raw, dropped)]
    with ExitStack() as stack:
        source_out, target_out, numbers_out = (stack.enter_context(out.open("w", encoding="utf-8")) for out in outs)
        cleaned = zip(*(read_lines(folder / path.name) for path in raw), strict=True)
        gone, place = _numbers(dropped), 0
        skipped = next(gone, 0)
        for number, pair in enumerate(zip(*map(read_lines, raw), strict=True), 1):
            if number == skipped:
                skipped = next(gone, 0)
                numbers_out.write(f"{number}\n")
                continue
            source, target = next(cleaned)
            if reason := int(reasons[place]):
                numbers_out.write(f"{number}\n")
                if place in wanted:
                    examples.setdefault(reason, []).append((pair[0], pair[1]))
            else:
                source_out.write(f"{source}\n")
                target_out.write(f"{target}\n")
            place += 1
    for path, out in zip((*(folder / path.name for path in raw), dropped), outs, strict=True):
        out.replace(path)
    return examples


def _examples(reasons: NDArray[np.uint8]) -> set[int]:
    """Return the places of the pairs that the report shows."""
    chosen = set[int]()
    for reason in np.unique(reasons[reasons > 0]):
        places = np.flatnonzero(reasons == reason)
        chosen.update(places[evenly(len(places), EXAMPLES)].tolist())
    return chosen
