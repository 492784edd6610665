"""Packed files: .gz, .bz2, .xz, .zst, and members of zip and tar archives, as streams of bytes.

Nothing is unpacked to disk. A file that unpacks to far more than text does is refused, and so is an archive with
members outside it.
"""

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_regular

RATIO = 200
"""Most unpacked bytes for a packed byte. Text packs to a tenth; repeated lines to some hundredths."""
UNTESTED = 2**26
"""Unpacked bytes below which the ratio does not count."""
ARCHIVES = (".zip", ".tar", ".tgz")
DAMAGED = (
    OSError, RuntimeError, ValueError, EOFError, NotImplementedError, tarfile.TarError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""What Python's libraries raise for damaged and for encrypted files."""
MACOS = re.compile(r"(^|/)(__MACOSX/|\._|\.DS_Store$)")
"""Names of files that macOS adds to an archive."""


class _Guarded(io.RawIOBase):
    """Counts the bytes of a packed file; raises DataError if they are far too many for its size."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path, self._count = stream, path, 0
        self._most = max(UNTESTED, RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        self._count += len(block)
        if self._count > self._most:
            raise DataError(
                f"{self._path}: expected text, got a file that unpacks to more than {RATIO} times its size; check "
                "where it comes from, and unpack it yourself if it is text"
            )
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


def is_packed(path: Path) -> bool:
    """Return whether a file's name says that it is compressed."""
    return path.suffix in _OPENERS


def is_archive(path: Path) -> bool:
    """Return whether a file's name says that it is a zip or tar archive."""
    return path.suffix in ARCHIVES or path.name.endswith((".tar.gz", ".tar.bz2", ".tar.xz"))


def bare_suffix(name: str) -> str:
    """Return the suffix of a file's name without that of its compression: ``a.tmx.gz`` → ``.tmx``."""
    path = Path(name)
    return Path(path.stem).suffix if is_packed(path) else path.suffix


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[BinaryIO]:
    """Open a file, plain or compressed, or a member of an archive, for reading.

    Raises:
        DataError: the file is missing, damaged, encrypted, or unpacks to far too much; the archive lacks the member.
    """
    check_regular(path)
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path")
    if member is None and not is_packed(path):
        with path.open("rb") as stream:
            yield stream
        return
    kind = _KINDS.get(path.suffix, path.suffix[1:])
    with unpacking(path, kind), _bytes(path, member) as packed:
        suffix = Path(member or path).suffix
        with _OPENERS[suffix](packed) if suffix in _OPENERS else packed as stream:
            yield io.BufferedReader(_Guarded(stream, path), 2**18)


@contextmanager
def unpacking(path: Path, kind: str) -> Iterator[None]:
    """Turn what libraries raise for a damaged or encrypted file into DataError, which names the kind expected."""
    try:
        yield
    except (ConfigError, DataError, PermissionError):
        raise
    except DAMAGED as error:
        got, remedy = f"a damaged file ({error})", "make it or download it again"
        if "encrypt" in str(error):
            got, remedy = "an encrypted file", "unpack it with its password, and pack it again without one"
        raise DataError(f"{path}: expected {kind}, got {got}; {remedy}") from None


def members(path: Path) -> list[str]:
    """Return the names of the files in an archive; raises DataError if it is damaged.

    What macOS adds to each file is left out: ``__MACOSX/``, ``._NAME`` and ``.DS_Store``.
    """
    with unpacking(path, path.suffix[1:]):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                names = [file.filename for file in archive.infolist() if not file.is_dir()]
        else:
            with tarfile.open(path) as tar:
                names = [file.name for file in tar if file.isfile()]
    return [name for name in names if not MACOS.search(name)]


def safe_members(path: Path) -> list[str]:
    """Return the names of the files in an archive of somebody else; raises DataError if one leads out of it."""
    names = members(path)
    for name in names:
        place = PurePosixPath(name.replace("\\", "/"))
        if place.is_absolute() or ".." in place.parts:
            raise DataError(
                f"{path}: expected files inside the archive, got the name {name!r}, which leads out of it; check "
                "where the archive comes from, and pack its files again"
            )
    return names


def _bytes(path: Path, member: str | None) -> BinaryIO:
    """Open a file, or a member of an archive, which may be compressed itself."""
    if member is None:
        return path.open("rb")
    if member not in (files := members(path)):
        raise DataError(
            f"{path}: expected a member '{member}', got only {', '.join(files) or 'nothing'}; "
            "fix member: in the file's declaration"
        )
    if path.suffix == ".zip":
        return cast("BinaryIO", zipfile.ZipFile(path).open(member))
    tar = tarfile.open(path)  # noqa: SIM115  it closes with its member; no member is extracted to disk
    return cast("BinaryIO", tar.extractfile(member))


class _Zstandard(io.RawIOBase):
    """The bytes of a .zst file, frame by frame; the library's own reader takes a file that is cut off for a short one.

    Raises:
        ConfigError: the package zstandard is missing.
    """

    def __init__(self, stream: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise ConfigError(
                f"{stream.name}: expected the package zstandard, which reads .zst, got none; "
                "python3 envs/install.py run sources, or unpack the file with unzstd"
            ) from None
        self._library, self._stream = zstandard, stream
        self._frame: Any = None
        self._left, self._block = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return self.readall()
        while not self._block and self._advance():
            pass
        block, self._block = self._block[:size], self._block[size:]
        return bytes(block)

    def _advance(self) -> bool:
        """Unpack some more bytes; return False at the end of the file."""
        packed = self._left or self._stream.read(2**8)  # can unpack to 8 MiB
        if not packed:
            if self._frame is not None:
                raise ValueError("it ends in the middle")
            return False
        self._frame = self._frame or self._library.ZstdDecompressor().decompressobj()
        try:
            self._block = memoryview(self._frame.decompress(packed))
        except self._library.ZstdError as error:
            raise ValueError(str(error)) from None
        self._left = self._frame.unused_data if self._frame.eof else b""
        self._frame = None if self._frame.eof else self._frame
        return True

    def close(self) -> None:
        self._stream.close()
        super().close()


_OPENERS: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    ".gz": lambda stream: cast("BinaryIO", gzip.open(stream)),  # noqa: SIM115
    ".bz2": lambda stream: cast("BinaryIO", bz2.open(stream)),  # noqa: SIM115
    ".xz": lambda stream: cast("BinaryIO", lzma.open(stream)),  # noqa: SIM115
    ".zst": lambda stream: cast("BinaryIO", _Zstandard(stream)),
}
_KINDS = {".gz": "gzip", ".zst": "zstd"}
