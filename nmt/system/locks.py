"""Locks between processes, by files that name their holder; a lock ends with its process, however that happens."""

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FrameType

from filelock import FileLock, Timeout

from nmt.system.errors import DataError
from nmt.system.interrupt import Interrupted, signal_handlers
from nmt.system.warnings import say

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems that have no locks."""
WAIT = "NMT_WAIT"
"""Environment variable: with 1, a command waits for a lock; else it ends with an error. Jobs of a workflow wait."""
POLL = 0.5  # seconds between two attempts to take a lock


def try_lock(path: Path) -> FileLock | None:
    """Lock a file and write into it who holds it; return None if another process holds the lock.

    A symbolic link is not followed. On a file system without locks a warning is printed, and nothing is locked.
    """
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        if not path.exists():
            path.touch()  # raises where no file can be made, as in /proc
        return None
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        _warn_without_locks(path.parent)
        return lock
    if type(lock) is FileLock:  # without the system call filelock takes another kind, which names the holder itself
        with suppress(OSError):  # Windows lets nobody write a locked file
            path.write_text(json.dumps({"host": platform.node(), "process": os.getpid()}) + "\n", encoding="utf-8")
    return lock


@cache
def _warn_without_locks(folder: Path) -> None:
    say(f"{folder}: this file system has no locks; start no second process here")


def holder(path: Path) -> str:
    """Return the holder of a lock in words: ``process 1234 on gpu1``."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        return f"process {owner['process']} on {owner['host']}"
    except (OSError, ValueError, TypeError, KeyError):  # it has not written yet, or cannot
        return "another process"


@contextmanager
def exclusive(path: Path, used: Path, *, keep: bool = True) -> Iterator[None]:
    """Hold a lock during the block. Wait for it if the environment variable `WAIT` is 1.

    Args:
        path: the lock file; its folder is made, and deleted again with the lock if it is still empty.
        used: what the lock guards, for the message.
        keep: whether the lock file stays.

    Raises:
        DataError: another process holds the lock; the message names its computer and number.
        Interrupted: a signal has stopped the waiting.
    """
    made = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = try_lock(path)
    if lock is None and os.environ.get(WAIT) != "1":
        raise DataError(f"{used}: {holder(path)} is at work here; wait until it ends, or end it first")
    if lock is None:
        print(f"nmt: {used}: waiting for {holder(path)}, which is at work here", file=sys.stderr, flush=True)
        with signal_handlers(_stop_waiting):
            lock = wait_for_lock(path)
    try:
        yield
    finally:
        if os.name == "nt":  # there, an open file cannot be deleted
            lock.release()
        if not keep:
            with suppress(PermissionError):  # on Windows, another process has opened it
                path.unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):  # one that is not empty stays
            for folder in made:
                folder.rmdir()


def wait_for_lock(path: Path, poll: float = POLL) -> FileLock:
    """Lock a file as soon as no other process holds its lock."""
    while (lock := try_lock(path)) is None:
        time.sleep(poll)
    return lock


def _stop_waiting(number: int, _: FrameType | None) -> None:
    raise Interrupted(number, "while it waited for a lock")
