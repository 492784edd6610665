"""A training's state in an S3-compatible bucket, so that a lost machine costs minutes.

It is fetched before a command, and sent while the command runs. Keys, address and credentials are those of the
environment, as boto3 reads them: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Protocol

from nmt.system.buckets.lease import Lease
from nmt.system.errors import ConfigError, first_line
from nmt.system.files import read_json
from nmt.system.warnings import say

EVERY = 60.0  # seconds between two looks at the folder
ATTEMPTS, PAUSE = 10, 6.0  # at the end, and seconds between attempts
MARK, LOG, LAST = "identity.json", "log.jsonl", "progress.json"


class Bucket(Protocol):
    """Files in a bucket below one key."""

    def sizes(self) -> dict[str, int]:
        """Return the names of all files, and their sizes in bytes."""

    def fetch(self, name: str, file: Path) -> None:
        """Copy a file from the bucket."""

    def send(self, name: str, file: Path) -> None:
        """Copy a file into the bucket."""

    def delete(self, name: str) -> None:
        """Delete a file in the bucket."""


class S3Bucket:
    """Files below ``s3://BUCKET/KEY``; raises ConfigError for another address."""

    def __init__(self, url: str) -> None:
        import boto3
        from botocore.config import Config

        scheme, _, path = url.partition("://")
        name, _, key = path.strip("/").partition("/")
        if scheme != "s3" or not name or not key:
            raise ConfigError(f"expected an address s3://BUCKET/KEY, got {url}")
        settings = Config(retries={"max_attempts": 5, "mode": "standard"}, connect_timeout=10, read_timeout=60)
        self._bucket, self._key = boto3.resource("s3", config=settings).Bucket(name), f"{key}/"

    def sizes(self) -> dict[str, int]:
        """Return the names of all files, without the key before them, and their sizes in bytes."""
        return {each.key.removeprefix(self._key): each.size for each in self._bucket.objects.filter(Prefix=self._key)}

    def fetch(self, name: str, file: Path) -> None:
        """Copy a file from the bucket."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self._bucket.download_file(self._key + name, str(file))

    def send(self, name: str, file: Path) -> None:
        """Copy a file into the bucket."""
        self._bucket.upload_file(str(file), self._key + name)

    def delete(self, name: str) -> None:
        """Delete a file in the bucket."""
        self._bucket.Object(self._key + name).delete()


class StoredState:
    """The folder of a training's state and its copy in a bucket.

    Args:
        folder: ``RUN/state``.
        bucket: where the copy is.
    """

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.folder, self.bucket = folder, bucket
        self._sent: dict[str, tuple[int, int]] = {}

    def fetch(self) -> int | None:
        """Copy the state from the bucket if it is further than the one here; return its update, or None.

        State of another training here stays; `nmt train` compares their identities. As in `send`, a checkpoint's last
        file comes last, so a fetch that was interrupted is made again.
        """
        names = self.bucket.sizes()
        there, here = _newest(names), _newest(self._files())
        if MARK not in names or (self.folder.exists() and (here >= there or not self._is_same())):
            return None
        for name in sorted(names, key=_order):
            self.bucket.fetch(name, self.folder / name)
        return there

    def send(self) -> None:
        """Copy what has changed to the bucket, and delete there what has been deleted here.

        A checkpoint is whole once its last file is there. The log that goes before it has at least its updates.
        """
        files, there = self._files(), self.bucket.sizes()
        if MARK in there and not self._sent and not self._is_same():
            self._delete(there)  # of another training
            there = {}
        for name in sorted(files, key=_order):
            with suppress(FileNotFoundError):  # pruned meanwhile
                status = (self.folder / name).stat()
                version = status.st_size, status.st_mtime_ns
                is_there = name not in self._sent and _update(name) and there.get(name) == status.st_size
                if self._sent.get(name) != version and not is_there:
                    self.bucket.send(name, self.folder / name)
                self._sent[name] = version
        self._delete(there.keys() - files)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.bucket.delete(name)

    def _files(self) -> list[str]:
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)]

    def _is_same(self) -> bool:
        """Whether the bucket has the state of the training that is here."""
        copy = self.folder / f".{MARK}.copy"
        self.bucket.fetch(MARK, copy)
        try:
            mark = self.folder / MARK
            return not mark.exists() or read_json(mark)["identity"] == read_json(copy)["identity"]
        finally:
            copy.unlink()


def run_with_state(state: StoredState, command: Sequence[str], every: float = EVERY, lease: Lease | None = None) -> int:
    """Run a command between fetching and sending state; return its exit code.

    A bucket that cannot be reached costs a warning while the command runs, and at its end after some attempts.

    Args:
        state: the folder, and its copy in a bucket.
        command: what to run.
        every: seconds between two looks at the folder.
        lease: lock to hold meanwhile; if another run takes it, the command is asked to end, and nothing more is sent.

    Raises:
        DataError: another run holds the lock.
    """
    lost, running = threading.Event(), list[subprocess.Popen[bytes]]()

    def end() -> None:
        lost.set()
        for process in running:
            process.terminate()

    with lease.held(end) if lease else nullcontext():
        return _run(state, command, every, lost, running)


def _run(
    state: StoredState,
    command: Sequence[str],
    every: float,
    lost: threading.Event,
    running: list[subprocess.Popen[bytes]],
) -> int:
    """Run a command as `run_with_state` does, add its process to a list, and send nothing once the lock is lost."""
    if (update := state.fetch()) is not None:
        print(f"nmt: {state.folder}: fetched from the bucket, update {update:,}", file=sys.stderr)
    signal.signal(signal.SIGINT, lambda *_: None)  # the command has it too, saves and ends
    process = subprocess.Popen(command)
    running.append(process)
    while True:
        try:
            code = process.wait(every)
            break
        except subprocess.TimeoutExpired:
            if not lost.is_set():
                _attempt(state)
    for _ in _attempts(ATTEMPTS if state.folder.exists() else 0):
        if lost.is_set() or _attempt(state):
            break
    return code if code >= 0 else 128 - code


def _attempts(count: int) -> Iterator[int]:
    for attempt in range(count):
        if attempt:
            time.sleep(PAUSE)
        yield attempt


def _attempt(state: StoredState) -> bool:
    """Send the state; return whether that succeeded, and warn if not."""
    try:
        state.send()
    except Exception as error:  # of boto3, whose classes have no common base
        say(f"{state.folder}: not sent to the bucket: {first_line(error)}")
        return False
    return True


def _order(name: str) -> tuple[bool, int, bool]:
    """Sort identity and log first, then checkpoints by their update, the last file of each last."""
    return name not in (MARK, LOG), _update(name), name.endswith(LAST)


def _newest(names: Iterable[str]) -> int:
    """Return the update of the newest whole checkpoint among some files; 0 without one."""
    return max((_update(name) for name in names if name.endswith(LAST)), default=0)


def _update(name: str) -> int:
    """Return the update of the checkpoint that a file belongs to; 0 for other files."""
    found = name.partition("checkpoints/update-")[2].partition("/")[0]
    return int(found) if found.isdigit() else 0
