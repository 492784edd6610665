"""Texts of the user that are not files: addresses, identifiers of mtdata, test sets of sacrebleu."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from nmt.corpora.formats import packed
from nmt.corpora.sources import verified
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256, write_json

MISSING = "{name}: expected the package {package}, got none; python3 envs/install.py run {package}"


@dataclass(frozen=True)
class Place:
    """Where the text of a source is: one file with all languages, or a file for each language."""

    files: Mapping[str, Path]  # by language; all the same for one file with all languages
    members: Mapping[str, str] = field(default_factory=dict)  # of an archive, by language
    format: str | None = None
    columns: Sequence[str] = ()
    codes: Mapping[str, str] = field(default_factory=dict)


class Checksums:
    """The checksums of what was downloaded: recorded at the first download, and compared at each later one.

    Args:
        path: JSON file, to be kept with the settings; None: nothing is recorded.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def expected(self, url: str) -> str | None:
        """Return the SHA-256 recorded for an address, or None."""
        return self._recorded().get(url)

    def record(self, url: str, file: Path) -> None:
        """Record a file's checksum, if its address has none."""
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock"):
                known = self._recorded()
                if url not in known:
                    write_json(self._path, dict(sorted({**known, url: sha256(file)}.items())))

    def _recorded(self) -> dict[str, Any]:
        return read_json(self._path) if self._path and self._path.exists() else {}


def download(url: str, expected: str | None, mirror: Path | None, checksums: Checksums) -> Path:
    """Return the file of an address, from a mirror, the user's cache, or the network.

    In a mirror it is at ``host/path``. The checksum is that of the declaration, or else the recorded one.

    Raises:
        DataError: the file is not available, or its checksum is another.
    """
    parts = urlsplit(url)
    place = re.sub(r"[^\w./+-]", "_", f"{parts.netloc}{parts.path}{parts.query and '_' + parts.query}")
    if ".." in Path(place).parts:
        raise ConfigError(f"{url}: expected an address without .., got one; write it in full")
    path = verified(url, "", place, expected or checksums.expected(url), mirror, pinned=False)
    checksums.record(url, path)
    return path


def from_mtdata(name: str, languages: Sequence[str], mirror: Path | None, checksums: Checksums) -> Place:
    """Find a corpus by its identifier in the index of mtdata, e.g. ``OPUS-books-v1-eng-fra``.

    Raises:
        ConfigError: mtdata is missing, or does not know the identifier or the languages.
        DataError: the corpus has a format that nmt does not read, or cannot be downloaded.
    """
    entry, theirs = _mtdata_entry(name, languages)
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    paths = [download(url, None, mirror, checksums) for url in urls]
    order = [theirs.index(language) for language in languages]
    if len(paths) > 1:
        return Place({language: paths[side] for language, side in zip(languages, order, strict=True)})
    files = dict.fromkeys(languages, paths[0])
    kind = entry.in_ext or entry.ext.removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2")
    if kind not in ("txt", "sgm", "tsv", "tmx"):
        raise DataError(
            f"mtdata:{name}: expected text, tsv, tmx or sgm, got {entry.ext} of {kind}; get it with "
            f"`mtdata get`, and name its files"
        )
    members = _members(paths[0], entry.in_paths or [], languages, order, name) if entry.in_paths else {}
    if kind in ("txt", "sgm"):
        return Place(files, members)
    used = entry.cols or tuple(range(len(theirs)))
    columns = ["_"] * (max(used) + 1)
    for side, column in enumerate(used):
        columns[column] = theirs[side]
    return Place(files, members, kind, columns)


def _mtdata_entry(name: str, languages: Sequence[str]) -> tuple[Any, list[str]]:
    """Return an entry of mtdata's index, and our codes of its languages, in its order."""
    home = Path.home() / ".mtdata"  # mtdata keeps its index there
    home.mkdir(exist_ok=True)
    try:
        from mtdata.entry import DatasetId
        from mtdata.index import INDEX
        from mtdata.iso.bcp47 import bcp47
    except ImportError:
        raise ConfigError(MISSING.format(name=f"mtdata:{name}", package="mtdata")) from None
    except Exception as error:  # an interrupted start of mtdata leaves a part of its index
        raise ConfigError(
            f"mtdata:{name}: mtdata cannot read its index ({error!r}); delete {home}/mtdata.index.*, and try again"
        ) from None
    try:
        entry = INDEX.entries[DatasetId.parse(name)]
    except Exception as error:  # mtdata raises Exception itself
        raise ConfigError(
            f"mtdata:{name}: mtdata has no such corpus ({str(error)[:100]}); list them with `mtdata list -l eng-deu`"
        ) from None
    codes = [str(code) for code in entry.did.langs]
    ours = {str(bcp47(language)): language for language in languages}
    if missing := set(ours) - set(codes):
        raise ConfigError(f"mtdata:{name}: expected a corpus with {missing.pop()}, got one of {' and '.join(codes)}")
    return entry, [ours.get(code, "_") for code in codes]


def _members(
    path: Path, patterns: Sequence[str], languages: Sequence[str], order: Sequence[int], name: str
) -> dict[str, str]:
    """Return the archive's member for each language, given a pattern for each side, or one for all."""
    found = {}
    for language, side in zip(languages, order, strict=True):
        pattern = patterns[side] if len(patterns) > 1 else patterns[0]
        matches = [member for member in packed.safe_members(path) if fnmatch(member, pattern)]
        if len(matches) != 1:
            raise DataError(
                f"mtdata:{name}: expected one file {pattern} in {path}, got {', '.join(matches) or 'none'}; get it "
                "with `mtdata get`, and name its files"
            )
        found[language] = matches[0]
    return found


def from_sacrebleu(name: str, languages: Sequence[str], mirror: Path | None) -> Place:
    """Find a test set of sacrebleu, in a mirror's folder ``sacrebleu``, in sacrebleu's cache, or on the network.

    Args:
        name: of the test set, e.g. ``wmt14/full``.
        languages: source and target, or the other way round.
        mirror: folder with the folder ``sacrebleu``, which is laid out like the cache, ``~/.sacrebleu``.

    Raises:
        ConfigError: sacrebleu has no such test set or languages.
        DataError: it cannot be downloaded.
    """
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise ConfigError(f"sacrebleu:{name}: no such test set; list them with `sacrebleu --list`")
    known: Any = DATASETS[name]
    pairs = [pair for pair in known.langpairs if sorted(pair.split("-")) == sorted(languages)]
    wanted = "-".join(languages)
    if not pairs:
        raise ConfigError(f"sacrebleu:{name}: expected {wanted}, got only {', '.join(known.langpairs)}")
    pair = wanted if wanted in pairs else pairs[0]
    place = mirror or os.environ.get("NMT_MIRROR")
    try:
        if place and Path(place, "sacrebleu", name).is_dir():
            stem = Path(place, "sacrebleu", name, f"{name.replace('/', '_')}.{pair}")
            fields = [field.replace(":", "-") for field in known.fieldnames(pair)]
            paths = [Path(f"{stem}.{field}") for field in fields]
        else:
            paths = [Path(path) for path in known.get_files(pair)]
    except Exception as error:  # sacrebleu raises what urllib, zipfile and tarfile do
        raise DataError(
            f"sacrebleu:{name}: cannot be downloaded: {error}; check the network, or put sacrebleu's folder for it "
            f"into ~/.sacrebleu, or into the folder sacrebleu of a mirror"
        ) from None
    source, target = pair.split("-")
    reference = next(path for path in paths if re.search(r"\.ref(-0|-A)?$|\.ref", path.name))
    return Place({source: paths[0], target: reference})
