"""Where corpora come from: declared in corpora.yaml, built in (scenes, copy), or the user's own files (custom)."""

import difflib
import gzip
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from nmt.config import CustomCorpus, Language, Name, Strict
from nmt.errors import ConfigError, DataError
from nmt.files import atomic_directory, read_lines, sha256, write_json
from nmt.strict import parse

RETRIES = 2
"""Downloads tried again after a first failure."""

_BUILT_IN: dict[str, dict[str, Sequence[str]]] = {
    "scenes": dict.fromkeys(("train", "valid", "test", "test_ambiguous"), ("en", "de", "fr")),
    "copy": dict.fromkeys(("train", "valid", "test", "test_longer"), ("src", "tgt")),
}
"""The corpora that are generated: the languages of their splits."""


class Split(Strict):
    """The files of one split: ``{language}`` in ``url`` and ``mirror`` stands for the language's code."""

    url: str
    mirror: str
    sha256: dict[Language, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]]


class Declared(Strict):
    """A corpus that can be downloaded; ``lines``: one aligned file a language, one sentence a line."""

    title: str
    licence: str
    format: Literal["lines"] = "lines"
    splits: dict[Name, Split]


class _Catalogue(Strict):
    corpora: dict[Name, Declared]


@dataclass(frozen=True)
class _Source:
    """A local file with one side of a split, and where its bytes came from."""

    path: Path
    url: str


@cache
def declared() -> dict[str, Declared]:
    """The downloadable corpora, by name."""
    text = resources.files("nmt").joinpath("corpora.yaml").read_text(encoding="utf-8")
    return parse(_Catalogue, text, "corpora.yaml").corpora


def names() -> list[str]:
    """Every corpus that needs no configuration."""
    return [*_BUILT_IN, *declared()]


def splits(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """The splits that both languages of a pair have: ``train``, ``valid``, then the test sets.

    Args:
        name: the corpus.
        languages: source and target, e.g. ``en-de``.
        custom: the user's declaration where the corpus is their own.

    Raises:
        ConfigError: unknown corpus or language, with the nearest; or a pair without training text.
    """
    sides = _available(name, custom)
    pair = _pair(name, languages, sides)
    found = [split for split, known in sides.items() if set(pair) <= set(known)]
    for split in ("train", "valid"):
        if split not in found:
            raise ConfigError(f"corpus '{name}' has no {split} text for {languages}; add it, or choose another pair")
    return found


def test_sets(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """Names of the test sets that both languages of a pair have; raises as `splits` does."""
    return [split for split in splits(name, languages, custom) if split not in ("train", "valid")]


def fetch(
    name: str,
    languages: str,
    out: Path,
    *,
    mirror: Path | None = None,
    limit: int | None = None,
    custom: CustomCorpus | None = None,
) -> None:
    """Write a corpus's raw text, one ``{split}.{language}`` each and ``corpus.json``, whole or not at all.

    Args:
        name: the corpus.
        languages: source and target, e.g. ``en-de``.
        out: the folder to write.
        mirror: take declared files from this folder, else from NMT_MIRROR, else from their URLs.
        limit: keep only the first lines of each split.
        custom: the user's declaration where the corpus is their own.

    Raises:
        ConfigError: as `splits` does, or a mirror folder or custom file that is not there.
        DataError: a file cannot be had, is damaged, empty, not UTF-8, or does not align with its other side.
    """
    found = splits(name, languages, custom)
    with atomic_directory(out) as part:
        if custom is None and name in _BUILT_IN:
            _generate(name, languages, part, limit)
            origins = {split: dict.fromkeys(languages.split("-"), "built in") for split in found}
        else:
            source = partial(_custom_source, name, custom) if custom else partial(_declared_source, name, mirror)
            origins = {split: _copy(source, split, languages, part, limit) for split in found}
        write_json(part / "corpus.json", _describe(name, languages, part, origins, custom))


def _generate(name: str, languages: str, folder: Path, limit: int | None) -> None:
    if name == "scenes":
        from nmt.scenes import write_corpus
    else:
        from nmt.copy_task import write_corpus
    write_corpus(folder, languages, limit)


def misaligned(lines: Mapping[Path, int]) -> DataError:
    """The error for two files that must have equally many lines."""
    counts = ", ".join(f"{path} has {count}" for path, count in lines.items())
    return DataError(
        f"misaligned files: expected as many lines in both, but {counts}; each line translates the other's"
    )


def _available(name: str, custom: CustomCorpus | None) -> dict[str, Sequence[str]]:
    """The languages of each split."""
    if custom is not None:
        if name in names():
            raise ConfigError(f"corpora.{name}: this is the name of a corpus that comes with nmt; choose another")
        if clash := {"train", "valid"} & set(custom.tests):
            raise ConfigError(f"corpora.{name}.tests.{clash.pop()}: not a name for a test set; choose another")
        return {split: list(files) for split, files in _custom_files(custom).items()}
    if name in _BUILT_IN:
        return dict(_BUILT_IN[name])
    if name not in declared():
        raise _unknown("corpus", name, names(), "; your own goes under corpora: in config.yaml")
    return {split: list(files.sha256) for split, files in declared()[name].splits.items()}


def _custom_files(custom: CustomCorpus) -> dict[str, dict[str, Path]]:
    return {"train": custom.train, "valid": custom.valid, **custom.tests}


def _pair(name: str, languages: str, sides: Mapping[str, Sequence[str]]) -> list[str]:
    """Source and target, checked."""
    if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", languages):
        raise ConfigError(f"languages: expected source-target, e.g. en-de, got '{languages}'")
    pair = languages.split("-")
    known = sorted({language for side in sides.values() for language in side})
    for language in pair:
        if language not in known:
            raise _unknown(f"language of corpus '{name}'", language, known)
    if pair[0] == pair[1]:
        raise ConfigError(f"languages: expected two different ones, got '{languages}'")
    return pair


def _unknown(what: str, word: str, allowed: Sequence[str], more: str = "") -> ConfigError:
    close = difflib.get_close_matches(word, allowed, 1, 0.5)
    near = f"; did you mean '{close[0]}'?" if close else ""
    return ConfigError(f"unknown {what}: '{word}'{near}; expected one of {', '.join(allowed)}{more}")


def _copy(
    locate: Callable[[str, str], _Source], split: str, languages: str, folder: Path, limit: int | None
) -> dict[str, str]:
    """Write both sides of a split as plain text; returns where each came from."""
    sources = {language: locate(split, language) for language in languages.split("-")}
    lines = {
        source.path: _copy_lines(source.path, folder / f"{split}.{language}", limit)
        for language, source in sources.items()
    }
    for path, count in lines.items():
        if count == 0:
            raise DataError(f"{path}: expected {split} text, got an empty file; give it at least one line")
    if len(set(lines.values())) > 1:
        raise misaligned(lines)
    return {language: source.url for language, source in sources.items()}


def _custom_source(name: str, custom: CustomCorpus, split: str, language: str) -> _Source:
    path = _custom_files(custom)[split][language].expanduser()
    if not path.is_file():
        key = split if split in ("train", "valid") else f"tests.{split}"
        raise ConfigError(f"corpora.{name}.{key}.{language}: {path}: no such file; paths start at {Path.cwd()}")
    return _Source(path, str(path))


def _declared_source(name: str, mirror: Path | None, split: str, language: str) -> _Source:
    """One declared file, its hash verified, from the mirror if there is one, else from its URL."""
    files = declared()[name].splits[split]
    url, place = files.url.format(language=language), files.mirror.format(language=language)
    folder = mirror or os.environ.get("NMT_MIRROR")
    if not folder:
        return _Source(_download(url, place, files.sha256[language]), url)
    if not Path(folder).is_dir():
        raise ConfigError(f"mirror: {folder}: no such folder; mend mirror: or NMT_MIRROR, or unset both to download")
    return _Source(_mirrored(Path(folder, place), url, files.sha256[language]), url)


def _mirrored(path: Path, url: str, expected: str) -> Path:
    remedy = f"put the file from {url} there, or unset mirror: and NMT_MIRROR to download it"
    if not path.is_file():
        raise DataError(f"{path}: the mirror has no such file; {remedy}")
    if (got := sha256(path)) != expected:
        raise DataError(f"{path}: wrong checksum: expected SHA-256 {expected}, got {got}; {remedy}")
    return path


def _download(url: str, name: str, expected: str) -> Path:
    """Fetch into the user's cache, laid out as a mirror is; a file has its final name only once verified."""
    import pooch
    import requests

    cache = Path(pooch.os_cache("nmt"))
    keeper = pooch.create(cache, "", registry={name: f"sha256:{expected}"}, urls={name: url}, retry_if_failed=RETRIES)
    remedy = f"or put {name} into a folder and name that folder in mirror: or NMT_MIRROR"
    try:
        return Path(keeper.fetch(name, progressbar=sys.stderr.isatty()))
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


def _copy_lines(source: Path, out: Path, limit: int | None) -> int:
    """Write the first ``limit`` lines of a text file; returns how many it has (all are checked)."""
    count = 0
    with out.open("w", encoding="utf-8", newline="\n") as stream:
        for line in _text_lines(source, out.parent):
            if limit is None or count < limit:
                stream.write(line + "\n")
            count += 1
    return count


def _text_lines(path: Path, scratch: Path) -> Iterator[str]:
    """The lines of a text file, plain or gzip."""
    if path.suffix != ".gz":
        yield from read_lines(path)
        return
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        plain = Path(folder, path.stem)
        try:
            with gzip.open(path) as packed, plain.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            yield from read_lines(plain)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(f"{path}: expected gzip, got a damaged file ({error}); make or fetch it again") from None
        except DataError as error:  # names the file that the user knows, not the unpacked one
            raise DataError(str(error).replace(str(plain), str(path))) from None


def _describe(
    name: str, languages: str, folder: Path, origins: dict[str, dict[str, str]], custom: CustomCorpus | None
) -> dict[str, Any]:
    """corpus.json; ``lines`` and ``sha256`` are of the plain text in ``folder``."""

    def file(split: str, language: str, url: str) -> dict[str, Any]:
        path = folder / f"{split}.{language}"
        return {"lines": sum(1 for _ in read_lines(path)), "sha256": sha256(path), "url": url}

    licence = custom.licence if custom else declared()[name].licence if name in declared() else "CC0-1.0"
    return {
        "corpus": name,
        "languages": languages,
        "licence": licence,
        "splits": {
            split: {language: file(split, language, url) for language, url in sides.items()}
            for split, sides in origins.items()
        },
        "synthetic": custom is None and name in _BUILT_IN,
    }
