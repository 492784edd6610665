"""Values as the text of a table's cells."""

import math
import re
from typing import Any

from nmt.config.decoding import FOR_SAMPLING, Decoding
from nmt.system.files import Json

NONE = "–"
DISAGREE = "seeds disagree"
"""Stands for a p-value where models with different seeds differ in opposite directions."""
SEARCH = ("length_reward", "prefix", "min_length", "no_repeat_ngram", "coverage_penalty", "engine")
OFF = Decoding().model_dump(include={*FOR_SAMPLING, *SEARCH})
"""Options of the search by their value when they are off; the others are named where a score was made."""
NLL_SCALE = {"nats": 1.0, "bits": 1 / math.log(2)}
"""Factor from nats, in which trainings measure NLL, to the unit of a table."""


def is_own(data: Json) -> bool:
    """Whether a table is a user's own: it rebuilds no report, and no row has published figures."""
    return not (data.get("report") or data["synthetic"] or any(row["published"] for row in data["rows"]))


def number(value: float | None, digits: int) -> str:
    """``1,234.5``; a dash for None."""
    return NONE if value is None else f"{value:,.{digits}f}"


def published(figure: float | None) -> str:
    """A published figure with its own number of digits, one to three."""
    return number(figure, next(d for d in (1, 2, 3) if figure == round(figure or 0, d) or d == 3))


def duration(seconds: float | None) -> str:
    """A duration for readers: ``9.5 s``, ``7 min 12 s``, ``1 h 05 min``."""
    if seconds is None:
        return NONE
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def training_time(row: Json) -> str:
    """The training time of a row, and the time of the models that translated part of its text.

    Older tables lack the second time.
    """
    text = row.get("text_seconds")
    return duration(row["training_seconds"]) + (f", after {duration(text)} for its text" if text else "")


def hardware(machine: Json | None) -> str:
    """The GPU or the processor of a machine, in a few words."""
    if not machine:
        return NONE
    cores = machine.get("threads") or machine.get("cores")
    processor = machine.get("processor", "CPU") + (f", {cores} thread{'s' * (cores != 1)}" if cores else "")
    processes = f"{machine['processes']} × " if machine.get("processes", 1) > 1 else ""
    precision = f", {machine['precision']}" if "precision" in machine else ""  # older records lack it
    return processes + str(machine.get("gpu") or processor) + precision


def statistic(score: Json | None, digits: int = 2, scale: float = 1.0) -> str:
    """A score times a scale, with its standard deviation over seeds or the interval of its only seed."""
    if not score:
        return NONE
    score = {part: score[part] and score[part] * scale for part in ("mean", "deviation", "low", "high")}
    if score["deviation"] is not None:
        return f"{score['mean']:.{digits}f} ± {score['deviation']:.{digits}f}"
    if score["low"] is None:
        return f"{score['mean']:.{digits}f}"
    return f"{score['mean']:.2f} [{score['low']:.1f}, {score['high']:.1f}]"


def bounds(score: Json) -> tuple[Any, Any]:
    """The ends of mean ± standard deviation over seeds, or of the interval of the only seed, if there is one."""
    if score["deviation"] is not None:
        return score["mean"] - score["deviation"], score["mean"] + score["deviation"]
    return score["low"], score["high"]


def signed(value: float | None, digits: int = 2) -> str:
    """``+1.50`` or ``−0.30``; a dash for None."""
    return NONE if value is None else f"{value:+.{digits}f}".replace("-", "−")


def p_value(value: float) -> str:
    """A p-value with three digits, or ``< 0.001``."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def search_settings(decoding: Json) -> str:
    """Return how a row was translated, from the settings of its decoding; a dash for text of another origin."""
    if not decoding:
        return NONE
    beam = f"beam {decoding['beam']}, length penalty {decoding['length_penalty']:g}"
    how = "sampling" if decoding.get("sampling") else "greedy" if decoding["beam"] == 1 else beam
    options = ((key.replace("_", " "), decoding.get(key, off), off) for key, off in OFF.items())
    return how + "".join(f", {option} {value}" for option, value, off in options if value != off)


def tokenisers(data: Json) -> str:
    """The tokenisers of detokenised BLEU, as its signatures name them."""
    return ", ".join(_of_signatures(data, "tok")) or "13a"


def about_case(data: Json) -> list[str]:
    """A note that some systems write lower case, so that the case of detokenised text is ignored."""
    cases = _of_signatures(data, "case")
    if "lc" not in cases:
        return []
    some = "Some systems write" if "mixed" in cases else "The systems write"
    return [f"{some} lower case (cleaning: lowercase), so the case of their detokenised output is ignored."]


def _of_signatures(data: Json, key: str) -> list[str]:
    """The different values of a key in the signatures of detokenised BLEU."""
    signatures = data.get("signatures", {}).get("detokenised", {}).get("bleu", [])
    values = (value for signature in signatures for value in re.findall(rf"\b{key}:([^|]+)", signature))
    return list(dict.fromkeys(values))
