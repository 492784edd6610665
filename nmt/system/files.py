"""Reading of JSON, and atomic writing: a file is complete or absent."""

import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nmt.system.errors import DataError

Value = TypeVar("Value")
Json = dict[str, Any]
"""A JSON object."""
UMASK = os.umask(0o077)  # the umask can be read only by setting it
os.umask(UMASK)
MARKS = ("corpus.json", "report.json", "subwords.json", "meta.json", "provenance.json")
"""One file each that identifies a folder of raw text, cleaned text, subwords, encoded text, or a model."""
DROPPED = "train.dropped.txt"
"""Line numbers, from 1, of the raw training lines that cleaning dropped."""


class _JsonObject(dict[str, Any]):
    """An object of a JSON file; a missing key raises DataError, which names the file."""

    __slots__ = ("path",)

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.path}: expected the key {key}, got none; delete it and run its stage again")


def build_stored(kind: Callable[..., Value], values: Mapping[str, Any], path: Path) -> Value:
    """Build an object from values that a stage wrote into a file.

    Args:
        kind: class of the object.
        values: its arguments.
        path: the file, for messages.

    Raises:
        DataError: the values do not fit the class, e.g. because another version wrote them.
    """
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # pydantic's ValidationError is a ValueError
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: does not fit this version of nmt ({reason}); run its stage again") from None


def read_json(path: Path, kind: type = dict) -> Any:
    """Parse a JSON file that an earlier stage wrote.

    Args:
        path: the file.
        kind: expected type of its content, dict or list.

    Raises:
        DataError: the file is missing, is not JSON, or has another type. A dict also raises it later, for a key that it
            does not have.
    """
    check_regular(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_hook=partial(_JsonObject, path))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file; run the stage that writes it") from None
    except (ValueError, RecursionError) as error:  # RecursionError: thousands of lists in each other
        raise DataError(f"{path}: expected JSON, got {error}; delete it and run its stage again") from None
    if not isinstance(value, kind):
        expected = "keys and their values" if kind is dict else f"a {kind.__name__}"
        raise DataError(f"{path}: expected {expected}, got {str(value)[:100]}; delete it and run its stage again")
    return value


def read_records(path: Path) -> Iterator[tuple[str, Json]]:
    """Yield each line of a training's log, without its line end, with its record; nothing if there is no log.

    Lines without a record are skipped: a killed process can leave half a line, a faulty disk any bytes.
    """
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for raw in stream:
            with suppress(ValueError, RecursionError):
                line = raw.decode("utf-8").rstrip("\n")
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("update"), int) and "event" in record:
                    yield line, record


def check_regular(path: Path) -> None:
    """Check that a path, if it exists, is a file: reading a pipe or a device can wait for ever, or never end.

    Raises:
        DataError: it is something else.
    """
    if path.is_dir():
        raise DataError(f"{path}: expected a file, got a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: expected a file, got a device or pipe; save its content as a file first")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's content; raises DataError if the source is a pipe or a device, whose content may never end."""
    check_regular(source)
    shutil.copyfile(source, target)


def check_writable(path: Path) -> None:
    """Check that a file can be written here; call it before hours of work.

    Raises:
        DataError: the path is a folder, a link, a device or a pipe.
    """
    if path.is_symlink():  # writing would replace the link, not the file that it points to
        raise DataError(f"{path}: expected a file to write, got a link to {path.readlink()}; name the file itself")
    if path.is_dir():
        raise DataError(f"{path}: expected a file to write, got a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: expected a file to write, got a device or pipe; name a file")


def check_not_input(out: Path, sources: Iterable[Path]) -> None:
    """Check that an output is not one of its own inputs, nor in the folder of one. Call it before hours of work.

    Args:
        out: the output.
        sources: files, and folders such as a model.

    Raises:
        DataError: the output would replace an input, or a file of it.
    """
    for source in sources:
        if out.exists() and source.exists() and out.samefile(source):
            raise DataError(f"{out}: expected an output file, got the input {source} itself; name another")
        if source.is_dir() and out.resolve().is_relative_to(source.resolve()):
            raise DataError(f"{out}: expected an output file, got one in the input {source}; name one elsewhere")


def check_not_stage_output(folder: Path) -> None:
    """Check that a folder is not the output of another stage, which would later replace the files written here.

    Raises:
        DataError: another stage wrote the folder, or the path is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: expected a folder to write, got a file; name another")
    if marks := [mark for mark in MARKS if (folder / mark).exists()]:
        raise DataError(
            f"{folder}: expected a folder for these files only, got the output of another stage, with {marks[0]}; "
            "name another"
        )


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Provide a temporary path beside ``path``; if the block succeeds, flush the file and rename it to ``path``.

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
    """Provide a temporary directory beside ``path``; if the block succeeds, flush it and rename it to ``path``.

    Args:
        path: the final name. An old directory there is replaced.
        mark: a file in every directory of this kind. A directory without it is not replaced, unless it is empty.

    Raises:
        DataError: the path is a file, or a directory that must not be replaced.
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
    """Make a temporary file or directory beside ``path``, and delete it if the block fails.

    It is locked while its process lives. An unlocked one was left by a killed process, and is deleted here.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _tidy(path)
    part = Path(make(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    with ExitStack() as stack, named_if_full(path):
        with suppress(OSError):  # the file system may have no locks; then leftovers stay
            stack.enter_context(_locked(part))
        try:
            yield part
        except BaseException:
            _delete(part)
            raise


@contextmanager
def named_if_full(path: Path) -> Iterator[None]:
    """Name a file in the error of a full disk, since the system does not."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = error.filename or str(path)
        raise


def _tidy(path: Path) -> None:
    """Delete the temporary files of killed processes beside a path; restore an old version that lost its successor."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError), _locked(part):
            _delete(part)
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.old"):
        with suppress(OSError), _locked(old):
            _delete(old) if path.exists() else old.replace(path)


def _new_file(**place: Any) -> str:
    handle, name = tempfile.mkstemp(**place)
    os.close(handle)
    return str(name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file or directory; raises OSError if another process holds it or locks are not supported."""
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOSYS, "this system has no such locks") from None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _swap_in(part: Path, path: Path) -> None:
    """Rename ``part`` to ``path``; move an old version away just before, and delete it after."""
    if not path.exists():
        part.replace(path)
        return
    old = part.with_suffix(".old")
    with ExitStack() as stack:
        with suppress(OSError):  # the file system may have no locks
            stack.enter_context(_locked(path))
        path.replace(old)
        part.replace(path)
        _delete(old)


def _flush(path: Path) -> None:
    """Force a file or directory to disk, so that the content is there before the new name.

    Windows opens no directories, and flushes only what is open for writing.
    """
    on_windows = os.name == "nt"
    if on_windows and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if on_windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a UTF-8 file atomically, without holding them all in memory."""
    with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, keys in the order given."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def sqlite_file(uri: str) -> Path | None:
    """Return the file of an SQLite database, ``sqlite:///FILE?…``; None for the address of another store."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal; raises DataError for a pipe or a device."""
    check_regular(path)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest(value: Any) -> str:
    """Return eight hexadecimal digits that depend on every part of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
