"""The trainings of chosen tables within a time budget, cheapest first, then their rows: without Snakemake or MLflow.

For a machine that has no more than the repository and the encoded text, such as a GPU lent for an hour. Files go where
the workflow looks for them, so that it takes what is there as done (docs/reproduce.md).
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from nmt.checkpoint import Checkpoints
from nmt.config import Row, System, amount
from nmt.errors import DataError
from nmt.files import read_json
from nmt.gpus import PER_GPU, available
from nmt.interrupt import Interrupted, heeded
from nmt.layout import Layout
from nmt.models import build
from nmt.plan import Plan, dump, experiment, table_path
from nmt.subwords import SIDES
from nmt.training import Experiment

POLL = 0.2  # seconds between looks at the clock
GRACE = 120  # seconds that a training told to stop has to save what it has


class OutOfTime(Exception):
    """The budget is spent; what is under way has been saved."""


@dataclass
class Clock:
    """When to stop: at the end of the budget, or when told to."""

    end: float
    told: int | None = None  # the signal

    def over(self) -> bool:
        """Whether nothing more may be begun."""
        return self.told is not None or time.monotonic() > self.end

    def heed(self, number: int, _: FrameType | None) -> None:
        """Signal handler."""
        self.told = number


@dataclass(frozen=True, eq=False)
class Run:
    """One system of a table, trained with one seed."""

    plan: Plan
    table: str
    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.table}/{self.name} seed {self.seed}"

    @property
    def system(self) -> System:
        """Its configuration."""
        return self.plan.system(self.table, self.name)

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return self.plan.layout

    @property
    def folder(self) -> Path:
        """Of the training."""
        return self.layout.run(self.table, self.name, self.seed)

    @property
    def encoded(self) -> Path:
        """What it is trained on."""
        return self.layout.encoded(self.system)

    @cached_property
    def rows(self) -> list[Row]:
        """Those of the table that it is behind."""
        return [row for row in self.plan.tables[self.table].rows if row.system == self.name]

    def inputs(self) -> list[Path]:
        """Everything that it and its rows are made from."""
        tests = [self._texts(row) for row in self.rows]
        pictures = [*self.plan.features(self.system, ["train", "valid"]), *filter(None, map(self._pictures, self.rows))]
        found = [self.encoded, *(folder for both in tests for folder in both), *map(Path, pictures)]
        return list(dict.fromkeys([*found, *self.plan.vectors(self.system).values()]))

    def trained(self) -> bool:
        """Whether the training has ended, and was the one asked for, on the text that is there."""
        if not (self.folder / "training.json").is_file():
            return False
        made, meta = read_json(self.folder / "training.json"), read_json(self.encoded / "meta.json")
        wanted = Experiment(model=self.system.model, training=self.system.training).model_dump(mode="json")
        return bool(made["config"] == wanted and made["data"] == meta["splits"])

    def cost(self) -> float:
        """Floating-point operations that its training still takes at most: 6 a parameter and target piece."""
        meta = read_json(self.encoded / "meta.json")
        sizes = [meta["vocabulary"][side] for side in SIDES]
        with torch.device("meta"):
            model = build(self.system.model, sizes[0], sizes[1], meta["ids"]["pad"])
        saved = Checkpoints(self.folder / "state" / "checkpoints")
        trained = max((saved.progress(one).pieces for one in saved.all()), default=0)
        left = max(0.0, pieces(self.system, meta["splits"]["train"]) - trained)
        return 0.0 if self.trained() else 6 * left * sum(parameter.numel() for parameter in model.parameters())

    def training(self, device: str, threads: Sequence[str]) -> list[str]:
        """The command that trains, or goes on."""
        features = self.plan.features(self.system, ["train"])
        images = [f"--images={Path(one).parent}" for one in features]
        vectors = [f"--word-vectors={side}={file}" for side, file in self.plan.vectors(self.system).items()]
        return [
            "train", str(self.encoded), str(self.folder), "--config", experiment(self.system), f"--seed={self.seed}",
            f"--name={self.table}/{self.name}", f"--device={device}", *threads, *images, *vectors,
        ]  # fmt: skip

    def scoring(self, row: Row, device: str, threads: Sequence[str]) -> Iterator[list[str]]:
        """The commands that make a row of the training, those left out whose result is there and not older."""
        model, test = self.layout.model(self.table, row, self.seed), self.plan.tables[self.table].test_of(row)
        scores = self.layout.scores(self.table, row, test, self.seed)
        raw, clean = self._texts(row)
        hypotheses, (source, _) = scores / "hypotheses.txt", self.system.languages.split("-")
        if _older(model / "provenance.json", self.folder / "training.json"):
            yield ["average", str(self.folder), str(model), f"--at={row.at}", f"--encoded={self.encoded}"]
        if _older(hypotheses, model / "provenance.json"):
            images = [f"--images={one}" for one in [self._pictures(row)] if one]
            text, decoding = str(clean / f"{test}.{source}"), ["--config", dump(row.decoding)]
            yield ["decode", str(model), text, str(hypotheses), *decoding, f"--device={device}", *threads, *images]
        if _older(scores / "scores.json", hypotheses):
            where = [f"--clean={clean}", f"--raw={raw}", f"--model={model}", f"--out={scores}"]
            what = [f"--test={test}", f"--languages={self.system.languages}", *self.plan.score_options(self.table)]
            yield ["score", str(hypotheses), *where, *what]

    def _texts(self, row: Row) -> tuple[Path, Path]:
        return self.layout.texts(self._tested(row), self.plan.tables[self.table].test_of(row))

    def _pictures(self, row: Row) -> str | None:
        found = self.plan.features(self._tested(row), [self.plan.tables[self.table].test_of(row)], row.decoding.images)
        return found[0] if found else None

    def _tested(self, row: Row) -> System:
        return self.plan.tested(self.table, self.name, self.plan.tables[self.table].test_of(row))


def pieces(system: System, train: dict[str, Any]) -> float:
    """Target pieces of a whole training, should patience not end it.

    Args:
        system: what ends it, ``epochs`` or ``updates``, and its batches.
        train: ``sentences`` and ``target_pieces`` of an epoch.
    """
    training, (number, unit) = system.training, amount(system.training.batch)
    each = number if unit == "tokens" else number * train["target_pieces"] / train["sentences"]
    limits = [training.epochs and training.epochs * train["target_pieces"]]
    limits += [training.updates and training.updates * training.accumulate * each]
    return min(float(limit) for limit in limits if limit is not None)


def reproduce(plan: Plan, tables: Sequence[str], minutes: float, at_once: int) -> dict[str, list[str]]:
    """Train what tables still lack, cheapest to finish first, and make their rows; stops in time and can go on.

    Every command is one of `nmt`'s own and keeps its words in ``logs/reproduce/``. A table that is complete is written.

    Args:
        plan: the settings and tables.
        tables: names.
        minutes: the budget. When it is spent, trainings under way save what they have.
        at_once: trainings side by side, on as many parts of the CPU's cores, or sharing the GPUs.

    Returns:
        The names of the runs by what became of them: ``done``, ``unfinished``, ``failed``, ``left out``.

    Raises:
        DataError: none of the trainings has what it is made from.
        Interrupted: told to stop by a signal; all is saved.
    """
    runs = [Run(plan, table, *run) for table in tables for run in plan.runs(table)]
    ready = sorted((run for run in runs if not _lacks(run)), key=Run.cost)
    if not ready:
        raise DataError(_where_to_make(runs))
    clock = Clock(time.monotonic() + 60 * minutes)
    with heeded(clock.heed), ThreadPoolExecutor(at_once) as pool:
        ends = dict(zip(ready, pool.map(lambda run: _end(run, clock, at_once), ready), strict=True))
        for table in tables:
            _report(plan, table)
    if clock.told:
        raise Interrupted(clock.told, f"with {list(ends.values()).count('done')} of {len(runs)} trainings done")
    outcome: dict[str, list[str]] = {"done": [], "unfinished": [], "failed": [], "left out": []}
    for run in runs:
        outcome[ends.get(run, "left out")].append(str(run))
    return outcome


def _end(run: Run, clock: Clock, at_once: int) -> str:
    """Finish a run; says what became of it."""
    try:
        _finish(run, clock, at_once)
    except OutOfTime:
        return "unfinished"
    except subprocess.CalledProcessError as error:
        print(f"{run}: {error}", file=sys.stderr)
        return "failed"
    return "done"


def _finish(run: Run, clock: Clock, at_once: int) -> None:
    """Train a system to its end and make its rows."""
    device, threads = run.plan.settings.device, [f"--threads={max(1, len(os.sched_getaffinity(0)) // at_once)}"]
    log = run.layout.results / "logs" / "reproduce" / run.table / f"{run.name}-seed{run.seed}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if not run.trained():
        print(f"{run}: training, {run.cost():.1e} floating-point operations to go", file=sys.stderr)
        _call(run.training(device, threads), log, clock, at_once)
    for row in run.rows:
        for command in run.scoring(row, device, threads):
            _call(command, log, clock, at_once)
    print(f"{run}: done", file=sys.stderr)


def _call(command: list[str], log: Path, clock: Clock, at_once: int) -> None:
    """Run a sub-command of nmt to its end; told to stop when the time is over.

    Raises:
        OutOfTime: it was not begun, or saved what it had.
        CalledProcessError: it failed.
    """
    if clock.over():
        raise OutOfTime
    share = {PER_GPU: str(-(-at_once // max(1, len(available()))))}
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "nmt", *command],
            env=os.environ | share, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        while process.poll() is None and not clock.over():
            time.sleep(POLL)
        if stopped := process.poll() is None:
            _stop(process)
    if stopped:
        raise OutOfTime
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, f"nmt {command[0]}, see {log}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:  # a checkpoint is whole or absent: nothing is lost but time
        process.kill()
        process.wait()


def _report(plan: Plan, table: str) -> None:
    """Write a table whose rows are all there."""
    wanted = [*plan.training_files(table), *plan.scores(table)]
    if all(Path(file).is_file() for file in wanted):
        command = ["report", str(table_path(table)), "--config", plan.settings_for([table])]
        subprocess.run([sys.executable, "-m", "nmt", *command], check=True)
        print(f"{table}: {plan.layout.table(table)}.md", file=sys.stderr)


def _older(made: Path, source: Path) -> bool:
    """Whether a file is missing, or older than what it is made from."""
    return not made.is_file() or made.stat().st_mtime < source.stat().st_mtime


def _lacks(run: Run) -> bool:
    """Whether something is not there that a run is made from; says what."""
    lacking = [str(path) for path in run.inputs() if not path.exists()]
    if lacking:
        print(f"{run}: left out, for there is no {', '.join(lacking)}", file=sys.stderr)
    return bool(lacking)


def _where_to_make(runs: Sequence[Run]) -> str:
    wanted = dict.fromkeys(str(path) for run in runs for path in run.inputs() if not path.exists())
    return (
        f"expected text that is ready to train on, got none: {', '.join(wanted)}; make it where Snakemake is, "
        f"and bring it here: snakemake --cores all -- {' '.join(wanted)}"
    )
