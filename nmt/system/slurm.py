"""Jobs in the queue of a SLURM cluster that wait for something that waiting does not bring."""

import subprocess
import threading
import time

from nmt.system.warnings import say

PATIENT = {
    "None", "Priority", "Resources", "Dependency", "BeginTime", "Prolog", "Cleaning", "Reservation", "Licenses",
    "JobArrayTaskLimit", "NonZeroExitCode", "RaisedSignal",
}  # fmt: skip
"""Reasons to wait that end by themselves."""
POLL = 20.0  # seconds between two looks at the queue
QUEUE = ["squeue", "--me", "--noheader", "--states=PENDING", "--format=%i|%r|%k"]


def stuck(queue: str) -> dict[tuple[str, str], str]:
    """Return the pending jobs of a workflow whose reason does not end by itself, one for each stage and reason.

    Args:
        queue: what `QUEUE` prints: number, reason and comment of each pending job. Snakemake's comments begin with
            ``rule_`` or ``group_``.
    """
    jobs: dict[tuple[str, str], str] = {}
    for line in queue.splitlines():
        number, reason, comment = (*line.split("|", 2), "", "")[:3]
        if comment.startswith(("rule_", "group_")) and reason.strip("()") not in PATIENT:
            jobs.setdefault((comment.split("_wildcards_")[0], reason.strip("()")), number)
    return jobs


def watch_queue() -> None:
    """Report jobs that are stuck in the queue on standard error, once for each stage and reason; returns at once."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    reported: set[tuple[str, str]] = set()
    while True:
        try:
            queue = subprocess.run(QUEUE, capture_output=True, text=True, check=False, timeout=POLL).stdout
        except FileNotFoundError:
            return  # another kind of cluster
        except (OSError, subprocess.TimeoutExpired):
            queue = ""
        for (stage, reason), number in stuck(queue).items():
            if (stage, reason) not in reported:
                say(
                    f"job {number} ({stage}) waits in the queue: {reason}. It may wait for ever: compare "
                    f"`scontrol show job {number}` with what your cluster allows, then stop with Ctrl-C and change "
                    "cluster.yaml or profiles/slurm/config.yaml (docs/how-to/slurm.md)"
                )
                reported.add((stage, reason))
        time.sleep(POLL)
