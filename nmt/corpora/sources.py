"""Parallel text in files, plain or compressed: downloadable ones, verified by SHA-256, and the user's own."""

import hashlib
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Self, cast

from pydantic import Field, model_validator

from nmt.config.corpus.sources import Hash, Slice
from nmt.config.types import Language, Strict
from nmt.corpora.formats import packed
from nmt.corpora.formats.markup import sgm_segments
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import sha256
from nmt.system.lines import decode_lines, read_lines

RETRIES = 2
"""How often a failed download is tried again."""

SGM = (".sgm", ".sgml")
"""Suffixes of test sets of WMT, with one segment a line."""
_SHORTCUT = re.compile(r"(?<![\w/%$&~])([A-Za-z]+)[_&~]([a-z]+)(?![\w/&~])")
_SHORTCUT_AFTER = re.compile(r"(?<=[\u0900-\u097f….:]) ?\([_&~]?[A-Za-z]\)")


class _Letters(dict[int, int | None]):
    """Translation table for `str.translate` that keeps letters, digits and marks; Indic vowel signs are marks."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        keep = character.isalnum() or unicodedata.category(character)[0] == "M"
        self[code] = result = code if keep else None
        return result


_LETTERS = _Letters()


class Source(Strict):
    """Text from a URL or a mirror: one file per language, or one table with one column per language."""

    url: str | None = Field(None, description="{language} stands for the language's code; null: only in mirrors")
    made: str = Field("", description="if no URL has the file: how it was made, and from what")
    mirror: str = Field(description="the file's path below a mirror folder")
    sha256: dict[Language, Hash | None] | Hash | None = Field(
        description="hash of each language's file, or of the one table; null: not known yet"
    )
    codes: dict[Language, str] = Field({}, description="the files' own language codes, if they differ from ours")
    member: str | None = Field(None, description="the text is this member of a zip or tar; {language} as in url")
    columns: list[Language | Literal["_"]] = Field([], description="columns of a tab-separated table; _ is not read")
    lines: tuple[int, int] | None = Field(None, description="first line, and the one after the last, from 0")
    slice: Slice | None = Field(None, description="only these pairs")
    shortcuts: bool = Field(False, description="interface strings: remove the marks of keyboard shortcuts")
    licence: str | None = Field(None, description="licence, if it differs from the corpus's")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if bool(self.columns) == isinstance(self.sha256, dict):
            raise ValueError("sha256: expected one hash with columns, otherwise one hash per language")
        if not self.url and not self.made:
            raise ValueError("url: expected a URL, got none; without one, made: says how the file was made")
        if self.slice and self.slice.by not in self.languages:
            raise ValueError(f"slice.by: expected one of {', '.join(self.languages)}, got '{self.slice.by}'")
        return self

    @property
    def languages(self) -> list[str]:
        """The languages of the text."""
        return [code for code in self.columns if code != "_"] or list(cast("dict[str, str]", self.sha256))

    def text(self, language: str, mirror: Path | None = None) -> "Text":
        """Return one side, with a verified file from ``mirror``, from the folder NMT_MIRROR, or downloaded.

        Raises:
            ConfigError: the mirror folder does not exist.
            DataError: the file is not available, or its checksum is wrong or not declared.
        """
        code = self.codes.get(language, language)
        url, place = self.url and self.url.format(language=code), self.mirror.format(language=code)
        expected = self.sha256[language] if isinstance(self.sha256, dict) else self.sha256
        path = verified(url, self.made, place, expected, mirror)
        member = self.member and self.member.format(language=code)
        column = self.columns.index(language) if self.columns else None
        return Text(path, url or self.made, member, column, len(self.columns), self.lines, self.shortcuts)


@dataclass(frozen=True)
class Text:
    """One side of a parallel text: a local file, its origin, and the position of the sentences in the file.

    Attributes:
        path: the file.
        url: its URL, or how it was made.
        member: the member of a zip or tar.
        column: the column of a tab-separated table, from 0.
        columns: the number of the table's columns.
        span: first line to read, and the one after the last, from 0.
        shortcuts: whether the marks of keyboard shortcuts are removed.
    """

    path: Path
    url: str
    member: str | None = None
    column: int | None = None
    columns: int = 0
    span: tuple[int, int] | None = None
    shortcuts: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the sentences.

        Raises:
            DataError: the file is damaged, lacks the member, is not UTF-8, or a line has another number of columns.
        """
        first, end = self.span or (0, None)
        for number, line in enumerate(islice(self._whole_lines(), first, end), first + 1):
            cells = line.split("\t") if self.column is not None else []
            if len(cells) != self.columns:
                raise DataError(
                    f"{self.name}, line {number}: expected {self.columns} tab-separated columns, got {len(cells)}; "
                    f"fix the line, or columns: in the file's declaration"
                )
            sentence = line if self.column is None else cells[self.column]
            yield without_shortcuts(sentence) if self.shortcuts else sentence

    @property
    def name(self) -> str:
        """The file's name in messages."""
        return f"{self.path}: {self.member}" if self.member else str(self.path)

    def _whole_lines(self) -> Iterator[str]:
        if self.member is None and not packed.is_packed(self.path):
            lines = read_lines(self.path)
            yield from sgm_segments(lines, self.name) if self.path.suffix in SGM else lines
            return
        with packed.opened(self.path, self.member) as stream:
            lines = decode_lines(stream, self.name)
            yield from (
                sgm_segments(lines, self.name) if packed.bare_suffix(self.member or self.path.name) in SGM else lines
            )


def holds(part: Slice, sentence: str) -> bool:
    """Return whether a sentence is in a slice; sentences with the same `key` are in the same slice."""
    digest = hashlib.sha256(key(sentence).encode()).digest()
    first, end = (bound * 2**64 for bound in part.per_mille)
    return first <= int.from_bytes(digest[:8], "big") * 1000 < end


def key(sentence: str) -> str:
    """Return a sentence without case, punctuation, spaces and compatibility forms, to find duplicates.

    ``"Who's there?"`` and ``"WHOS THERE"`` have the same key. The key of a sentence without letters and digits is the
    sentence itself.
    """
    return unicodedata.normalize("NFKC", sentence).casefold().translate(_LETTERS) or sentence


def without_shortcuts(text: str) -> str:
    """Remove marks of keyboard shortcuts from an interface string: ``Rena_me`` → ``Rename``, ``फ़ाइल (F)`` → ``फ़ाइल``.

    A mark is the only ``_``, ``&`` or ``~`` of a word, before a small Latin letter and after any Latin letter; ``&&``
    stands for ``&``. After Devanagari, a mark is a letter in brackets. Rare names that look like this, such as
    ``input_token``, lose their ``_`` too.
    """
    return _SHORTCUT_AFTER.sub("", _SHORTCUT.sub(r"\1\2", text)).replace("&&", "&")


def verified(
    url: str | None, made: str, place: str, expected: str | None, mirror: str | Path | None, pinned: bool = True
) -> Path:
    """Return a file from a mirror, or from the user's cache, into which it is downloaded.

    Args:
        url: its address; None: only mirrors have it.
        made: how the file was made, if no address has it.
        place: its path below the mirror and the cache.
        expected: its SHA-256.
        mirror: the folder; None: NMT_MIRROR, else the network.
        pinned: whether a file without an expected checksum is refused.

    Raises:
        ConfigError: the mirror folder does not exist.
        DataError: the file is not available, or its checksum is wrong or not declared.
    """
    mirror = mirror or os.environ.get("NMT_MIRROR")
    if not mirror and not url:
        raise DataError(
            f"{place}: no URL has this file, {made}; put it below a folder at this path, and name that folder in "
            f"mirror: or NMT_MIRROR"
        )
    if not mirror:
        path = _downloaded(cast("str", url), place, expected)
    elif not Path(mirror).is_dir():
        raise ConfigError(f"mirror: {mirror}: no such folder; fix mirror: or NMT_MIRROR, or unset both to download")
    else:
        remedy = (
            f"put the file from {url} there, or unset mirror: and NMT_MIRROR to download it"
            if url
            else f"put the file there: {made}"
        )
        path = _mirrored(Path(mirror, place), remedy, expected)
    if pinned and expected is None:
        raise _unpinned(path)
    return path


def _mirrored(path: Path, remedy: str, expected: str | None) -> Path:
    if not path.is_file():
        raise DataError(f"{path}: the mirror has no such file; {remedy}")
    if expected and (got := sha256(path)) != expected:
        raise DataError(f"{path}: wrong checksum: expected SHA-256 {expected}, got {got}; {remedy}")
    return path


def _unpinned(path: Path) -> DataError:
    return DataError(
        f"{path}: no checksum is declared for this file, because nmt's authors could not download it; its SHA-256 is "
        f"{sha256(path)}: if you trust the file, write this as its sha256: in nmt/corpora/corpora.yaml"
    )


def _downloaded(url: str, name: str, expected: str | None) -> Path:
    """Download into the user's cache, which has the layout of a mirror; only verified files get their final names."""
    import pooch
    import requests

    cache = Path(pooch.os_cache("nmt"))
    known = {name: f"sha256:{expected}" if expected else None}
    downloads = pooch.create(cache, "", registry=known, urls={name: url}, retry_if_failed=RETRIES)
    remedy = f"or put {name} into a folder and name that folder in mirror: or NMT_MIRROR"
    try:
        path = Path(downloads.fetch(name, progressbar=sys.stderr.isatty()))
    except requests.RequestException as error:
        raise DataError(
            f"{cache / name}: cannot download {url}: {error}; check the network and run again, {remedy}"
        ) from None
    except ValueError as error:
        got = re.search(r"but got (\w+)", str(error))
        raise DataError(
            f"{cache / name}: wrong checksum of {url}: expected SHA-256 {expected}, "
            f"got {got[1] if got else error}; the file changed on the server or on its way: run again, {remedy}"
        ) from None
    return path
