"""Summaries of the scores and facts of several trainings."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from nmt.system.files import Json


def statistic(scores: Sequence[Json]) -> Json:
    """The mean and standard deviation over seeds, or the score of the only seed with its bootstrap interval."""
    values = [score["score"] for score in scores]
    several = {"mean": statistics.fmean(values), "values": values}
    if len(values) > 1:
        return several | {"deviation": statistics.stdev(values), "low": None, "high": None}
    return several | {"deviation": None, "low": scores[0]["low"], "high": scores[0]["high"]}


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def distinct(values: Iterable[Any]) -> list[Any]:
    """The different values in their order, without None."""
    distinct: list[Any] = []
    for value in values:
        if value is not None and value not in distinct:
            distinct.append(value)
    return distinct
