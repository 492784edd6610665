"""GPUs for the processes of one machine: each process claims a GPU; ``NMT_PER_GPU`` allows several per GPU."""

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
"""Environment variable: processes per GPU, 1 by default. Small models leave most of a large GPU idle."""
POLL = 1.0  # seconds between two attempts to claim a GPU


def available() -> dict[str, str]:
    """Return the GPUs that this process may use: name in ``CUDA_VISIBLE_DEVICES`` → UUID, or the name if unknown.

    SLURM or the user may set ``CUDA_VISIBLE_DEVICES``; if it is not set, all GPUs are available.
    """
    uuids = _installed()
    if VISIBLE not in os.environ:
        return {uuid: uuid for uuid in uuids}
    names = [name.strip() for name in os.environ[VISIBLE].split(",")]
    numbers = {str(number): uuid for number, uuid in enumerate(uuids)}
    return {name: numbers.get(name, name) for name in names if re.match(r"\d|GPU-|MIG-", name)}


def _installed() -> list[str]:
    """Return the UUIDs of the driver's GPUs, in the order of their numbers; an empty list without a driver."""
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return re.findall(r"^GPU \d+: .*\(UUID: (GPU-[\w-]+)\)", listing, re.MULTILINE)


@contextmanager
def claim_gpu(device: str) -> Iterator[None]:
    """Claim a GPU for this process, wait until one is free, and hide the others from CUDA.

    The lock ends with the process. No GPU is claimed if the machine has none, if the device is the CPU, or for one of
    several processes of a training, because their launcher assigns the GPUs.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        ConfigError: ``NMT_PER_GPU`` is not a number from 1.
    """
    gpus = {} if device == "cpu" or "LOCAL_RANK" in os.environ else available()
    if not gpus:
        yield
        return
    name, lock = _wait_for(gpus)
    with lock:
        os.environ[VISIBLE] = name
        yield


def _wait_for(gpus: dict[str, str]) -> tuple[str, TextIO]:
    announced = False
    while True:
        for place in range(_per_gpu()):  # the first place of every GPU comes before any second place
            for name, uuid in gpus.items():
                if lock := _lock(f"{uuid}-{place}" if place else uuid):
                    return name, lock
        if not announced:
            print(f"nmt: {len(gpus)} GPU(s), all in use by other nmt processes; waiting for one", file=sys.stderr)
            announced = True
        time.sleep(POLL)


def _per_gpu() -> int:
    text = os.environ.get(PER_GPU, "1")
    if not re.fullmatch(r"[1-9]\d*", text):
        raise ConfigError(f"{PER_GPU}: expected a number of processes from 1, got '{text}'")
    return int(text)


def _lock(place: str) -> TextIO | None:
    """Lock a place on a GPU; return the open lock file, or None if another process of this user holds the lock."""
    folder = Path(tempfile.gettempdir(), f"nmt-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = (folder / re.sub(r"\W", "_", place)).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
