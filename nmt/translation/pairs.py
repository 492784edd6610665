"""Scores of training pairs by models of both directions, for the filter ``scores``."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nmt.corpora.parts import aligned
from nmt.corpora.sources import Text
from nmt.system.errors import ConfigError
from nmt.system.files import write_lines
from nmt.system.workers import batched
from nmt.translation.forced import Likelihood, score_pairs
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
    (Junczys-Dowmunt 2018). A higher score is better; a pair too long for a model gets -inf.

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
    directions = [translator.languages for translator in translators]
    if directions[1:] and directions[1] != directions[0][::-1]:
        raise ConfigError(
            f"--backward: expected a model for {'-'.join(directions[0][::-1])}, got one for {'-'.join(directions[1])}"
        )
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        pairs = aligned([(path, Text(path, str(path)).lines()) for path in (source, target)])
        for part in batched(pairs, PART):
            sources, targets = ([pair[side] for pair in part] for side in range(2))
            means = [
                [_mean(each) for each in score_pairs(translator, given, scored, progress=progress)]
                for translator, given, scored in zip(translators, (sources, targets), (targets, sources), strict=False)
            ]
            yield from (f"{_score(*values):.4f}" for values in zip(*means, strict=True))
            count += len(part)

    write_lines(out, lines())
    return count


def _mean(likelihood: Likelihood | None) -> float:
    return likelihood.score() if likelihood else float("-inf")


def _score(forward: float, backward: float | None = None) -> float:
    if backward is None or float("-inf") in (forward, backward):
        return min(forward, forward if backward is None else backward)
    return -abs(forward - backward) + (forward + backward) / 2
