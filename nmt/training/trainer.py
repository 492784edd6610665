"""The training loop: teacher forcing, validation, checkpoints, resuming."""

import fcntl
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
from pydantic import Field, ValidationError, model_validator
from tqdm import tqdm

from nmt.config.models import ModelConfig, MultimodalConfig, TransformerConfig
from nmt.config.training import ENDS, Training, check_passes
from nmt.config.types import Strict, amount
from nmt.data.batches import Batch, Parallel
from nmt.data.features import of_split, seen
from nmt.models.build import build
from nmt.models.loss import cross_entropy
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_no_stage, digest, read_json, read_lines, write_json, write_text
from nmt.system.interrupt import Interrupted, heeded
from nmt.system.workers import ahead
from nmt.text.subwords import SIDES
from nmt.training import optimizer as optim
from nmt.training import word_vectors
from nmt.training.checkpoint import Checkpoints, Progress, spread
from nmt.training.cuda_graphs import OfShapes, Repeated, Work
from nmt.training.distributed import ALONE, Processes, joined
from nmt.training.validation import Validation

RECORD_EVERY = 50  # updates between lines of the log
SKIPPED = 10  # most updates in a row that on_nan: skip leaves out: more are no accident
RESCUE_SECONDS = 300  # most training time that a crash between checkpoints may lose


class Experiment(Strict):
    """What `train` is asked to do."""

    model: ModelConfig = TransformerConfig()
    training: Training = Field(description="the training loop")

    @model_validator(mode="after")
    def _passes_differ_by_dropout(self) -> Self:
        check_passes(self.model, self.training)
        return self

    def is_that_of(self, made: Mapping[str, Any]) -> bool:
        """Whether a ``training.json`` is of this, by what differs from the defaults: later keys change nothing."""
        try:
            return Experiment.model_validate(made["config"]).essence() == self.essence()
        except ValidationError:  # it was trained with keys or values that there are no more
            return False


def train(
    encoded: Path,
    run: Path,
    config: Experiment,
    seed: int,
    device: str,
    threads: int | None,
    name: str,
    images: Path | None = None,
    vectors: Mapping[str, Path] | None = None,
) -> None:
    """Train to the end, resuming whatever state ``run/state`` holds of the same training.

    Writes ``run/log.jsonl`` and then, last, ``run/training.json``. Randomness is a function of (seed, update, process),
    so an interrupted training ends with the same weights as an undisturbed one, bit for bit on a CPU with as many
    threads and processes. Of several processes (`nmt.training.distributed`) each calls this with the same arguments.

    Args:
        encoded: the corpus.
        run: the folder of this training.
        config: what to train.
        seed: of all that is random.
        device: as `nmt.system.machine.prepare` takes it.
        threads: of the CPU, for each process.
        name: table/system.
        images: for a multimodal model, the folder of ``train.npy`` and ``valid.npy``.
        vectors: files of word vectors to start embeddings from, by side (`nmt.training.word_vectors.load`).

    Raises:
        ConfigError: no GPU where one was asked, a model that the vocabularies do not fit, an end already passed.
        DataError: encoded text or state is damaged, another stage made ``run``, another process trains here, the loss
            is no number, another process of this training has ended.
        Interrupted: told to stop by a signal.
    """
    check_no_stage(run)
    with joined(device) as processes:
        chosen, version = machine.prepare(device, threads), machine.code_version()
        meta = read_json(encoded / "meta.json")
        _check_tying(config, meta, encoded)
        start = word_vectors.load(encoded, vectors or {}, config.model.width)
        made_of = _made_of(config, seed, meta) | start.described | seen(config.model, images)
        same, state = identity(config, made_of), run / "state"
        with alone(run, "train.lock") if processes.first else nullcontext():
            if processes.first:
                claim_state(state, same, made_of["config"])
            trainer = Trainer(encoded, state, config, seed, chosen, images, processes, start)
            if processes.first:
                if trainer.ended() and _told(run, made_of, config):
                    return  # what is there stays, with the machine and the code that made it
                _forget(run)
            stopped = trainer.run()
            if processes.first:
                found = trainer.summary(stopped)
                made = {"name": name, **made_of, "identity": same, **found}
                _finish(run, state, made | {"corpus": meta["corpus"], "code_version": version})


def _made_of(config: Experiment, seed: int, meta: dict[str, Any]) -> dict[str, Any]:
    dumped = config.model_dump(mode="json")
    return {"config": dumped, "seed": seed, "data": meta["splits"], "subwords": meta["subwords"]}


def _told(run: Path, made_of: dict[str, Any], config: Experiment) -> bool:
    """Whether this very training has left what a training leaves."""
    if not all((run / name).is_file() for name in ("training.json", "log.jsonl")):
        return False
    there = read_json(run / "training.json")
    same = all(there.get(key) == value for key, value in made_of.items() if key != "config")
    return same and config.is_that_of(there)


def _forget(run: Path) -> None:
    """Take away what a training before this one has left."""
    for name in ("training.json", "log.jsonl"):
        (run / name).unlink(missing_ok=True)


def _finish(run: Path, state: Path, facts: dict[str, Any]) -> None:
    """Write what a training leaves behind, the sign that it has ended last."""
    lines = list(read_lines(state / "log.jsonl"))
    write_text(run / "log.jsonl", "".join(f"{line}\n" for line in lines))
    write_json(run / "training.json", facts | {"starts": _starts(map(json.loads, lines), facts["updates"])})


def _starts(log: Iterable[dict[str, Any]], end: int) -> list[dict[str, Any]]:
    """From which update on what machine and which code trained; older records do not tell.

    Of starts at one update the last alone did, of those at the end none.
    """
    starts = {one["update"]: one for one in log if one["event"] == "start" and one["update"] < end}.values()
    told = [{key: start.get(key) for key in ("update", "hardware", "code_version")} for start in starts]
    return [next(same) for _, same in groupby(told, lambda start: (start["hardware"], start["code_version"]))]


def _check_tying(config: Experiment, meta: dict[str, Any], encoded: Path) -> None:
    if config.model.tied == "all" and not meta["subwords"]["subwords"]["joint"]:
        raise ConfigError(
            f"model.tied: all needs one vocabulary for both sides; {encoded} has one a side (subwords.joint)"
        )


@contextmanager
def alone(run: Path, name: str) -> Iterator[None]:
    """Refuse a second process that would train in the same folder; the lock ends with the process that holds it."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"{run}: another process trains here; wait for it, or end it first") from None
        yield


def identity(config: Experiment, made_of: dict[str, Any]) -> dict[str, Any]:
    """What two trainings must share for one to go on from the other's state: all but when to end.

    Where the end decides learning rates or losses, it counts.
    """
    essence = config.essence()
    if not config.training.to_the_end:
        for end in ENDS:
            essence["training"].pop(end, None)
    return made_of | {"config": essence}


def claim_state(state: Path, wanted: dict[str, Any], config: dict[str, Any]) -> Path:
    """Make ``state`` the home of this training; that of another configuration, seed or data moves aside.

    Args:
        state: the folder.
        wanted: the training's `identity`.
        config: its whole configuration, kept beside.
    """
    mark = state / "identity.json"
    if mark.is_file() and (there := _identity_in(mark)) != wanted:
        aside = state.with_name(f"state-{digest(there)}-{time.time_ns()}")
        state.replace(aside)
        _forget(state.parent)
        print(
            f"{state}: held another training (configuration, seed or data differ); kept as {aside}",
            file=sys.stderr,
        )
    for earlier in sorted(state.parent.glob(f"{state.name}-{digest(wanted)}-*")):
        if not state.exists() and _identity_in(earlier / "identity.json") == wanted:
            earlier.replace(state)  # this very training, set aside when another came between
    write_json(mark, {"identity": wanted, "config": config})
    return state


def _identity_in(mark: Path) -> Any:
    return read_json(mark).get("identity")


@dataclass(frozen=True)
class Step:
    """The batches of one update, and where it leaves the epoch."""

    update: int
    epoch: int  # finished epochs after it
    batch: int  # batches taken of the epoch under way after it
    epoch_fraction: float
    pieces: int  # target pieces to predict in all its batches
    batches: list[Batch]  # this process's sentences; none of a batch that has too few for all


class Trainer:
    """One training: model, data, optimiser and progress, alike in each of its processes."""

    def __init__(
        self,
        encoded: Path,
        state: Path,
        config: Experiment,
        seed: int,
        device: torch.device,
        images: Path | None = None,
        processes: Processes = ALONE,
        start: word_vectors.Start = word_vectors.NOWHERE,
    ) -> None:
        self.processes = processes
        self.config, self.seed, self.device, self.state = config.training, seed, device, state
        meta = read_json(encoded / "meta.json")
        torch.manual_seed(seed)
        sizes = [meta["vocabulary"][side] for side in SIDES]
        self.model = build(config.model, sizes[0], sizes[1], meta["ids"]["pad"]).to(device)
        start.fill(self.model)
        self.optimizer = optim.make(self.model, self.config.optimizer)
        pictures = (
            partial(of_split, config.model, None, images)
            if isinstance(config.model, MultimodalConfig) or images
            else None
        )
        self.data = Parallel(encoded, "train", self.model.longest, pictures)
        sample = self.data.spread(self.config.train_bleu) if self.config.train_bleu else None
        self.validation = Validation(encoded, device, self.model.longest, sample, pictures, processes)
        self.checkpoints = Checkpoints(state / "checkpoints")
        found = self.checkpoints.resume(self.model, self.optimizer) if processes.first else Progress()
        self.progress = spread(processes, found, self.model, self.optimizer)
        self.total = self._total_updates()
        if self.progress.update > (end := min(self.total, self._patience_ended())):
            raise ConfigError(
                f"{state}: has trained to update {self.progress.update}, beyond the end now asked for, {end}; "
                "choose an earlier checkpoint in the table (at: epoch N), or move that folder away to train anew"
            )
        self._signal: int | None = None
        self._skipped = 0  # updates left out in a row
        self.gradient_norm = torch.zeros((), device=device)
        self._sums = torch.tensor(self.progress.sums, dtype=torch.float64, device=device)
        self._pieces = torch.ones((), device=device)  # of the update under way
        self._parameters = list(self.model.parameters())
        self._choose_graphs()

    def _choose_graphs(self) -> None:
        """On a GPU have a batch's work and the optimiser's step done by graphs, where they can be recorded."""
        self._work: Work = self._accumulate_gradients
        self._move: Callable[[], None] = self._step
        if self.device.type == "cuda" and not self.model.waits:
            self._work = OfShapes(self._accumulate_gradients, self.total / self._updates_an_epoch)
        if optim.recordable(self.optimizer):
            self._move = Repeated(self._step)

    def _total_updates(self) -> int:
        """Updates of the whole training, should patience not end it."""
        limits = [self.config.updates, self.config.epochs and self.config.epochs * self._updates_an_epoch]
        return min(limit for limit in limits if limit is not None)

    def _patience_ended(self) -> float:
        """The update at which patience would have ended what has been trained with more of it; infinity if none."""
        log, waited = self.state / "log.jsonl", 0
        for line in read_lines(log) if self.config.patience and log.is_file() else ():
            if _before(line, self.progress.update) and (record := json.loads(line))["event"] == "valid":
                waited = 0 if record["best"] else waited + 1
                if waited == self.config.patience:
                    return int(record["update"])
        return math.inf

    @cached_property
    def _updates_an_epoch(self) -> int:
        return math.ceil(len(self.data.batches(self.config.batch)) / self.config.accumulate)

    def run(self) -> str:
        """Train until updates, epochs or patience end it; says which."""
        self.log = Log(self.state / "log.jsonl" if self.processes.first else None, self.progress, self.hardware())
        self.model.train()
        saved, self._ticked = self.progress.seconds, time.perf_counter()
        with heeded(self.told_to_stop), Meter(self.total, self.progress, self.processes.first) as meter:
            for step in ahead(self._steps()) if self.device.type == "cuda" else self._steps():
                self._update(step)
                self._tick()
                if step.update % RECORD_EVERY == 0 or step.update == self.total:
                    self._record(step, meter)
                # Agreed on once: a signal that comes later is heeded after the next update.
                told, late = self.processes.most(self._signal or 0, self.progress.seconds - saved > RESCUE_SECONDS)
                if self._milestones(step, rescue=bool(told or late)):
                    saved = self.progress.seconds
                if self.ended():
                    break
                if told:
                    raise Interrupted(told, f"at update {step.update}")
        if self._out_of_patience():
            return "patience"
        return "updates" if self.progress.update == self.config.updates else "epochs"

    def ended(self) -> bool:
        """Whether no update is left to make."""
        return self.progress.update >= self.total or self._out_of_patience()

    def _tick(self) -> None:
        """Count the time since the last call as training: updates, data, validation and checkpoints alike."""
        now = time.perf_counter()
        self.progress.seconds += now - self._ticked
        self._ticked = now

    def _milestones(self, step: Step, rescue: bool) -> bool:
        """Validate and checkpoint if due; says whether all is saved."""
        last = step.update == self.total
        better = (last or self._due(self.config.validate_every, step)) and self._validate()
        due = self._due(self.config.checkpoint_every, step)
        if due or better or self.ended():
            self._checkpoint(due)
        elif rescue:
            self.progress.valid_loss = self.progress.valid_bleu = None  # when it came is chance: never called best
            self._checkpoint(False)
        return due or better or rescue or self.ended()

    def _steps(self) -> Iterator[Step]:
        """The updates still to make, from where the progress stands, unless patience ends them before."""
        update, epoch, taken = self.progress.update, self.progress.epoch, self.progress.batch
        if self.ended():
            return
        while True:
            batches = self.data.batches(self.config.batch, (self.seed, epoch))
            for start in range(taken, len(batches), self.config.accumulate):
                group = batches[start : start + self.config.accumulate]
                shares = [share for share in map(self.processes.share, group) if len(share)]
                update, taken = update + 1, start + len(group)
                ended = taken == len(batches)
                fraction = epoch + taken / len(batches)
                pieces = sum(map(self.data.pieces, group))
                own = [self._ready(self.data.batch(share)) for share in shares]
                yield Step(update, epoch + ended, 0 if ended else taken, fraction, pieces, own)
                if update == self.total:
                    return
            epoch, taken = epoch + 1, 0

    def _ready(self, batch: Batch) -> Batch:
        """A batch where the GPU can fetch it while this process goes on."""
        return batch.each(torch.Tensor.pin_memory) if self.device.type == "cuda" else batch

    def _update(self, step: Step) -> None:
        """Forward, backward and one step of the optimiser."""
        optim.set_rate(self.optimizer, self._rate(step.update))
        torch.manual_seed(_mix(self.seed, step.update, self.processes.rank))  # dropout depends on these alone
        before = self._sums.clone()
        if not self.processes.first:
            self._sums.zero_()  # the sums so far, which all know, are counted once
        self._pieces.fill_(step.pieces)
        for batch in step.batches:
            self._sums += self._work(batch.to(self.device), self.config.consistency_of(step.update, self.total))
        self.processes.add_gradients(self.model)
        self.processes.add(self._sums)
        norm = torch.nn.utils.get_total_norm(self._gradients())
        if math.isfinite(norm):
            self.gradient_norm.copy_(norm)
            self._move()
            self._skipped = 0
        else:
            self._leave_out(step, float(norm), before)
            self._forget_gradients()
        self._advance(step)

    def _rate(self, update: int) -> float:
        return optim.learning_rate(update, self.config.schedule, self.model.config.width, self.total)

    def _gradients(self) -> list[torch.Tensor]:
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

    def _step(self) -> None:
        """One step of the optimiser, by gradients that are clipped first and forgotten after."""
        if self.config.clip:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self.config.clip, self.gradient_norm)
        self.optimizer.step()
        self._forget_gradients()

    def _forget_gradients(self) -> None:
        if self.device.type == "cpu":
            self.optimizer.zero_grad()
        else:
            torch._foreach_zero_(self._gradients())  # graphs add to the same tensors

    def _leave_out(self, step: Step, norm: float, before: torch.Tensor) -> None:
        """Go on without an update whose gradient is no number; or save its batches and stop, as on_nan says."""
        self._skipped += 1
        if self.config.on_nan == "skip" and self._skipped <= SKIPPED:
            self.progress.skipped += 1
            self._sums = before
            return
        share = f"-{self.processes.rank}" if self.processes.size > 1 else ""  # of the batches: this process's
        kept = self.state / f"not-a-number-{step.update:08}{share}.json"
        batches = [{"source": batch.source.tolist(), "target": batch.target.tolist()} for batch in step.batches]
        write_json(kept, {"update": step.update, "gradient_norm": str(norm), "batches": batches})
        loss = float((self._sums - before)[0]) / step.pieces
        raise DataError(
            f"{self.state} at update {step.update}: expected finite loss and gradients, got {loss} and {norm}; its "
            f"batches are in {kept}; lower schedule.peak, raise warmup or set clip: 1.0 (or on_nan: skip), then run "
            "again"
        )

    def _accumulate_gradients(self, batch: Batch, consistency: float) -> torch.Tensor:
        """Add the gradients of a batch's loss, a mean over the update's pieces; with consistency of two passes.

        Returns:
            Sums over the batch's pieces: negative log-likelihood, hits, and how many; float64.
        """
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bf16"):
            shown = batch.twice() if consistency else batch
            outputs = self.model(shown.source, shown.target[:, :-1], shown.images)
            hidden = outputs.flatten(0, 1).index_select(0, shown.places).float()
            weight, smoothing = self.model.projection.weight, self.config.label_smoothing
            loss, nll, correct = cross_entropy(hidden, weight, batch.expected, smoothing, consistency)
        (loss / self._pieces).backward()  # type: ignore[no-untyped-call]
        return torch.stack([nll, correct, nll.new_full((), batch.pieces)]).double()

    def _advance(self, step: Step) -> None:
        progress = self.progress
        progress.update, progress.epoch, progress.batch = step.update, step.epoch, step.batch
        progress.epoch_fraction, progress.pieces = step.epoch_fraction, progress.pieces + step.pieces
        progress.valid_loss = progress.valid_bleu = None

    def _record(self, step: Step, meter: "Meter") -> None:
        """Log the training loss since the last record."""
        nll, correct, pieces = self._sums.tolist()
        self._sums.zero_()
        record = {
            "event": "train", "update": step.update, "epoch": round(step.epoch_fraction, 4),
            "loss": nll / max(pieces, 1), "accuracy": correct / max(pieces, 1),
            "learning_rate": self._rate(step.update), "gradient_norm": float(self.gradient_norm),
            "skipped": self.progress.skipped, "seconds": round(self.progress.seconds, 3),
            "tokens_per_second": round(meter.speed(self.progress)),
        }  # fmt: skip
        self.log.write(record)
        meter.show(record)

    def _validate(self) -> bool:
        """Measure on the validation set; says whether it is the best so far."""
        loss, accuracy = self.validation.loss(self.model)
        score = self.validation.bleu(self.model) if self.config.validation_bleu else None
        train_score = self.validation.train_bleu(self.model)
        progress = self.progress
        self._tick()
        progress.valid_loss, progress.valid_bleu = loss, score
        value = -loss if self.config.monitor == "loss" else score
        assert value is not None
        better = progress.best is None or value > progress.best
        progress.best, progress.since_best = (value, 0) if better else (progress.best, progress.since_best + 1)
        record = {
            "event": "valid", "update": progress.update, "epoch": round(progress.epoch_fraction, 4), "loss": loss,
            "accuracy": accuracy, "bleu": score, "train_bleu": train_score,
            "seconds": round(progress.seconds, 3), "best": better,
        }  # fmt: skip
        self.log.write(record)
        if self.processes.first:
            say(_line(record))
        return better

    def _checkpoint(self, regular: bool) -> None:
        """Save all there is to resume from; ``regular`` if checkpoint_every asks for it."""
        self.progress.regular = regular
        self.progress.sums = self._sums.tolist()
        if self.processes.first:
            saved = self.checkpoints.save(self.progress, self.model, self.optimizer)
            self.checkpoints.prune(self.config.keep_last, self.config.keep_best, self.config.monitor)
            self.log.write(
                {"event": "checkpoint", "update": self.progress.update, "epoch": self.progress.epoch_fraction,
                 "name": saved.name, "regular": regular}
            )  # fmt: skip
        self.processes.wait()

    def _due(self, interval: str, step: Step) -> bool:
        number, unit = amount(interval)
        return step.update % number == 0 if unit == "updates" else step.batch == 0 and step.epoch % number == 0

    def _out_of_patience(self) -> bool:
        return self.config.patience is not None and self.progress.since_best >= self.config.patience

    def told_to_stop(self, number: int, _: FrameType | None) -> None:
        """Signal handler: finish the update, save, stop."""
        self._signal = number

    def hardware(self) -> dict[str, Any]:
        """What each process runs on, and how many there are."""
        return machine.hardware(self.device) | {"processes": self.processes.size}

    def summary(self, stopped: str) -> dict[str, Any]:
        """What a finished training reports."""
        progress, found = self.progress, self.checkpoints.all()
        points = [(path.name, self.checkpoints.progress(path)) for path in found]
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()), "updates": progress.update,
            "epochs": progress.epoch_fraction, "seconds": round(progress.seconds, 1), "pieces": progress.pieces,
            "tokens_per_second": round(progress.pieces / max(progress.seconds, 1e-9)), "stopped": stopped,
            "skipped": progress.skipped, "too_long": self.data.too_long, "device": self.device.type,
            "hardware": self.hardware(), "versions": machine.versions(),
            "checkpoints": [
                {"name": name, "update": p.update, "epoch": p.epoch_fraction, "regular": p.regular,
                 "valid_loss": p.valid_loss, "valid_bleu": p.valid_bleu} for name, p in points
            ],
        }  # fmt: skip


class Log:
    """``log.jsonl``: one record a line; what a resumed training will do again is cut off first.

    The first process of a training has one; for the others there is no path, and nothing is written.
    """

    def __init__(self, path: Path | None, progress: Progress, hardware: dict[str, Any]) -> None:
        self.path = path
        if path is None:
            return
        kept = [line for line in read_lines(path) if _before(line, progress.update)] if path.is_file() else []
        write_text(path, "".join(f"{line}\n" for line in kept))
        self.write(
            {"event": "start", "update": progress.update, "time": time.time(), "process": os.getpid(),
             "hardware": hardware, "code_version": machine.code_version()}
        )  # fmt: skip

    def write(self, record: dict[str, Any]) -> None:
        """Append a record; a reader sees whole lines."""
        if self.path is None:
            return
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def _before(line: str, update: int) -> bool:
    try:
        return bool(json.loads(line)["update"] <= update)
    except ValueError:  # the last line of a process killed while writing
        return False


class Meter:
    """Progress for people: a bar on a terminal, plain lines with the time to go in a log."""

    def __init__(self, total: int, progress: Progress, shown: bool = True) -> None:
        self.total, self._shown = total, shown
        hidden = not (shown and sys.stderr.isatty())
        self._bar = tqdm(total=total, initial=progress.update, unit="update", disable=hidden, dynamic_ncols=True)
        self._last = progress.seconds, progress.pieces

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def speed(self, progress: Progress) -> float:
        """Target pieces a second since the last call."""
        seconds, pieces = self._last
        self._last = progress.seconds, progress.pieces
        return (progress.pieces - pieces) / max(progress.seconds - seconds, 1e-9)

    def show(self, record: dict[str, Any]) -> None:
        """Show a training record."""
        done = record["update"]
        if not self._bar.disable:
            self._bar.update(done - self._bar.n)
            self._bar.set_postfix(loss=f"{record['loss']:.3f}", tokens_s=record["tokens_per_second"])
        elif self._shown and (done % (4 * RECORD_EVERY) == 0 or done == self.total):
            left = int(record["seconds"] / done * (self.total - done))
            say(f"{_line(record)}  {done}/{self.total}  {left // 60}:{left % 60:02d} to go")


def _line(record: dict[str, Any]) -> str:
    parts = [f"{record['event']:5}", f"update {record['update']:6}", f"epoch {record['epoch']:6.2f}"]
    parts += [f"loss {record['loss']:.4f}", f"accuracy {100 * record['accuracy']:.1f} %"]
    if record.get("bleu") is not None:
        parts.append(f"BLEU {record['bleu']:.2f}")
    if "learning_rate" in record:
        parts += [f"rate {record['learning_rate']:.2e}", f"{record['tokens_per_second']:,} tokens/s"]
    return "  ".join(parts)


def say(text: str) -> None:
    """One line for people, that leaves a progress bar whole."""
    tqdm.write(text, file=sys.stderr)


def _mix(seed: int, update: int, rank: int) -> int:
    """A generator seed from all three, well apart for neighbours; the first process's is that of one alone."""
    return int(digest([seed, "dropout", update, *([rank] if rank else [])]), 16)
