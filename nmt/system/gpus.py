"""GPUs for the processes of one machine: each process claims a GPU; ``NMT_PER_GPU`` allows several per GPU."""

import getpass
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from nmt.system.errors import ConfigError
from nmt.system.locks import try_lock

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
        ConfigError: ``NMT_PER_GPU`` is not a number from 1, or other users can write the folder of the locks.
    """
    gpus = {} if device == "cpu" or "LOCAL_RANK" in os.environ else available()
    if not gpus:
        yield
        return
    name, lock = _wait_for(gpus)
    try:
        os.environ[VISIBLE] = name
        yield
    finally:
        lock.release()


def _wait_for(gpus: dict[str, str]) -> tuple[str, FileLock]:
    announced, folder = False, _lock_folder()
    while True:
        for place in range(_per_gpu()):  # the first place of every GPU comes before any second place
            for name, uuid in gpus.items():
                file = re.sub(r"\W", "_", f"{uuid}-{place}" if place else uuid)
                if lock := try_lock(folder / file):
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


def _lock_folder() -> Path:
    """Return the folder of this user's locks, which no other user can write.

    It is not in ``XDG_RUNTIME_DIR``, which ends with the user's last session; a training can go on after it.
    """
    has_ids = hasattr(os, "getuid")
    folder = Path(tempfile.gettempdir(), f"nmt-gpus-{os.getuid() if has_ids else getpass.getuser()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    private = not has_ids or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    if not (stat.S_ISDIR(status.st_mode) and private):
        raise ConfigError(
            f"{folder}: expected a folder of your own with mode 700, got {stat.filemode(status.st_mode)} of user "
            f"{status.st_uid}; delete it, or set TMPDIR to a folder of your own"
        )
    return folder
