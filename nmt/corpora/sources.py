"""Parallel text in files, plain or packed: declared ones, each accepted only with its SHA-256, and the user's own."""

import gzip
import hashlib
import os
import re
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, Self, cast

from pydantic import Field, model_validator

from nmt.config.types import Language, Strict
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import decode_lines, read_lines, sha256

RETRIES = 2
"""Downloads tried again after a first failure."""

_SHORTCUT = re.compile(r"(?<![\w/%$&~])([A-Za-z]+)[_&~]([a-z]+)(?![\w/&~])")
_SHORTCUT_AFTER = re.compile(r"(?<=[\u0900-\u097f….:]) ?\([_&~]?[A-Za-z]\)")

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Slice(Strict):
    """Some of the distinct sentences of one language, chosen by their hash, whatever their order in the file."""

    by: Language
    per_mille: tuple[int, int] = Field(description="first, and the one after the last, of 0 to 1000")

    def holds(self, sentence: str) -> bool:
        """Whether a sentence is in the slice; sentences with the same `key` are in the same one."""
        digest = hashlib.sha256(key(sentence).encode()).digest()
        place = int.from_bytes(digest[:8], "big") * 1000 >> 64
        return self.per_mille[0] <= place < self.per_mille[1]


class Source(Strict):
    """Text to be downloaded or found in a mirror: one file a language, or one table with a column a language."""

    url: str | None = Field(None, description="{language} stands for the language's code; none: only in mirrors")
    made: str = Field("", description="how and from what, where no URL has the file")
    mirror: str = Field(description="the file's place below a mirror folder")
    sha256: dict[Language, Hash | None] | Hash = Field(
        description="of each language's file, or of the table's one; null while nobody knows it"
    )
    codes: dict[Language, str] = Field({}, description="the files' own language codes where they are not ours")
    member: str | None = Field(None, description="the text is this member of a zip or tar; {language} as in url")
    columns: list[Language | Literal["_"]] = Field([], description="of a tab-separated table; _ is not read")
    lines: tuple[int, int] | None = Field(None, description="first, and the one after the last, from 0")
    slice: Slice | None = Field(None, description="only these pairs")
    shortcuts: bool = Field(False, description="interface strings: take out the marks of keyboard shortcuts")
    licence: str | None = Field(None, description="where it is not the corpus's")

    @model_validator(mode="after")
    def _one_hash_a_file(self) -> Self:
        if bool(self.columns) == isinstance(self.sha256, dict):
            raise ValueError("sha256: expected one hash where columns are given, else one a language")
        if not self.url and not self.made:
            raise ValueError("url: expected one; where there is none, made: says how the file was made")
        if self.slice and self.slice.by not in self.languages:
            raise ValueError(f"slice.by: expected one of {', '.join(self.languages)}, got '{self.slice.by}'")
        return self

    @property
    def languages(self) -> list[str]:
        """The languages that the text is in."""
        return [code for code in self.columns if code != "_"] or list(cast("dict[str, str]", self.sha256))

    def text(self, language: str, mirror: Path | None = None) -> "Text":
        """One side, its file verified: from the mirror if there is one, else NMT_MIRROR, else downloaded.

        Raises:
            ConfigError: a mirror folder that is not there.
            DataError: the file cannot be had, or is not the declared one.
        """
        code = self.codes.get(language, language)
        url, place = self.url and self.url.format(language=code), self.mirror.format(language=code)
        expected = self.sha256 if isinstance(self.sha256, str) else self.sha256[language]
        path = _verified(url, self.made, place, expected, mirror or os.environ.get("NMT_MIRROR"))
        member = self.member and self.member.format(language=code)
        column = self.columns.index(language) if self.columns else None
        return Text(path, url or self.made, member, column, len(self.columns), self.lines, self.shortcuts)


@dataclass(frozen=True)
class Text:
    """One side of a parallel text: a local file, where its bytes came from, and where in it the sentences are."""

    path: Path
    url: str  # or how the file was made
    member: str | None = None  # of a zip or tar
    column: int | None = None  # of a tab-separated table, from 0
    columns: int = 0  # that the table has
    span: tuple[int, int] | None = None  # of lines that are read
    shortcuts: bool = False  # whether their marks are taken out

    def lines(self) -> Iterator[str]:
        """The sentences.

        Raises:
            DataError: the file is damaged, lacks the member, is not UTF-8, or has a line with other columns.
        """
        first, end = self.span or (0, None)
        for number, line in enumerate(islice(self._whole_lines(), first, end), first + 1):
            cells = line.split("\t") if self.column is not None else []
            if len(cells) != self.columns:
                raise DataError(
                    f"{self.name}, line {number}: expected {self.columns} tab-separated columns, got {len(cells)}; "
                    f"mend the line, or columns: where the file is declared"
                )
            sentence = line if self.column is None else cells[self.column]
            yield without_shortcuts(sentence) if self.shortcuts else sentence

    @property
    def name(self) -> str:
        """The file as messages call it."""
        return f"{self.path}: {self.member}" if self.member else str(self.path)

    def _whole_lines(self) -> Iterator[str]:
        if self.member is None and self.path.suffix != ".gz":
            yield from read_lines(self.path)
            return
        kind = self.path.suffix[1:] if self.member else "gzip"
        try:
            with self._unpacked() as stream:
                yield from decode_lines(stream, self.name)
        except (gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
            raise DataError(
                f"{self.path}: expected {kind}, got a damaged file ({error}); make or fetch it again"
            ) from None

    def _unpacked(self) -> BinaryIO:
        if self.member is None:
            return cast("BinaryIO", gzip.open(self.path))
        if self.path.suffix == ".zip":
            archive = zipfile.ZipFile(self.path)
            self._has_member([file.filename for file in archive.infolist() if not file.is_dir()])
            return cast("BinaryIO", archive.open(self.member))
        tar = tarfile.open(self.path)  # noqa: SIM115  closed with its member; nothing is written where names point
        self._has_member([file.name for file in tar if file.isfile()])
        return cast("BinaryIO", tar.extractfile(self.member))

    def _has_member(self, files: list[str]) -> None:
        if self.member not in files:
            raise DataError(
                f"{self.path}: expected a member '{self.member}', got only {', '.join(files) or 'nothing'}; "
                f"mend member: where the file is declared"
            )


def key(sentence: str) -> str:
    """A sentence without what hardly tells two apart: case, punctuation, spaces, compatibility forms.

    ``"Who's there?"`` and ``"WHOS THERE"`` have one key; a sentence without a letter or digit is its own.
    """
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    # Indic vowel signs are marks, not letters.
    kept = "".join(c for c in folded if c.isalnum() or unicodedata.category(c)[0] == "M")
    return kept or sentence


def without_shortcuts(text: str) -> str:
    """An interface string without the marks of its shortcut: ``Rena_me`` → ``Rename``, ``फ़ाइल (F)`` → ``फ़ाइल``.

    A mark is the only ``_``, ``&`` or ``~`` of a word, between a Latin letter and a small one; ``&&`` is ``&``. After
    Devanagari it is a letter in brackets. The rare name that is spelled so (``input_token``) loses its mark too.
    """
    return _SHORTCUT_AFTER.sub("", _SHORTCUT.sub(r"\1\2", text)).replace("&&", "&")


def _verified(url: str | None, made: str, place: str, expected: str | None, mirror: str | Path | None) -> Path:
    if not mirror and not url:
        raise DataError(
            f"{place}: no URL has this file, {made}; put it into a folder at this path and name that folder in mirror: "
            f"or NMT_MIRROR"
        )
    if not mirror:
        return _downloaded(cast("str", url), place, expected)
    if not Path(mirror).is_dir():
        raise ConfigError(f"mirror: {mirror}: no such folder; mend mirror: or NMT_MIRROR, or unset both to download")
    remedy = (
        f"put the file from {url} there, or unset mirror: and NMT_MIRROR to download it"
        if url
        else (f"put the file there: {made}")
    )
    return _mirrored(Path(mirror, place), remedy, expected)


def _mirrored(path: Path, remedy: str, expected: str | None) -> Path:
    if not path.is_file():
        raise DataError(f"{path}: the mirror has no such file; {remedy}")
    if expected is None:
        raise _unpinned(path)
    if (got := sha256(path)) != expected:
        raise DataError(f"{path}: wrong checksum: expected SHA-256 {expected}, got {got}; {remedy}")
    return path


def _unpinned(path: Path) -> DataError:
    return DataError(
        f"{path}: no checksum is declared for this file, which was out of reach when it was; its SHA-256 is "
        f"{sha256(path)}: if you trust the file, write that as its sha256: in nmt/corpora/corpora.yaml"
    )


def _downloaded(url: str, name: str, expected: str | None) -> Path:
    """Fetch into the user's cache, laid out as a mirror is; a file has its final name only once verified."""
    import pooch
    import requests

    cache = Path(pooch.os_cache("nmt"))
    known = {name: f"sha256:{expected}" if expected else None}
    keeper = pooch.create(cache, "", registry=known, urls={name: url}, retry_if_failed=RETRIES)
    remedy = f"or put {name} into a folder and name that folder in mirror: or NMT_MIRROR"
    try:
        path = Path(keeper.fetch(name, progressbar=sys.stderr.isatty()))
    except requests.RequestException as error:
        raise DataError(
            f"{cache / name}: cannot download {url}: {error}; check the network and run again, {remedy}"
        ) from None
    except ValueError as error:
        got = re.search(r"but got (\w+)", str(error))
        raise DataError(
            f"{cache / name}: wrong checksum of {url}: expected SHA-256 {expected}, "
            f"got {got[1] if got else error}; the file changed there or on its way: run again, {remedy}"
        ) from None
    if expected is None:
        raise _unpinned(path)
    return path
