"""Large files in chunks of lines: each is on disk, whole, once it is done, so that jobs can share them out and resume.

Chunks have a fixed number of lines, whoever makes them, so that the number of jobs changes no byte of the result.
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
    """One of several jobs that share out the chunks: ``2/8`` is the second of eight."""

    number: int  # from 1
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``2/8``; raises ConfigError."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise ConfigError(f"--shard: expected a number and how many there are, e.g. 2/8, got '{text}'")
        return cls(int(found[1]), int(found[2]))

    def share(self, chunks: int) -> range:
        """The numbers, from 0, of its chunks among so many; the shares are as even as they can be."""
        return range((self.number - 1) * chunks // self.of, self.number * chunks // self.of)


WHOLE = Shard(1, 1)


class Chunks:
    """What a stage has made of each chunk, in a folder beside its output until all of it is joined there.

    Args:
        out: the stage's output; the folder is ``{out}.chunks``.
        mark: what two attempts must share for one to go on from the other's chunks; those of others are deleted.
        size: lines a chunk.
    """

    def __init__(self, out: Path, mark: str, size: int) -> None:
        self.folder, self.mark, self.size = out.with_name(f"{out.name}.chunks"), mark, size
        for stale in self.folder.glob("*"):
            if mark not in stale.name:  # hidden ones with the mark are being written by other jobs
                shutil.rmtree(stale, ignore_errors=True) if stale.is_dir() else stale.unlink(missing_ok=True)

    def numbers(self, lines: int, shard: Shard = WHOLE) -> range:
        """The numbers of a shard's chunks of so many lines."""
        return shard.share(-(-lines // self.size))

    def place(self, number: int, what: str = "") -> Path:
        """Where a chunk is."""
        return self.folder / f"{self.mark}-{what}{number:06}"

    def places(self, lines: int, what: str = "") -> list[Path]:
        """Where all chunks of so many lines are, in order."""
        return [self.place(number, what) for number in self.numbers(lines)]

    def undone(self, items: Iterator[Item], numbers: range, what: str = "") -> Iterator[tuple[Path, Iterator[Item]]]:
        """The place and the items of each chunk that is not there yet; ``items`` begin with the first chunk's."""
        for number in numbers:
            block = islice(items, self.size)
            if not self.place(number, what).exists():
                yield self.place(number, what), block
            deque(block, maxlen=0)

    def forget(self) -> None:
        """Delete them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def mark(settings: Any, files: Iterable[Path]) -> str:
    """The mark of chunks that are made by some settings (as JSON) of some files: other files of that name differ."""
    states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.exists()]
    return digest([settings, states])


def blocks(parts: Iterable[Path], size: int = 2**19) -> Iterator[bytes]:
    """The bytes of files one after another, so many at a time."""
    for part in parts:
        with part.open("rb") as stream:
            while block := stream.read(size):
                yield block
