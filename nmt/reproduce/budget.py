"""The trainings of chosen tables within a time budget, cheapest first, then their rows: without Snakemake or MLflow.

For a machine that has no more than the repository and the encoded text, such as a GPU lent for an hour. Files go where
the workflow looks for them, so that it takes what is there as done (docs/reproduce.md).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from nmt.plan.plan import Plan, table_path
from nmt.reproduce.runs import Run, older
from nmt.system.errors import DataError
from nmt.system.gpus import PER_GPU, available
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.training.train import exclusive_lock

ENDS = ("done", "unfinished", "failed", "left out")
POLL = 0.2  # seconds between looks at the clock
GRACE = 120  # seconds that a training told to stop has to save what it has
STOPPED = (0, 128 + signal.SIGTERM, -signal.SIGTERM)
"""Exit codes of a command told to stop: it had just ended, it has saved, it had not begun."""


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


def reproduce(plan: Plan, tables: Sequence[str], minutes: float, at_once: int) -> dict[str, list[str]]:
    """Train what tables still lack, cheapest to finish first, and make their rows; stops in time and can go on.

    Every command is one of `nmt`'s own and keeps its words in ``logs/reproduce/``. A table that is complete is written.

    Args:
        plan: the settings and tables.
        tables: names.
        minutes: the budget. When it is spent, trainings under way save what they have.
        at_once: trainings side by side, on as many parts of the CPU's cores, or sharing the GPUs.

    Returns:
        The names of the runs by what became of them: ``done``, ``unfinished``, ``failed``, ``left out``. Tables that
        could not be written are among the failed.

    Raises:
        DataError: none of the trainings has what it is made from.
        Interrupted: told to stop by a signal; all is saved.
    """
    runs = [Run(plan, table, *run) for table in tables for run in plan.runs(table)]
    ensembles = [Run(plan, table, *models) for table in tables for models in plan.ensembles(table)]
    ready = sorted((run for run in runs if not lacks(run)), key=Run.cost)
    together = [one for one in ensembles if not lacks(one)]
    if not ready:
        raise DataError("nothing to train: " + (_where_to_make(runs) if runs else "these tables have no systems"))
    clock = Clock(time.monotonic() + 60 * minutes)
    with signal_handlers(clock.heed, also=(signal.SIGHUP,)):
        ends = _ends(ready, together, clock, min(at_once, len(ready)))
        unwritten = [table for table in tables if not _report(plan, table, clock)]
    if clock.told:
        done = [ends[run] for run in ready].count("done")
        raise Interrupted(clock.told, f"with {done} of {len(runs)} trainings done")
    if len(ends) < len(runs + ensembles):
        _tell(f"left out: {_where_to_make(runs + ensembles)}")
    outcome = {end: [str(run) for run in runs + ensembles if ends.get(run, "left out") == end] for end in ENDS}
    outcome["failed"] += unwritten
    return outcome


def _ends(runs: Sequence[Run], ensembles: Sequence[Run], clock: Clock, at_once: int) -> dict[Run, str]:
    """Finish runs in their order, so many side by side, then the ensembles of those that are; what became of each."""
    with ThreadPoolExecutor(at_once) as pool:
        ends = dict(zip(runs, pool.map(lambda run: _end(run, clock, at_once), runs), strict=True))
    return ends | {one: _end(one, clock, at_once) if one.trained() else "unfinished" for one in ensembles}


def _end(run: Run, clock: Clock, at_once: int) -> str:
    """Finish a run; says what became of it."""
    try:
        with exclusive_lock(run.folder, "reproduce.lock"):
            _finish(run, clock, at_once)
    except OutOfTime:
        return "unfinished"
    except (subprocess.CalledProcessError, DataError, OSError) as error:
        _tell(f"{run}: {error}")
        return "failed"
    return "done"


def _finish(run: Run, clock: Clock, at_once: int) -> None:
    """Train a system to its end and make its rows."""
    device, threads = run.plan.settings.device, [f"--threads={max(1, len(os.sched_getaffinity(0)) // at_once)}"]
    log = _log(run.plan, f"{run.table}/{run.name}-seed{run.seed}")
    if not run.trained():
        if not clock.over():
            _tell(f"{run}: training, {run.cost():.1e} floating-point operations to go")
        _call(run.training(device, threads), log, clock, at_once)
    for row in run.rows:
        for command in run.scoring(row, device, threads):
            _call(command, log, clock, at_once)
    _tell(f"{run}: done")


def _tell(line: str) -> None:
    """Say a line in one write, so that those of trainings side by side do not mix."""
    sys.stderr.write(f"{line}\n")


def _log(plan: Plan, name: str) -> Path:
    log = plan.layout.results / "logs" / "reproduce" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    return log


def _call(command: list[str], log: Path, clock: Clock, at_once: int = 1) -> None:
    """Run a sub-command of nmt to its end; told to stop when the time is over.

    Raises:
        OutOfTime: it was not begun, or saved what it had.
        CalledProcessError: it failed, or could not save.
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
        stopped = process.poll() is None and _stop(process)
    if process.returncode not in (STOPPED if stopped else (0,)):
        raise subprocess.CalledProcessError(process.returncode, f"nmt {command[0]}, see {log}")
    if stopped and process.returncode:
        raise OutOfTime


def _stop(process: "subprocess.Popen[bytes]") -> bool:
    """Have a process save what it has and end."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:  # its checkpoints are whole or absent
        process.kill()
        process.wait()
    return True


def _report(plan: Plan, table: str, clock: Clock) -> bool:
    """Write a table whose rows are all there and newer than it; says whether that went well."""
    wanted = [*plan.training_files(table), *plan.scores(table), str(table_path(table))]
    page = plan.layout.table(table).with_suffix(".html")  # what a report writes last
    if not all(Path(file).is_file() for file in wanted) or not any(older(page, Path(file)) for file in wanted):
        return True
    command = ["report", str(table_path(table)), "--config", plan.settings_for([table])]
    try:
        _call(command, _log(plan, f"{table}/report"), clock)
    except OutOfTime:
        _tell(f"{table}: all is there but the table itself; the same command again writes it")
        return True
    except (subprocess.CalledProcessError, OSError) as error:
        _tell(f"{table}: {error}")
        return False
    _tell(f"{table}: {page.with_suffix('.md')}")
    return True


def lacks(run: Run) -> bool:
    """Whether something is not there that a run is made from; says what."""
    lacking = [str(path) for path in run.inputs() if not path.exists()]
    if lacking:
        _tell(f"{run}: left out, for there is no {', '.join(lacking)}")
    return bool(lacking)


def _where_to_make(runs: Sequence[Run]) -> str:
    tables = dict.fromkeys(f"inputs_{run.table}" for run in runs if not all(path.exists() for path in run.inputs()))
    return f"make what there is not where Snakemake is, and bring it here: snakemake --cores all {' '.join(tables)}"
