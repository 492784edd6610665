"""The process that follows a training for MLflow, so that the training itself never waits for a store."""

import os
import subprocess
import sys
from pathlib import Path


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
