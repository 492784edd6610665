"""Reading text strictly and writing files that are whole or absent."""

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from nmt.system.errors import DataError

Made = TypeVar("Made")
Json = dict[str, Any]
"""A JSON object."""

UMASK = os.umask(0o077)  # which can be read only by setting it
os.umask(UMASK)
BYTE_ORDER_MARK = "\ufeff"  # with which some editors begin a file
MARKS = ("corpus.json", "report.json", "subwords.json", "meta.json", "provenance.json")
"""Files that folders of raw, cleaned and encoded text, of subwords, and of models have in them."""
DROPPED = "train.dropped.txt"
"""Numbers of the raw training lines, from 1, that cleaning dropped; no such file: none."""


def read_lines(path: Path, first: int = 0) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file without their ends; only ``\n`` and ``\r\n`` end a line.

    Args:
        path: the file.
        first: of the lines to yield, from 0; those before are passed over unread.

    Raises:
        DataError: the file is missing, or a line is not UTF-8 (names file and line).
    """
    with _opened(path) as stream:
        next(islice(stream, first, first), None)
        yield from decode_lines(stream, str(path), first + 1)


def count_lines(path: Path) -> int:
    """How many lines `read_lines` finds in a file, be they UTF-8 or not; raises DataError if it is missing."""
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


def decode_lines(stream: BinaryIO, name: str, first: int = 1) -> Iterator[str]:
    """Yield the lines of an open file as `read_lines` does; ``name``, and the first line's number, are for messages."""
    for number, raw in enumerate(stream, first):
        try:
            line = raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: expected UTF-8, got byte 0x{raw[error.start]:02x} at column "
                f"{error.start + 1}; {_to_utf8(raw if number == 1 else b'')}"
            ) from None
        yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _to_utf8(beginning: bytes) -> str:
    """How to make UTF-8 of a file that begins so."""
    if beginning.startswith(b"\x1f\x8b"):
        return "it is compressed: unpack it first, by gunzip, or end its name in .gz where those are read"
    encoding = "utf-16" if beginning.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin1"
    return f"convert the file first, e.g. iconv -f {encoding} -t utf-8"


class _Described(dict[str, Any]):
    """What a JSON file says; asked for a key that it lacks, it names the file."""

    def __init__(self, path: Path, found: dict[str, Any]) -> None:
        super().__init__(found)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.path}: expected the key {key}, got none; delete it and run its stage again")


def build_stored(kind: Callable[..., Made], values: Mapping[str, Any], path: Path) -> Made:
    """What a stage wrote into a file, as the type that it is of; raises DataError where it does not fit that."""
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # pydantic's is one
        told = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: does not fit this version of nmt ({told}); run its stage again") from None


def read_json(path: Path, kind: type = dict) -> Any:
    """Parse a JSON file that an earlier stage wrote.

    Args:
        path: the file.
        kind: what it holds, a dict or a list.

    Raises:
        DataError: the file is missing, is not JSON, or holds something else; and later, where a dict is asked for a key
            that it has not.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_hook=partial(_Described, path))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file; run the stage that writes it") from None
    except ValueError as error:
        raise DataError(f"{path}: expected JSON, got {error}; delete it and run its stage again") from None
    if not isinstance(found, kind):
        expected = "keys and their values" if kind is dict else f"a {kind.__name__}"
        raise DataError(f"{path}: expected {expected}, got {str(found)[:100]}; delete it and run its stage again")
    return found


def check_writable(path: Path) -> None:
    """Say before hours of work that their result could not be written.

    Raises:
        DataError: there is a folder of this name, a link, or a device or pipe.
    """
    if path.is_symlink():  # it would be replaced, and what it leads to stay as it is
        raise DataError(f"{path}: expected a file to write, got a link to {path.readlink()}; name the file itself")
    if path.is_dir():
        raise DataError(f"{path}: expected a file to write, got a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: expected a file to write, got a device or pipe; name a file")


def check_not_input(out: Path, sources: Iterable[Path]) -> None:
    """Say before hours of work that their result would take the place of what it is made from; raises DataError."""
    for source in sources:
        if out.exists() and source.exists() and out.samefile(source):
            raise DataError(f"{out}: expected another file than is read, got {source} itself; name another")


def check_not_stage_output(folder: Path) -> None:
    """Refuse to write files into a folder that another stage makes whole, and would replace with them.

    Raises:
        DataError: it is such a folder, or a file.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: expected a folder to write, got a file; name another")
    if found := [mark for mark in MARKS if (folder / mark).exists()]:
        raise DataError(
            f"{folder}: expected a folder of its own, got one that another stage made, with {found[0]}; name another"
        )


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; it takes the final name, flushed to disk, only if the block succeeds.

    Raises:
        DataError: see `check_writable`.
    """
    check_writable(path)
    with _part(path, _new_file) as part:
        yield part
        part.chmod(0o666 & ~UMASK)
        _flush(part)
        part.replace(path)
        _flush(path.parent)


@contextmanager
def atomic_directory(path: Path, mark: str | None = None) -> Iterator[Path]:
    """Give a temporary directory beside ``path``; it takes the final name, whole, only if the block succeeds.

    Args:
        path: the final name. What is there is replaced.
        mark: what every directory of this kind has in it; one that lacks it is not ours to replace, unless empty.

    Raises:
        DataError: there is a file of this name, or a directory that is not ours to replace.
    """
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: expected a folder to write, got a file; name another")
    if mark and path.is_dir() and not (path / mark).exists() and (others := sorted(path.iterdir())):
        raise DataError(
            f"{path}: expected a folder to write that is new, empty or has {mark}, got one with {others[0].name}; "
            "name another"
        )
    with _part(path, tempfile.mkdtemp) as part:
        yield part
        part.chmod(0o777 & ~UMASK)
        for file in part.rglob("*"):
            _flush(file)
        _swap_in(part, path)
        _flush(path.parent)


@contextmanager
def _part(path: Path, make: Callable[..., str]) -> Iterator[Path]:
    """Give something new beside ``path``, and delete it if the block fails.

    It is locked while its process lives, and so one of a process that was killed is known, and deleted here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy(path)
    part = Path(make(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    with ExitStack() as stack:
        with suppress(OSError):  # a file system without locks: what is left there, stays
            stack.enter_context(_locked(part))
        try:
            yield part
        except BaseException as error:
            _delete(part)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                error.filename = error.filename or str(path)  # what is written is not told by the system
            raise


def _tidy(path: Path) -> None:
    """Delete what processes that were killed have left beside a path, and put back what one was about to replace."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError), _locked(left):
            _delete(left)
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.old"):
        with suppress(OSError), _locked(old):
            _delete(old) if path.exists() else old.replace(path)


def _new_file(**place: Any) -> str:
    handle, name = tempfile.mkstemp(**place)
    os.close(handle)
    return str(name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file or directory; raises OSError where another process has it, or there are none."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _swap_in(part: Path, path: Path) -> None:
    """Rename ``part`` to ``path``; what stood there is moved away just before, and deleted after."""
    if not path.exists():
        part.replace(path)
        return
    old = part.with_suffix(".old")
    with ExitStack() as stack:
        with suppress(OSError):  # a file system without locks
            stack.enter_context(_locked(path))
        path.replace(old)
        part.replace(path)
        _delete(old)


def _flush(path: Path) -> None:
    """Force a file or directory entry to disk, so that a rename never precedes its content."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a whole text file atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as they come, as a whole file."""
    with atomic_path(path) as part, part.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, keys in the order given."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(value: Any) -> str:
    """Eight hexadecimal digits that depend on every part of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
