"""Locks between processes, by files that name their holder; a lock ends with its process, however that happens."""

import errno
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nmt.system.errors import DataError

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of file systems that have no locks."""
_held: list[FileLock] = []
"""The locks that this process holds to its end."""


def try_lock(path: Path) -> FileLock | None:
    """Lock a file and write into it who holds it; return None if another process holds the lock.

    A symbolic link is not followed. On a file system without locks a warning is printed, and nothing is locked.
    """
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        print(f"nmt: warning: {path}: this file system has no locks; start no second process here", file=sys.stderr)
        return lock
    if type(lock) is FileLock:  # without the system call filelock takes another kind, which names the holder itself
        with suppress(OSError):  # Windows lets nobody write a locked file
            path.write_text(json.dumps({"host": platform.node(), "process": os.getpid()}) + "\n", encoding="utf-8")
    return lock


def holder(path: Path) -> str:
    """Return the holder of a lock in words: ``process 1234 on gpu1``."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        return f"process {owner['process']} on {owner['host']}"
    except (OSError, ValueError, TypeError, KeyError):  # it has not written yet, or cannot
        return "another process"


@contextmanager
def exclusive(path: Path, used: Path, *, keep: bool = True) -> Iterator[None]:
    """Hold a lock during the block.

    Args:
        path: the lock file; its folder is made.
        used: what the lock guards, for the message.
        keep: whether the lock file stays.

    Raises:
        DataError: another process holds the lock; the message names its computer and number.
    """
    lock = _lock(path, used)
    try:
        yield
    finally:
        if not keep:
            path.unlink(missing_ok=True)
        lock.release()


def hold(path: Path, used: Path) -> None:
    """Hold a lock until this process ends; raises DataError as `exclusive` does."""
    _held.append(_lock(path, used))


def _lock(path: Path, used: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    if (lock := try_lock(path)) is None:
        raise DataError(f"{used}: {holder(path)} is at work here; wait until it ends, or end it first")
    return lock
