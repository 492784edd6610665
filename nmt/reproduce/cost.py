"""The work that a training still takes, in floating-point operations."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.config.system import System
from nmt.config.types import amount
from nmt.models.build import build_empty
from nmt.system.errors import DataError
from nmt.system.files import read_json
from nmt.text.subwords import SIDES
from nmt.training.average import WHERE_IN_STATE
from nmt.training.checkpoint import Checkpoints


def remaining_operations(system: System, encoded: Path, run: Path) -> float:
    """Floating-point operations that a training still takes at most: 6 for each parameter, target piece and pass.

    Args:
        system: its configuration.
        encoded: its encoded text.
        run: its folder, with the checkpoints of what is done.
    """
    meta = read_json(encoded / "meta.json")
    sizes = [meta["vocabulary"][side] for side in SIDES]
    model = build_empty(system.model, sizes, meta["ids"]["pad"], "meta")
    train = meta["splits"]["train"]
    train |= {"target_pieces": train["target_pieces"] + train["sentences"]}  # with EOS, as progress counts
    pieces = remaining_pieces(system, train, _trained_pieces(run))
    return 6 * pieces * sum(parameter.numel() for parameter in model.parameters())


def _trained_pieces(run: Path) -> int:
    """Target pieces up to the newest checkpoint; a damaged one is skipped, as training will replace it."""
    saved = Checkpoints(run / WHERE_IN_STATE)
    for checkpoint in reversed(saved.all()):
        with suppress(DataError, LookupError):
            return saved.progress(checkpoint).pieces
    return 0


def total_pieces(system: System, train: dict[str, Any]) -> float:
    """Target pieces of a whole training, if patience does not end it.

    Args:
        system: its ``epochs`` or ``updates``, and its batches.
        train: ``sentences`` and ``target_pieces`` of an epoch.
    """
    training = system.training
    limits = [training.epochs and training.epochs * train["target_pieces"]]
    limits += [training.updates and training.updates * _pieces_per_update(system, train)]
    return min(float(limit) for limit in limits if limit is not None)


def remaining_pieces(system: System, train: dict[str, Any], done: int) -> float:
    """Target pieces after the first ``done``; those that `Consistency` passes twice count twice."""
    left, consistency = max(0.0, total_pieces(system, train) - done), system.training.consistency
    if consistency is None:
        return left
    return left + (min(left, consistency.last * _pieces_per_update(system, train)) if consistency.last else left)


def _pieces_per_update(system: System, train: dict[str, Any]) -> float:
    number, unit = amount(system.training.batch)
    batch = number if unit == "tokens" else number * train["target_pieces"] / train["sentences"]
    return system.training.accumulate * batch
