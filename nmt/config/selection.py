"""Checkpoint selections, such as ``average 10``, and whether a training keeps what they ask for."""

import math
from typing import Annotated

from pydantic import TypeAdapter, ValidationError

from nmt.config.training import Training
from nmt.config.types import amount, matching
from nmt.system.errors import ConfigError

START = "start"
"""The weights that a training started from; ``best and start`` is their mean with those of ``best``."""
Selection = Annotated[
    str,
    matching(
        rf"^((last|best|(epoch|update|average|average best) [1-9]\d*)( and {START})?|{START})$",
        "last | best | epoch 16 | update 4000 | average 10 (the last ten) | average best 5 | start | best and start …",
    ),
]


def why_not_kept(at: str, training: Training) -> str | None:
    """Return why a training will not keep the checkpoints that a selection asks for, or None if it may.

    Args:
        at: a checkpoint selection, e.g. ``average 10``.
        training: the configuration of the training.
    """
    at = at.removesuffix(f" and {START}")
    if at in ("last", START):
        return None
    kind, _, rest = at.rpartition(" ") if at != "best" else ("average best", "", "1")
    number = int(rest)
    if kind == "average best":
        all_kept = training.keep_last is None and training.validate_every == training.checkpoint_every
        if number > training.keep_best and not all_kept:
            return f"training.keep_best is {training.keep_best}; raise it to {number}"
        return _too_few(number, "validate_every", training.validate_every, training)
    if kind == "average":
        if training.keep_last is not None and number > training.keep_last:
            return f"training.keep_last is {training.keep_last}; raise it to {number}"
        return _too_few(number, "checkpoint_every", training.checkpoint_every, training)
    return _never_saved(number, f"{kind}s", training) or _deleted_again(number, f"{kind}s", training)


def _last(training: Training, unit: str) -> int | None:
    return training.epochs if unit == "epochs" else training.updates


def _too_few(number: int, name: str, interval: str, training: Training) -> str | None:
    """Return why fewer than ``number`` checkpoints exist at the end, given the setting ``name`` and its interval."""
    every, unit = amount(interval)
    end = _last(training, unit)
    if end is None or number <= (saved := math.ceil(end / every)):
        return None
    how = f"{end} {unit} with training.{name}: {interval} leave {saved}"
    return f"{how}; ask for no more, or raise training.{unit}"


def _never_saved(number: int, unit: str, training: Training) -> str | None:
    """Return why no checkpoint is saved at this epoch or update."""
    (every, counted), end = amount(training.checkpoint_every), _last(training, unit)
    if end is not None and number > end:
        return f"training ends after {end} {unit}; raise training.{unit}"
    if counted == unit and number % every and number != end:
        return f"training.checkpoint_every is {training.checkpoint_every}; choose a divisor of {number}"
    return None


def _deleted_again(number: int, unit: str, training: Training) -> str | None:
    """Return why the checkpoint of this epoch or update is deleted later, if the end of the training is known."""
    (every, counted), end = amount(training.checkpoint_every), _last(training, unit)
    end_known = counted == unit and [training.epochs, training.updates, training.patience].count(None) == 2
    if not end_known or end is None or training.keep_last is None or number == end:
        return None
    newer = end // every - number // every
    if newer < training.keep_last:
        return None
    return f"training.keep_last is {training.keep_last}; raise it to {newer + 1}"


def check_selection(at: str) -> None:
    """Raise a ConfigError if ``at`` is not a checkpoint selection."""
    try:
        TypeAdapter(Selection).validate_python(at)
    except ValidationError:
        allowed = "last, best, epoch N, update N, average N, average best N, start, or such as best and start"
        raise ConfigError(f"at: expected {allowed}, got '{at}'") from None
