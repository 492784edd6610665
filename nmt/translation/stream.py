"""Translate lines as they come: chunk by chunk, in constant memory, into a file that can be resumed."""

import hashlib
import os
import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import UnsupportedOperation
from pathlib import Path
from typing import Any, BinaryIO

from nmt.system.errors import DataError
from nmt.system.files import digest, named_if_full, read_json, write_json
from nmt.system.lines import LONGEST
from nmt.system.warnings import say

FIRST, LARGEST = 16, 2048
"""Lines of the first chunk, so that output appears at once, and of the largest."""
PAUSE = 0.5
"""Seconds without a new line after which what has come is translated."""


class Pipe:
    """A binary stream that knows whether its next line is there.

    Args:
        stream: an open stream, at its beginning.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._data, self._ended = stream, b"", False
        self._file: int | None = None
        with suppress(UnsupportedOperation, AttributeError):
            self._file = None if os.name == "nt" else stream.fileno()  # Windows waits for sockets alone

    def waits(self) -> bool:
        """Return whether no further line has come, even after a pause."""
        while self._file is not None and b"\n" not in self._data and not self._ended and len(self._data) <= LONGEST:
            if not select.select([self._file], [], [], PAUSE)[0]:
                return True
            self._read(self._file)
        return False

    def readline(self, size: int = -1) -> bytes:
        """Return the next line with its end; at the end of the stream what is left."""
        if self._file is None:
            return self._stream.readline(size)
        while b"\n" not in self._data and not self._ended and len(self._data) <= LONGEST:
            self._read(self._file)
        end = self._data.find(b"\n") + 1 or len(self._data)
        line, self._data = self._data[:end], self._data[end:]
        return line

    def _read(self, file: int) -> None:
        block = os.read(file, 2**16)
        self._data, self._ended = self._data + block, not block


def chunks(lines: Iterable[str], waits: Callable[[], bool] = lambda: False, done: int = 0) -> Iterator[list[str]]:
    """Divide lines into chunks that grow from `FIRST` to `LARGEST`; a chunk ends early where the next line is late.

    Args:
        lines: the lines.
        waits: returns whether the next line has not come yet.
        done: number of lines before these; the chunks are those of all lines.
    """
    size, chunk = FIRST, list[str]()
    while done >= size:
        done, size = done - size, min(2 * size, LARGEST)
    for line in lines:
        chunk.append(line)
        if len(chunk) == size - done or waits():
            yield chunk
            done, size, chunk = 0, min(2 * size, LARGEST), []
    if chunk:
        yield chunk


class Resumable:
    """A file of translations that is written chunk by chunk; an interrupted run continues after its last chunk.

    The lines so far and a record of them lie beside the file. The file appears when all lines are done.

    Args:
        out: the file.
        settings: everything besides the text that the translations depend on.
    """

    def __init__(self, out: Path, settings: Any) -> None:
        self.out, self.settings = out, digest(settings)
        self.part, self.record = (out.with_name(f".{out.name}.{suffix}") for suffix in ("part", "part.json"))
        self.lines, self._bytes, self._text = 0, 0, hashlib.sha256()

    def translate(
        self, source: Iterator[str], translate: Callable[[list[str], int], str], waits: Callable[[], bool]
    ) -> None:
        """Translate the lines of a source that an earlier run has not, and write the file.

        Args:
            source: the lines.
            translate: turns a chunk of lines, and the number of the first one from 1, into what is written.
            waits: as for `chunks`.

        Raises:
            DataError: an earlier run had another text.
        """
        self._resume(source)
        try:
            self._translate_rest(source, translate, waits)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                say(f"{self.out}: stopped after {self.lines:,} lines; run the same command again to go on")
            if not self.record.is_file():
                self.part.unlink(missing_ok=True)
            raise
        self.part.replace(self.out)
        self.record.unlink(missing_ok=True)

    def _translate_rest(
        self, source: Iterator[str], translate: Callable[[list[str], int], str], waits: Callable[[], bool]
    ) -> None:
        with named_if_full(self.part), self.part.open("r+b" if self._bytes else "wb") as stream:
            stream.truncate(self._bytes)
            stream.seek(self._bytes)
            for lines in chunks(source, waits, self.lines):
                stream.write(translate(lines, self.lines + 1).encode())
                stream.flush()
                self._update(lines)
                state = {"settings": self.settings, "lines": self.lines, "bytes": stream.tell()}
                write_json(self.record, state | {"text": self._text.hexdigest()})

    def _resume(self, source: Iterator[str]) -> None:
        """Take over what an earlier run has written, and skip its lines."""
        if not (self.record.is_file() and self.part.is_file()):
            return
        state = read_json(self.record)
        if state["settings"] != self.settings or self.part.stat().st_size < state["bytes"]:
            return say(f"{self.out}: translated from the start, as the model or its settings are others than before")
        for _, line in zip(range(state["lines"]), source, strict=False):
            self._update([line])
        if self._text.hexdigest() != state["text"]:
            raise DataError(
                f"{self.part}: expected the text whose translation was interrupted, got another; delete this file to "
                "start anew, or choose another --out"
            )
        self._bytes = state["bytes"]
        say(f"{self.out}: continued after {self.lines:,} lines")

    def _update(self, lines: list[str]) -> None:
        self.lines += len(lines)
        self._text.update("".join(f"{line}\n" for line in lines).encode())
