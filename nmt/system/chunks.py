"""Large files in chunks of lines: several jobs can share a file, and a stage that was stopped can resume.

A chunk appears on disk only when it is complete. Its number of lines is fixed, so the number of jobs changes no byte of
the result.
"""

import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

from nmt.system.errors import ConfigError
from nmt.system.files import digest

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """One of several jobs that share the chunks of a file: ``2/8`` is the second of eight."""

    number: int  # from 1
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``2/8``; raises ConfigError."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(f"--shard: expected number/total, e.g. 2/8, got '{text}'")
        return cls(int(match[1]), int(match[2]))

    def share(self, chunks: int) -> range:
        """Return the numbers, from 0, of this job's chunks; the shares of all jobs differ by one chunk at most."""
        return range((self.number - 1) * chunks // self.of, self.number * chunks // self.of)


WHOLE = Shard(1, 1)


class Chunks:
    """The finished chunks of a stage, in a folder beside its output until they are joined.

    Args:
        out: the stage's output; the folder is ``{out}.chunks``.
        mark: identifies settings and input (see `mark`); chunks with another mark are deleted.
        size: lines per chunk.
    """

    def __init__(self, out: Path, mark: str, size: int) -> None:
        self.folder, self.mark, self.size = out.with_name(f"{out.name}.chunks"), mark, size
        shutil.rmtree(self._deleted, ignore_errors=True)
        for stale in self.folder.glob("*"):
            if mark not in stale.name:  # other jobs are writing the hidden files with this mark
                shutil.rmtree(stale, ignore_errors=True) if stale.is_dir() else stale.unlink(missing_ok=True)

    def numbers(self, lines: int, shard: Shard = WHOLE) -> range:
        """Return the numbers of a shard's chunks, given the number of lines in the file."""
        return shard.share(-(-lines // self.size))

    def path(self, number: int, what: str = "") -> Path:
        """Return the path of a chunk."""
        return self.folder / f"{self.mark}-{what}{number:06}"

    def paths(self, lines: int, what: str = "") -> list[Path]:
        """Return the paths of all chunks in order, given the number of lines in the file."""
        return [self.path(number, what) for number in self.numbers(lines)]

    def missing(self, items: Iterator[Item], numbers: range, what: str = "") -> Iterator[tuple[Path, Iterator[Item]]]:
        """Yield path and items of each chunk that does not exist yet.

        Args:
            items: the items of all these chunks, from the first chunk on; skipped chunks are read too.
            numbers: numbers of the chunks.
            what: prefix of the file names, if several kinds of chunks share the folder.
        """
        for number in numbers:
            block = islice(items, self.size)
            if not self.path(number, what).exists():
                yield self.path(number, what), block
            deque(block, maxlen=0)

    def delete(self) -> None:
        """Delete the folder of chunks; a process that is killed meanwhile leaves no chunk with a part of its files."""
        if self.folder.exists():
            shutil.rmtree(self._deleted, ignore_errors=True)
            self.folder.replace(self._deleted)
            shutil.rmtree(self._deleted, ignore_errors=True)

    @property
    def _deleted(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}.old")


def mark(settings: Any, files: Iterable[Path]) -> str:
    """Return a mark that changes with the settings (as JSON) and with name, size or time of an input file."""
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
    return digest([settings, states])


def blocks(parts: Iterable[Path], size: int = 2**19) -> Iterator[bytes]:
    """Yield the bytes of files, one file after another, in blocks of at most ``size`` bytes."""
    for part in parts:
        with part.open("rb") as stream:
            while block := stream.read(size):
                yield block
