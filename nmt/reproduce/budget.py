"""Build tables within a time budget, without Snakemake or MLflow; the cheapest systems are trained first.

This suits a machine with only the repository and the encoded text, such as a GPU lent for an hour. Files go where the
workflow looks for them, so it takes them as done (docs/how-to/reproduce-without-snakemake.md).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import FrameType

from nmt.plan import commands
from nmt.plan.layout import table_path
from nmt.plan.plan import Plan
from nmt.plan.published import check_replaceable
from nmt.reproduce.runs import Run, is_outdated, lacks_inputs, say, scoring_of_outputs
from nmt.system.errors import ConfigError, DataError
from nmt.system.gpus import PER_GPU, available
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.system.locks import exclusive
from nmt.system.workers import available_cores

OUTCOMES = ("done", "unfinished", "failed", "left out")
POLL = 0.2  # seconds between looks at the clock
GRACE = 120  # seconds that a training has to save its state after it is told to stop
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)
"""Exit codes of a command that was told to stop: it had just ended, it saved its state, it had not begun."""


PARENTS = Lock()
"""Held while the model of a parent is made, which several runs may need."""


class OutOfTime(Exception):
    """The budget is spent; the state of a command under way is saved."""


@dataclass
class Clock:
    """When to stop: at the end of the budget, or at a signal."""

    end: float
    """Seconds of `time.monotonic`."""
    signal: int | None = None

    def is_over(self) -> bool:
        """Whether nothing more may begin."""
        return self.signal is not None or time.monotonic() > self.end

    def stop(self, number: int, _: FrameType | None) -> None:
        """Signal handler."""
        self.signal = number


def reproduce(plan: Plan, tables: Sequence[str], minutes: float, at_once: int) -> dict[str, list[str]]:
    """Train the missing systems of tables, cheapest first, and make their rows; stops in time and can resume.

    Every command is one of `nmt`; its output goes to ``logs/reproduce/``. Complete tables are written.

    Args:
        plan: the settings and tables.
        tables: names.
        minutes: the budget. When it is spent, trainings under way save their state.
        at_once: trainings side by side; they divide the CPU's cores, or share the GPUs.

    Returns:
        The names of the runs by their outcome: ``done``, ``unfinished``, ``failed``, ``left out``. Tables that could
        not be written are among the failed.

    Raises:
        DataError: no training has its inputs.
        Interrupted: a signal asked to stop; all state is saved.
    """
    trainings = with_parents([Run(plan, table, *run) for table in tables for run in plan.runs(table)])
    ensembles = [Run(plan, table, *run) for table in tables for run in plan.ensembles(table)]
    ready = with_parents(sorted((run for run in trainings if not lacks_inputs(run)), key=Run.cost))
    ready_ensembles = [run for run in ensembles if not lacks_inputs(run)]
    if not ready and (trainings or not any(plan.outputs(table) for table in tables)):
        raise DataError("nothing to train: " + (_how_to_build(trainings) if trainings else "no table has systems"))
    clock = Clock(time.monotonic() + 60 * minutes)
    with signal_handlers(clock.stop):
        ends = _make_all(ready, ready_ensembles, clock, max(1, min(at_once, len(ready))))
        steps = (_score_outputs, _report)
        unwritten = [table for table in tables if not all(step(plan, table, clock) for step in steps)]
    if clock.signal:
        done = [ends[run] for run in ready].count("done")
        raise Interrupted(clock.signal, f"with {done} of {len(trainings)} trainings done")
    runs = trainings + ensembles
    if len(ends) < len(runs):
        say(f"left out: {_how_to_build(runs)}")
    outcome = {end: [str(run) for run in runs if ends.get(run, "left out") == end] for end in OUTCOMES}
    outcome["failed"] += unwritten
    return outcome


def with_parents(runs: Sequence[Run]) -> list[Run]:
    """Return trainings in their order, each after the one that it starts from, which is added if it is missing."""
    known, ordered = {str(run): run for run in runs}, dict[str, Run]()

    def add(run: Run) -> None:
        if str(run) not in ordered:
            if run.parent:
                add(known.get(str(run.parent), run.parent))
            ordered[str(run)] = run

    for run in runs:
        add(run)
    return list(ordered.values())


def _make_all(runs: Sequence[Run], ensembles: Sequence[Run], clock: Clock, at_once: int) -> dict[Run, str]:
    """Make runs in their order, some side by side, then the ensembles whose members are trained; returns outcomes."""
    futures: dict[str, Future[str]] = {}

    def make(run: Run) -> str:
        if run.parent and futures[str(run.parent)].result() != "done":  # it began earlier, so this wait ends
            say(f"{run}: starts from {run.parent}, which is not done")
            return "unfinished"
        return _try_make(run, clock, at_once)

    with ThreadPoolExecutor(at_once) as pool:
        for run in runs:
            futures[str(run)] = pool.submit(make, run)
        outcomes = {run: futures[str(run)].result() for run in runs}
    for run in ensembles:
        outcomes[run] = _try_make(run, clock, at_once) if run.is_trained() else "unfinished"
    return outcomes


def _try_make(run: Run, clock: Clock, at_once: int) -> str:
    """Make a run; returns its outcome."""
    try:
        with exclusive(run.folder / "reproduce.lock", run.folder):
            _make(run, clock, at_once)
    except OutOfTime:
        return "unfinished"
    except (subprocess.CalledProcessError, DataError, OSError) as error:
        say(f"{run}: {error}")
        return "failed"
    return "done"


def _make(run: Run, clock: Clock, at_once: int) -> None:
    """Train a system to its end and make its rows."""
    device, threads = run.plan.settings.device, max(1, available_cores() // at_once)
    log = _log(run.plan, f"{run.table}/{run.name}-seed{run.seed}")
    with PARENTS:
        for command in run.parent_model():
            _call(command, log, clock, at_once)
    if not run.is_trained():
        if not clock.is_over():
            say(f"{run}: training, {run.cost():.1e} floating-point operations to go")
        _call(run.training(device, threads), log, clock, at_once)
    for row in run.rows:
        for command in run.scoring(row, device, threads):
            _call(command, log, clock, at_once)
    say(f"{run}: done")


def _score_outputs(plan: Plan, table: str, clock: Clock) -> bool:
    """Score the translations of other systems in a table; returns whether that succeeded."""
    try:
        for command in scoring_of_outputs(plan, table):
            _call(command, _log(plan, f"{table}/score"), clock)
    except OutOfTime:
        return True
    except (subprocess.CalledProcessError, DataError, OSError) as error:
        say(f"{table}: {error}")
        return False
    return True


def _log(plan: Plan, name: str) -> Path:
    log = plan.layout.results / "logs" / "reproduce" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def _call(command: list[str], log: Path, clock: Clock, at_once: int = 1) -> None:
    """Run a command ``nmt STAGE …`` to its end; stop it when the time is over.

    Raises:
        OutOfTime: it was not begun, or has saved its state.
        CalledProcessError: it failed, or could not save its state.
    """
    if clock.is_over():
        raise OutOfTime
    share = {PER_GPU: str(-(-at_once // max(1, len(available()))))}
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=os.environ | share, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        while process.poll() is None and not clock.is_over():
            time.sleep(POLL)
        stopped = process.poll() is None and _stop(process)
    if process.returncode not in (STOPPED if stopped else (0,)):
        raise subprocess.CalledProcessError(process.returncode, f"{' '.join(command[:2])}, see {log}")
    if stopped and process.returncode:
        raise OutOfTime


def _stop(process: "subprocess.Popen[bytes]") -> bool:
    """Have a process save its state and end."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:  # its checkpoints are whole or absent
        process.kill()
        process.wait()
    return True


def _report(plan: Plan, table: str, clock: Clock) -> bool:
    """Write a table if all its rows exist and one is newer than the table; returns whether that succeeded."""
    inputs = [*plan.training_files(table), *plan.scores(table), str(table_path(table))]
    page = plan.layout.table(table)
    html = Path(f"{page}.html")  # a report writes it last
    if not all(Path(file).is_file() for file in inputs) or not any(is_outdated(html, Path(file)) for file in inputs):
        return True
    try:
        check_replaceable(table, plan.table(table), plan.layout, plan.settings.seeds)
    except ConfigError as error:
        say(f"{table}: the runs are done, but the table is not written: {error}")
        return True
    command = commands.report(table_path(table), config=plan.report_settings([table]))
    try:
        _call(command, _log(plan, f"{table}/report"), clock)
    except OutOfTime:
        say(f"{table}: all rows are done, but the table is not written; run the same command again to write it")
        return True
    except (subprocess.CalledProcessError, OSError) as error:
        say(f"{table}: {error}")
        return False
    say(f"{table}: {page}.md")
    return True


def _how_to_build(runs: Sequence[Run]) -> str:
    tables = dict.fromkeys(f"inputs_{run.table}" for run in runs if run.missing_inputs())
    return (
        "inputs are missing: build them on a machine with Snakemake and copy them here: "
        f"snakemake --cores all {' '.join(tables)}"
    )
