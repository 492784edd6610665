"""The training loop: updates, validation, checkpoints, resuming."""

import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nmt.config.models import MultimodalConfig
from nmt.data.alignments import Alignments
from nmt.data.batches import Parallel
from nmt.data.encoded import read_meta
from nmt.data.features import pictures_of_split
from nmt.models.build import build
from nmt.system import machine
from nmt.system.errors import ConfigError
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.text.subwords import SIDES
from nmt.training.checkpoint import Checkpoints, Progress, broadcast_state
from nmt.training.distributed import SINGLE_PROCESS, Processes
from nmt.training.experiment import Experiment
from nmt.training.gradients import Gradients
from nmt.training.log import Log, ProgressMeter
from nmt.training.optimizer import learning_rate, set_learning_rate
from nmt.training.policies import Milestones, NanPolicy
from nmt.training.updates import Update, Updates
from nmt.training.validation import Validation
from nmt.training.warm_start.freeze import freeze
from nmt.training.warm_start.parent import NO_PARENT, Parent
from nmt.training.word_vectors import NO_VECTORS, InitialVectors


class Trainer:
    """One training in one of its processes: it composes the parts and runs the loop."""

    def __init__(
        self,
        encoded: Path,
        state: Path,
        config: Experiment,
        seed: int,
        device: torch.device,
        images: Path | None = None,
        processes: Processes = SINGLE_PROCESS,
        vectors: InitialVectors = NO_VECTORS,
        parent: Parent = NO_PARENT,
        alignments: Alignments | None = None,
    ) -> None:
        """Build the model and resume from ``state``; the arguments are those of `nmt.training.train.train`."""
        self.config, self.device, self.processes = config.training, device, processes
        self.name = ""  # in the lines for people
        meta = read_meta(encoded)
        torch.manual_seed(seed)
        sizes = [meta["vocabulary"][side] for side in SIDES]
        self.model = build(config.model, sizes[0], sizes[1], meta["ids"]["pad"]).to(device)
        vectors.fill(self.model)
        parent.fill(self.model)
        freeze(self.model, self.config.freeze)
        looks = isinstance(config.model, MultimodalConfig) or images
        pictures = partial(pictures_of_split, config.model, None, images) if looks else None
        data = Parallel(encoded, "train", self.model.longest, pictures)
        sample = data.sample(self.config.train_bleu) if self.config.train_bleu else None
        data.links = alignments
        self.updates = Updates(data, self.config, seed, device, processes)
        self.gradients = Gradients(self.model, self.config, device, self.updates.total / self.updates.per_epoch)
        self.validation = Validation(encoded, device, self.model.longest, sample, pictures, processes)
        self.milestones = Milestones(self.config, self.updates.total)
        self.nan_policy = NanPolicy(self.config, state, processes)
        self.checkpoints = Checkpoints(state / "checkpoints")
        self.log = Log(state / "log.jsonl", writes=processes.first)
        self.progress = self._resume(state)
        parent.check_present(self.progress.update)
        if processes.first and not self.progress.update:
            parent.show()
        self.sums = torch.tensor(self.progress.sums, dtype=torch.float64, device=device)

    def _resume(self, state: Path) -> Progress:
        """Load the newest checkpoint in every process; raise ConfigError if it is beyond the end asked for."""
        optimizer = self.gradients.optimizer
        progress = self.checkpoints.resume(self.model, optimizer) if self.processes.first else Progress()
        if self.processes.first:
            self._prune()  # a process that was killed after it had saved a checkpoint did not
        progress = broadcast_state(self.processes, progress, self.model, optimizer)
        if progress.update > (end := self.milestones.end(self.log.records(progress.update))):
            raise ConfigError(
                f"{state}: has trained to update {progress.update}, beyond the end now asked for, {end}; choose an "
                "earlier checkpoint in the table (at: epoch N), or move that folder away to train anew"
            )
        return progress

    def run(self) -> str:
        """Train until updates, epochs or patience end it, and return which one did.

        Raises:
            DataError: the loss is not a number.
            Interrupted: a signal has asked the process to stop; a checkpoint is saved.
        """
        self.log.start(self.progress, self.hardware())
        if self.processes.first and not self.progress.update:
            for line in self.updates.describe_mixing():
                print(line, file=sys.stderr)
        self.model.train()
        signals, saved = [0], self.progress.seconds
        with (
            signal_handlers(lambda number, _: signals.append(number)),
            ProgressMeter(self.updates.total, self.progress, self.processes.first, self.name) as self.meter,
        ):
            if self.ended():
                self._validate_last()
            for update in () if self.ended() else self.updates.after(self.progress):
                self.train_on(update)
                self.meter.tick(self.progress)
                if self.milestones.record_due(update):
                    self._record()
                # All processes decide together, once; a signal that comes later counts after the next update.
                late = self.milestones.rescue_due(self.progress, saved)
                signal, rescue = self.processes.maximum(signals[-1], late)
                if self._reach_milestones(update, bool(signal or rescue)):
                    saved = self.progress.seconds
                if self.ended():
                    break
                if signal:
                    raise Interrupted(signal, f"at update {update.number}")
        return self.milestones.why_ended(self.progress)

    def ended(self) -> bool:
        """Return whether no update is left."""
        return self.milestones.ended(self.progress)

    def train_on(self, update: Update) -> None:
        """Make one update: forward, backward, optimiser."""
        set_learning_rate(self.gradients.optimizer, self._learning_rate(update.number))
        torch.manual_seed(update.seed)  # dropout depends on this alone
        before = self.sums.clone()
        if not self.processes.first:
            self.sums.zero_()  # all processes know the sums so far; only the first one counts them
        self.gradients.denominator.fill_(update.pieces if self.config.loss_mean == "pieces" else update.sentences)
        consistency = self.config.consistency_of(update.number, self.updates.total)
        for batch in update.batches:
            self.sums += self.gradients.add(batch, consistency)
        self.processes.sum_gradients(self.model)
        self.processes.sum(self.sums)
        norm = self.gradients.norm()
        if math.isfinite(norm):
            self.gradients.apply(norm)
        else:
            self.nan_policy.reject(update, float((self.sums - before)[0]) / update.pieces, float(norm))
            self.progress.skipped += 1
            self.sums = before
            self.gradients.clear()
        update.advance(self.progress)

    def _learning_rate(self, update: int) -> float:
        return learning_rate(update, self.config.schedule, self.model.config.width, self.updates.total)

    def _reach_milestones(self, update: Update, rescue: bool) -> bool:
        """Validate and save a checkpoint where due; return whether a checkpoint was saved."""
        best = self.milestones.validation_due(update) and (self._validate() or self._among_best())
        regular = self.milestones.checkpoint_due(update)
        if regular or best or self.ended():
            self._checkpoint(regular)
            return True
        if rescue:
            self.progress.valid_loss = self.progress.valid_bleu = None  # came by chance, so it is never the best
            self._checkpoint(regular=False)
        return rescue

    def _record(self) -> None:
        """Log the training loss since the last record."""
        nll, correct, pieces = self.sums.tolist()
        self.sums.zero_()
        progress = self.progress
        record = {
            "event": "train", "update": progress.update, "epoch": round(progress.epoch_fraction, 4),
            "loss": nll / max(pieces, 1), "accuracy": correct / max(pieces, 1),
            "learning_rate": self._learning_rate(progress.update),
            "gradient_norm": float(self.gradients.applied_norm), "skipped": progress.skipped,
            "seconds": round(progress.seconds, 3), "tokens_per_second": round(self.meter.speed(progress)),
        }  # fmt: skip
        self.log.write(record)
        self.meter.show_training(record)

    def _validate(self) -> bool:
        """Measure on the validation set, log it, and return whether this is the best so far."""
        loss, accuracy = self.validation.loss(self.model)
        bleu = self.validation.bleu(self.model) if self.config.validation_bleu else None
        train_bleu = self.validation.train_bleu(self.model)
        progress = self.progress
        self.meter.tick(progress)
        best = progress.add_validation(loss, bleu, self.config.monitor)
        record = {
            "event": "valid", "update": progress.update, "epoch": round(progress.epoch_fraction, 4), "loss": loss,
            "accuracy": accuracy, "bleu": bleu, "train_bleu": train_bleu,
            "seconds": round(progress.seconds, 3), "best": best,
        }  # fmt: skip
        self.log.write(record)
        self.meter.show_validation(record)
        return best

    def _validate_last(self) -> None:
        """Validate the last update if it became the last one, by fewer updates or epochs, after it was saved."""
        last = self.log.records(self.progress.update)
        if not any(record["event"] == "valid" and record["update"] == self.progress.update for record in last):
            self._validate()
            self._checkpoint(self.progress.regular)

    def _among_best(self) -> bool:
        """Return whether keep_best keeps the validated weights; the first process, which has the others, decides."""
        count, monitor = self.config.keep_best, self.config.monitor
        kept = self.processes.first and self.checkpoints.among_best(self.progress, count, monitor)
        return self.processes.broadcast(kept)

    def _checkpoint(self, regular: bool) -> None:
        """Save all that is needed to resume; ``regular`` if checkpoint_every asks for it.

        The log comes first: a process that is killed in between makes the update again, with its records.
        """
        self.progress.regular = regular
        nll, correct, pieces = self.sums.tolist()
        self.progress.sums = nll, correct, pieces
        if self.processes.first:
            self.log.write(
                {"event": "checkpoint", "update": self.progress.update, "epoch": self.progress.epoch_fraction,
                 "name": self.checkpoints.path(self.progress).name, "regular": regular}
            )  # fmt: skip
            self.log.flush()
            self.checkpoints.save(self.progress, self.model, self.gradients.optimizer)
            self._prune()
        self.processes.barrier()

    def _prune(self) -> None:
        self.checkpoints.prune(self.config.keep_last, self.config.keep_best, self.config.monitor)

    def hardware(self) -> dict[str, Any]:
        """Return what each process runs on, the number of processes, and the number format of the computation."""
        return machine.hardware(self.device) | {"processes": self.processes.size, "precision": self.gradients.precision}
