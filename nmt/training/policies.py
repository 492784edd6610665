"""Policies of the training loop: what is due after an update, and what to do if a gradient is not a number."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.config.training import Training
from nmt.config.types import amount
from nmt.system.errors import DataError
from nmt.system.files import write_json
from nmt.training.checkpoint import Progress
from nmt.training.distributed import Processes
from nmt.training.log import RECORD_EVERY
from nmt.training.updates import Update

MAX_SKIPPED = 10  # updates in a row that on_nan: skip leaves out; more are no accident
RESCUE_SECONDS = 300  # a crash between two checkpoints loses at most this much training time


class Milestones:
    """Decides when a training records, validates, saves a checkpoint and ends."""

    def __init__(self, config: Training, total: int) -> None:
        self._config, self._total = config, total

    def record_due(self, update: Update) -> bool:
        """Return whether the training loss is to be logged."""
        return update.number % RECORD_EVERY == 0 or update.number == self._total

    def validation_due(self, update: Update) -> bool:
        """Return whether to validate: as validate_every asks, and at the last update."""
        return update.number == self._total or _due(self._config.validate_every, update)

    def checkpoint_due(self, update: Update) -> bool:
        """Return whether checkpoint_every asks for a checkpoint."""
        return _due(self._config.checkpoint_every, update)

    def rescue_due(self, progress: Progress, saved: float) -> bool:
        """Return whether too much training time has passed since the last checkpoint, saved at so many seconds."""
        return progress.seconds - saved > RESCUE_SECONDS

    def out_of_patience(self, progress: Progress) -> bool:
        """Return whether too many validations have passed without a new best one."""
        return self._config.patience is not None and progress.since_best >= self._config.patience

    def ended(self, progress: Progress) -> bool:
        """Return whether no update is left."""
        return progress.update >= self._total or self.out_of_patience(progress)

    def why_ended(self, progress: Progress) -> str:
        """Return which limit has ended the training: ``patience``, ``updates`` or ``epochs``."""
        if self.out_of_patience(progress):
            return "patience"
        return "updates" if progress.update == self._config.updates else "epochs"

    def end(self, records: Iterable[dict[str, Any]]) -> int:
        """Return the last update that the configuration allows, given the records so far.

        A training may have run with more patience than it has now.
        """
        waited = 0
        for record in records if self._config.patience else ():
            if record["event"] == "valid":
                waited = 0 if record.get("best") else waited + 1
                if waited == self._config.patience:
                    return min(self._total, int(record["update"]))
        return self._total


def _due(interval: str, update: Update) -> bool:
    number, unit = amount(interval)
    return update.number % number == 0 if unit == "updates" else update.batch == 0 and update.epoch % number == 0


class NanPolicy:
    """Skips an update, or saves its batches and stops, as ``on_nan`` says."""

    def __init__(self, config: Training, state: Path, processes: Processes) -> None:
        self._skips, self._state, self._processes = config.on_nan == "skip", state, processes
        self._last, self._in_a_row = 0, 0  # the last such update, and how many came directly one after the other

    def reject(self, update: Update, loss: float, norm: float) -> None:
        """Return if the training can go on without the update.

        Args:
            update: the update.
            loss: nats per target piece.
            norm: of its gradient.

        Raises:
            DataError: the training has to stop; the batches of the update are saved.
        """
        self._in_a_row = self._in_a_row + 1 if update.number == self._last + 1 else 1
        self._last = update.number
        if self._skips and self._in_a_row <= MAX_SKIPPED:
            return
        saved = self._save(update, norm)
        in_a_row = f", for the {MAX_SKIPPED + 1}th time in a row" if self._skips else ""
        go_on = "" if self._skips else "; or set on_nan: skip, which goes on from the last checkpoint"
        raise DataError(
            f"{self._state} at update {update.number}: expected finite loss and gradients, got {loss} and {norm}"
            f"{in_a_row}; its batches are in {saved}; lower schedule.peak, raise warmup or set clip: 1.0, and train "
            f"from the beginning{go_on}"
        )

    def _save(self, update: Update, norm: float) -> Path:
        rank = f"-{self._processes.rank}" if self._processes.size > 1 else ""  # each process has its own sentences
        path = self._state / f"not-a-number-{update.number:08}{rank}.json"
        batches = [{"source": batch.source.tolist(), "target": batch.target.tolist()} for batch in update.batches]
        write_json(path, {"update": update.number, "gradient_norm": str(norm), "batches": batches})
        return path
