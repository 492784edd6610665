"""Strict reading of text, line by line."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.system.errors import DataError
from nmt.system.files import check_regular

BYTE_ORDER_MARK = "\ufeff"  # some editors write it at the start of a file
LONGEST = 2**20
"""Maximum size of a line in bytes, its end included. A reader holds one line in memory, and sentencepiece learns from
no longer ones. A sentence of 10,000 words has 100 kB; a longer line than this is a file without line ends."""


def read_lines(path: Path, first: int = 0) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their line ends; only ``\n`` and ``\r\n`` end a line.

    Memory use does not grow with the file, nor with a line.

    Args:
        path: the file.
        first: number of the first line to yield, from 0; earlier lines are not decoded.

    Raises:
        DataError: the file is missing, or a line is not UTF-8 or too long; the message names file and line.
    """
    with _opened(path) as stream:
        yield from decode_lines(stream, str(path), first)


def count_lines(path: Path) -> int:
    """Count the lines that `read_lines` yields, UTF-8 or not; raises DataError if the file is missing.

    The file is read again later, so it must not be a pipe.
    """
    check_regular(path)
    count, last = 0, b"\n"
    with _opened(path) as stream:
        while block := stream.read(2**20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def _opened(path: Path) -> BinaryIO:
    if path.is_dir():
        raise DataError(f"{path}: expected a file, got a folder; name a file in it")
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path, or run the stage that writes it")
    return path.open("rb")


def decode_lines(stream: BinaryIO, name: str, first: int = 0) -> Iterator[str]:
    """Yield the lines of an open file as `read_lines` does.

    Args:
        stream: the open file, at its beginning.
        name: its name in messages.
        first: number of the first line to yield, from 0.

    Raises:
        DataError: a line is not UTF-8 or longer than `LONGEST`, or the lines end in CR alone.
    """
    beginning, seen_utf8 = b"", False
    for number, raw in enumerate(_raw_lines(stream, name), 1):
        beginning = beginning or raw[:8]
        if number <= first:
            continue
        try:
            line = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: expected UTF-8, got byte 0x{raw[error.start]:02x} at column "
                f"{error.start + 1}; {_advice(beginning, seen_utf8)}"
            ) from None
        if number == 1 and "\r" in line and not raw.endswith(b"\n"):
            raise DataError(
                f"{name}: expected lines that end in LF or CR LF, got CR alone; convert the file first, e.g. "
                "tr '\\r' '\\n' < old > new"
            )
        seen_utf8 = seen_utf8 or not line.isascii()
        yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _raw_lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield lines with their ends; raise DataError for a line longer than `LONGEST`, without reading all of it."""
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise DataError(
                f"{name}, line {number}: expected one sentence of at most {LONGEST:,} bytes, got a longer line; check "
                "that the file is text with a line end after each sentence"
            )
        yield line


_COMPRESSED = {
    b"\x1f\x8b": "it is compressed: unpack it with gunzip, or end its name in .gz if this place accepts that",
    b"PK": "it is a zip archive: unpack it with unzip; a spreadsheet: save it as CSV",
    b"\xfd7zXZ": "it is compressed: unpack it with unxz",
    b"BZh": "it is compressed: unpack it with bunzip2",
    b"\x28\xb5\x2f\xfd": "it is compressed: unpack it with unzstd",
}
"""Beginnings of compressed files, and what to do with them."""


def _advice(beginning: bytes, seen_utf8: bool) -> str:
    """Return how to mend a file with this beginning; converting one that has UTF-8 would encode that twice."""
    for mark, advice in _COMPRESSED.items():
        if beginning.startswith(mark):
            return advice
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "convert the file first, e.g. iconv -f utf-16 -t utf-8"
    if seen_utf8:
        return "earlier lines are UTF-8, so do not convert the file: mend this line, or drop it with its translation"
    return "convert the file first, e.g. iconv -f latin1 -t utf-8, or mend this line if the others are UTF-8"
