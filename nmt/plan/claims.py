"""Several workflows at once on one results folder: each claims the files that its jobs read and write.

A workflow waits while another one writes what it reads or writes, or reads what it writes. It claims all its files at
once, so no two workflows wait for each other. A claim ends job by job, and at the latest with its process, however that
ends.
"""

import atexit
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from nmt.system.errors import ConfigError
from nmt.system.locks import holder, try_lock, wait_for_lock

SHOWN = 3
"""Files that a message names."""
POLL = 1.0  # seconds between two looks at the claims of others
MARGIN = 0.1  # seconds by which a file system's clock may be coarse


@dataclass(frozen=True)
class Files:
    """The files that unfinished jobs read and write."""

    reads: frozenset[str]
    writes: frozenset[str]

    def conflicts(self, other: "Files") -> list[str]:
        """Return the files that one side writes and the other uses."""
        return sorted(self.writes & (other.reads | other.writes) | self.reads & other.writes)


class Claims:
    """The claims of all workflows on one results folder, in ``.workflows/``, a file for each workflow.

    A workflow holds the lock of its file. A file without a locked lock is of a killed workflow and counts nothing.
    ``.workflow.lock`` is held while claims are read or changed.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.planned = time.time()
        self._folder = results / ".workflows"
        self._own = self._folder / f"{platform.node()}-{os.getpid()}"
        self._lock: FileLock | None = None

    def files(self, reads: Iterable[str | Path], writes: Iterable[str | Path]) -> Files:
        """Return files under names that all workflows on this folder share, whatever folder they run in."""
        return Files(frozenset(map(self._name, reads)), frozenset(map(self._name, writes)))

    def take(self, files: Files) -> bool:
        """Claim files, once no other workflow claims them.

        Returns:
            Whether the plan still holds. Otherwise nothing is claimed: another workflow has changed some of the files
            since these claims were made, so Snakemake must plan again.
        """
        waited_for: set[str] = set()
        while other := self._try(files):
            name, shared = other
            if name not in waited_for:
                more = f" and {len(shared) - SHOWN} more" if len(shared) > SHOWN else ""
                used = f"{', '.join(shared[:SHOWN])}{more}"
                print(f"nmt: waiting for {name}, whose workflow here has unfinished jobs with {used}", file=sys.stderr)
                waited_for.add(name)
            time.sleep(POLL)
        return self._lock is not None

    def keep(self, files: Files) -> None:
        """Reduce what this workflow claims; nothing happens if it has no claims."""
        if self._lock is not None:
            with self._alone():
                self._write(files)

    def _try(self, files: Files) -> tuple[str, list[str]] | None:
        """Claim files that nobody claims and nobody has changed; return who claims them, and which ones."""
        with self._alone():
            for name, others in self._others():
                if shared := files.conflicts(others):
                    return name, shared
            self._lock = try_lock(self._own)
            skew = self._own.stat().st_mtime - time.time()  # of the file system's clock
            if self._is_newer(files, self.planned + skew - MARGIN):
                self._release()
            else:
                self._write(files)
                atexit.register(self._release)
        return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"results: {self.results}: expected a folder that can be made and written, got: {error.strerror}; set "
                "another one in config.yaml, or with --config results=FOLDER"
            ) from None
        lock = wait_for_lock(self.results / ".workflow.lock", 0.05)
        try:
            yield
        finally:
            lock.release()

    def _others(self) -> Iterator[tuple[str, Files]]:
        """Yield the other workflows in words, and what they claim; forget killed ones."""
        for path in sorted(self._folder.iterdir()):
            if path == self._own:
                continue
            if lock := try_lock(path):
                path.unlink(missing_ok=True)
                lock.release()
                continue
            claim = json.loads(path.read_text(encoding="utf-8"))
            yield holder(path), Files(frozenset(claim["reads"]), frozenset(claim["writes"]))

    def _write(self, files: Files) -> None:
        claim = {"host": platform.node(), "process": os.getpid()}
        claim |= {"reads": sorted(files.reads), "writes": sorted(files.writes)}
        self._own.write_text(json.dumps(claim, indent=1) + "\n", encoding="utf-8")

    def _release(self) -> None:
        assert self._lock is not None
        self._own.unlink(missing_ok=True)
        self._lock.release()
        self._lock = None

    def _is_newer(self, files: Files, when: float) -> bool:
        """Whether a file has been made or replaced since a time; its own date may be older, as that of a copy."""
        for name in files.reads | files.writes:
            with suppress(FileNotFoundError):
                if (self.results / name).stat().st_ctime > when:
                    return True
        return False

    def _name(self, path: str | Path) -> str:
        file = Path(path).absolute()
        place = file.parent.resolve() / file.name  # the file itself may be a link
        results = self.results.resolve()
        return str(place.relative_to(results) if place.is_relative_to(results) else place)
