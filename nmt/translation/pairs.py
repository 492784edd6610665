"""Scores of training pairs by models of both directions, for the filter ``scores``."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.corpora.parts import aligned
from nmt.corpora.sources import Text
from nmt.system.errors import ConfigError
from nmt.system.files import write_lines
from nmt.system.workers import batched
from nmt.translation.forced import score_pairs
from nmt.translation.translator import Translator

PART = 10_000
"""Pairs in memory at a time."""


def score_text(
    translators: Sequence[Translator],
    source: Path,
    target: Path,
    out: Path,
    progress: Callable[[int], Any] = lambda _: None,
) -> int:
    """Write a score for each pair of raw text; return the number of pairs.

    With one model the score is the mean log-probability of a piece, EOS counted, in nats. With a second one, which
    translates the other way, it is minus the dual cross-entropy |h1 - h2| + (h1 + h2) / 2, where h is minus that mean
    (Junczys-Dowmunt 2018). A higher score is better. A text that a model has to write and that is too long for it gets
    -inf; a longer source is cut, with a warning.

    Args:
        translators: a model from source to target, and perhaps one from target to source.
        source: raw text, plain or packed.
        target: its translation.
        out: file to write, a number on each line.
        progress: called with the number of pairs since the previous call.

    Raises:
        ConfigError: the second model does not translate the other way.
        DataError: the files do not align, or are not UTF-8.
    """
    _check_directions(translators)
    paths, cut, count = (source, target), Counter[Path](), 0

    def means(side: int, texts: Sequence[Sequence[str]]) -> list[float]:
        found = score_pairs(
            translators[side], texts[side], texts[1 - side], progress=progress,
            report_cut=lambda lines: cut.update({paths[side]: lines}),
        )  # fmt: skip
        return [likelihood.score() if likelihood else float("-inf") for likelihood in found]

    def lines() -> Iterator[str]:
        nonlocal count
        for part in batched(aligned([(path, Text(path, str(path)).lines()) for path in paths]), PART):
            texts = [[pair[side] for pair in part] for side in range(2)]
            scores = zip(*(means(side, texts) for side in range(len(translators))), strict=True)
            yield from (f"{_score(*values):.4f}" for values in scores)
            count += len(part)

    write_lines(out, lines())
    for translator, path in zip(translators, paths, strict=False):
        translator.warn_of_cut(path, cut[path], count)
    return count


def _check_directions(translators: Sequence[Translator]) -> None:
    directions = [translator.languages for translator in translators]
    if directions[1:] and directions[1] != directions[0][::-1]:
        raise ConfigError(
            f"--backward: expected a model for {'-'.join(directions[0][::-1])}, got one for {'-'.join(directions[1])}"
        )


def _score(forward: float, backward: float | None = None) -> float:
    if backward is None or float("-inf") in (forward, backward):
        return min(forward, forward if backward is None else backward)
    return -abs(forward - backward) + (forward + backward) / 2
