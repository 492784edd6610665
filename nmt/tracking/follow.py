"""Feed MLflow from a training's log while the training runs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.system.errors import first_line
from nmt.system.files import read_json
from nmt.system.warnings import say
from nmt.tracking.feed import Feed, identity_of, read_records

if TYPE_CHECKING:
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

PAUSE = 30.0  # seconds before MLflow is imported, which takes a processor; `publish` alone sends a shorter training
POLL = 2.0  # seconds between looks at a log
PATIENCE = 60.0  # longest wait, in seconds, between two attempts at a store that fails


def start_follower(run: Path, tracking: Path, name: str, seed: int) -> None:
    """Start `nmt track follow` for the training in this process; it ends when this process ends.

    Args:
        run: the training's folder.
        tracking: ``tracking.json``.
        name: of the run, ``table/system``.
        seed: of the training.
    """
    command = [sys.executable, "-m", "nmt", "track", "follow", str(run), "--tracking", str(tracking)]
    subprocess.Popen([*command, "--name", name, "--seed", str(seed), "--pid", str(os.getpid())], start_new_session=True)


def follow(run_dir: Path, tracking: Path, table: str, system: str, seed: int, pid: int) -> None:
    """Feed MLflow from a training's log while its process lives; MLflow's errors become one warning.

    Args:
        run_dir: the training's folder; its log is ``state/log.jsonl``.
        tracking: what `prepare` wrote.
        table: the run's table.
        system: the run's system.
        seed: the run's seed.
        pid: the training's process.
    """
    if tracking.is_file() and not read_json(tracking).get("live", True):
        return
    _wait(PAUSE, pid)
    if not _is_alive(pid) and (run_dir / "training.json").is_file():
        return
    feed, monitor, delay, warned = None, None, POLL, False
    while True:
        ended = not _is_alive(pid)  # asked before the log is read, so that its last lines are not missed
        try:
            if feed is None and _has_claimed(run_dir, pid):
                feed = Feed.open(tracking, identity_of(run_dir / "state" / "identity.json", table, system, seed))
                feed.client.update_run(feed.run, status="RUNNING")
            if feed is not None and monitor is None and not ended:
                monitor = _start_monitor(feed.run, read_json(tracking)["uri"])
            if feed is not None:
                feed.send(read_records(run_dir / "state" / "log.jsonl"))
                delay = POLL
                if ended and not (run_dir / "training.json").is_file():
                    feed.client.set_terminated(feed.run, "KILLED")
        except Exception as error:
            if not warned:
                say(f"MLflow: {first_line(error)}; training goes on, `nmt track publish` sends everything at its end")
            warned, delay = True, min(2 * delay, PATIENCE)
            if monitor:  # its thread ends at the first failure; the next success starts another
                monitor.finish()
            monitor = None
        if ended:
            if monitor:
                monitor.finish()
            return
        _wait(delay, pid)


def _start_monitor(run: str, uri: str) -> "SystemMetricsMonitor":
    """Have MLflow log the load of this machine every ten seconds: processors, memory, disk, network, NVIDIA GPUs."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run, resume_logging=True, tracking_uri=uri)
    monitor.start()
    return monitor


def _has_claimed(run_dir: Path, pid: int) -> bool:
    """Whether this process has claimed the folder; before that, the log there may be of an earlier training."""
    records = read_records(run_dir / "state" / "log.jsonl")
    return pid in [record.get("process") for record in records if record["event"] == "start"]


def _is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # another user's process, or a system without /proc
        return True


def _wait(seconds: float, pid: int) -> None:
    """Sleep, at most until the process ends."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and _is_alive(pid):
        time.sleep(min(POLL, 0.5))
