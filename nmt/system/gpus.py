"""One process a GPU, or as many as ``NMT_PER_GPU`` says: each training or file to translate takes one."""

import fcntl
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nmt.system.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"
PER_GPU = "NMT_PER_GPU"
"""Processes that share a GPU; 1 where it is not set. Small models leave most of a large GPU idle."""
POLL = 1.0  # seconds between looks for a free GPU


def available() -> dict[str, str]:
    """The GPUs that this process may use: what ``CUDA_VISIBLE_DEVICES`` calls each, and its UUID where that is known.

    They are those that ``CUDA_VISIBLE_DEVICES`` lists, as SLURM or the user set it; where it is not set, all.
    """
    uuids = _installed()
    if VISIBLE not in os.environ:
        return {uuid: uuid for uuid in uuids}
    names = [name.strip() for name in os.environ[VISIBLE].split(",")]
    numbers = {str(number): uuid for number, uuid in enumerate(uuids)}
    return {name: numbers.get(name, name) for name in names if re.match(r"\d|GPU-|MIG-", name)}


def _installed() -> list[str]:
    """UUIDs of the GPUs that the driver shows, by number; none without a driver."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return re.findall(r"^GPU \d+: .*\(UUID: (GPU-[\w-]+)\)", listed, re.MULTILINE)


@contextmanager
def claim_gpu(device: str) -> Iterator[None]:
    """Take a GPU for this process, waiting for one if need be, and show CUDA no other.

    The lock ends with the process, however it ends. Nothing is taken where there is no GPU or the CPU was asked for,
    nor of several processes of one training: what started them has shared the GPUs out.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    found = {} if device == "cpu" or "LOCAL_RANK" in os.environ else available()
    if not found:
        yield
        return
    name, lock = _wait_for(found)
    with lock:
        os.environ[VISIBLE] = name
        yield


def _wait_for(found: dict[str, str]) -> tuple[str, TextIO]:
    told = False
    while True:
        for place in range(_per_gpu()):  # every GPU's first place before any one's second
            for name, uuid in found.items():
                if lock := _lock(f"{uuid}-{place}" if place else uuid):
                    return name, lock
        if not told:
            print(f"nmt: {len(found)} GPU(s), all in use by other nmt processes; waiting for one", file=sys.stderr)
            told = True
        time.sleep(POLL)


def _per_gpu() -> int:
    """Raises ConfigError."""
    text = os.environ.get(PER_GPU, "1")
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ConfigError(f"{PER_GPU}: expected a number of processes from 1, got '{text}'")
    return int(text)


def _lock(place: str) -> TextIO | None:
    """The open lock of a place on a GPU, or None if another process of this user holds it."""
    folder = Path(tempfile.gettempdir(), f"nmt-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = (folder / re.sub(r"\W", "_", place)).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
