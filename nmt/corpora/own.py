"""The user's own corpora: files and sources of each split, their checks, and what they share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from nmt.config.corpus.sources import CustomCorpus, TextSource, sources_with
from nmt.config.yaml import place
from nmt.corpora.formats import markup, packed, tables
from nmt.corpora.overlap import HeldOut, warn_of_overlap
from nmt.corpora.parts import Part, aligned, write_split
from nmt.corpora.remote import Checksums, Place, download, from_mtdata, from_sacrebleu
from nmt.corpora.sources import Text, holds
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import sha256
from nmt.system.warnings import warn

FORMATS = {
    ".tsv": "tsv", ".csv": "csv", ".tmx": "tmx", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".xml": "xml", ".xlf": "xliff", ".xliff": "xliff", ".sdlxliff": "xliff", ".mxliff": "xliff", ".mqxliff": "xliff",
}  # fmt: skip
"""Formats by suffix. An archive has a file for each language, or one member of such a format."""


def check_files(name: str, custom: CustomCorpus, languages: str, settings: str | None = None) -> None:
    """Reject a corpus that names a file which does not exist; raises ConfigError, with the line of a settings file."""
    codes = languages.split("-")
    for split, sources in custom.splits.items():
        for number, source in enumerate(sources):
            if not set(codes) <= set(source.sides):
                continue
            keys = ["corpora", name, *([split] if split in ("train", "valid") else ["tests", split])]
            where = ".".join(keys) + (f".{number}" if len(sources) > 1 else "")
            read = source.local_files(codes)
            paths = {code: path for code, path in source.files.items() if path in read}
            paths |= {"source": path for path in read if source.source}  # noqa: B035  one at most
            for key, path in paths.items():
                if not path.is_file():
                    got = "expected a file, got a folder; name a file in it" if path.is_dir() else "no such file"
                    forms = [[*keys, *index, *file] for index in ([number], []) for file in (["files", key], [key])]
                    where = place(settings, *forms) if settings else f"{where}.{key}"
                    raise ConfigError(f"{where}: {path}: {got}; paths start at {Path.cwd()}")


@dataclass(frozen=True)
class OwnPart:
    """The text of one source of a user's corpus."""

    source: TextSource
    languages: tuple[str, ...]
    licence: str
    mirror: Path | None
    checksums: Checksums

    @property
    def name(self) -> str:
        """The source's name in messages."""
        return self.source.source or str(self.source.files[self.languages[0]])

    def describe(self, codes: Sequence[str]) -> dict[str, Any]:
        """Return address, licence and checksum of the source, and its name if it has one."""
        urls = {code: self.source.source or str(self.source.files[code]) for code in codes}
        files = {code: self._place().files[code] for code in self.source.read_for(codes)}
        sums = {path: sha256(path) for path in dict.fromkeys(files.values())}
        name = {"name": self.source.name} if self.source.name else {}
        hashes = {code: sums[path] for code, path in files.items()}
        return {"url": urls, "licence": self.licence, "sha256": hashes} | name

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the sentences of each pair that ``lines`` and ``slice`` select; a slice has no empty sides."""
        part, (first, end) = self.source.slice, self.source.lines or (0, None)
        wanted = self.source.read_for(self.languages)
        for row in islice(self._rows(wanted), first, end):
            if part is None or (all(map(str.strip, row)) and holds(part, row[wanted.index(part.by)])):
                yield row[: len(self.languages)]

    def _place(self) -> Place:
        source, name = self.source, self.source.source
        if name is None:
            return Place(source.files)
        kind, _, rest = name.partition(":")
        if kind == "sacrebleu":
            return from_sacrebleu(rest, source.sides, self.mirror)
        if kind == "mtdata":
            return from_mtdata(rest, source.sides, self.mirror, self.checksums)
        remote = kind in ("http", "https")
        path = download(name, source.sha256, self.mirror, self.checksums) if remote else Path(name).expanduser()
        if not remote and source.sha256 and (got := sha256(path)) != source.sha256:
            raise DataError(
                f"{path}: wrong checksum: expected SHA-256 {source.sha256}, got {got}; the file changed: get the old "
                "one, or write the new checksum"
            )
        files, codes = dict.fromkeys(source.sides, path), {code: source.codes.get(code, code) for code in source.sides}
        members = _members(path, source, codes) if packed.is_archive(path) else {}
        return Place(files, members, source.format, list(source.columns), codes)

    def _rows(self, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
        place = self._place()
        paths, members = [place.files[code] for code in languages], [place.members.get(code) for code in languages]
        if (
            self.source.files
            or len(set(zip(place.files.values(), map(place.members.get, place.files), strict=True))) > 1
        ):
            texts = [Text(path, str(path), member) for path, member in zip(paths, members, strict=True)]
            yield from aligned([(Path(text.name), text.lines()) for text in texts])
            return
        path, member = paths[0], members[0]
        suffix = packed.bare_suffix(member or path.name)
        kind = place.format or FORMATS.get(suffix) or ("text" if len(place.files) == 1 else "")
        if not kind:
            raise ConfigError(
                f"{self.name}: expected a name that ends in {', '.join(FORMATS)}, .zip, or that with .gz, .bz2, .xz, "
                f".zst, got '{suffix}'; save a spreadsheet as .csv, say format: in its declaration, or name a file for "
                "each language"
            )
        yield from self._read(kind, path, member, languages, place)

    def _read(
        self, kind: str, path: Path, member: str | None, languages: Sequence[str], place: Place
    ) -> Iterator[tuple[str, ...]]:
        columns = self.source.columns if self.source.columns else place.columns
        keys = columns if isinstance(columns, dict) else {code: place.codes.get(code, code) for code in languages}
        name = f"{path}: {member}" if member else str(path)
        if kind == "parquet":
            yield from tables.read_parquet(path, languages, keys)
            return
        if kind == "text":
            yield from ((line,) for line in Text(path, str(path), member).lines())
            return
        with packed.opened(path, member) as stream:
            if kind in tables.WITH_COLUMNS:
                yield from tables.read_columns(stream, name, kind, languages, columns or self.source.sides)
            elif kind == "jsonl":
                yield from tables.read_jsonl(stream, name, languages, keys)
            elif kind in ("tmx", "xliff"):
                told = partial(_warn, path)
                yield from markup.read_memory(stream, name, kind, languages, place.codes, told)
            else:
                yield from markup.read_test_set(stream, name, languages, place.codes)


def _warn(path: Path, count: int) -> None:
    warn(
        "incomplete units", path, count,
        f"{count:,} translation units lack a language or a translation, and are left out",
        "check the languages of the file, and codes: of the source", scores=False,
    )  # fmt: skip


def _members(path: Path, source: TextSource, codes: dict[str, str]) -> dict[str, str]:
    """Return the archive's member for each language: the declared one, the one that ends in its code, or a table."""
    if source.member:
        return {code: source.member.replace("{language}", theirs) for code, theirs in codes.items()}
    names = packed.safe_members(path)
    found = {
        code: [name for name in names if packed.bare_suffix(name) == f".{theirs}"] for code, theirs in codes.items()
    }
    if all(len(matches) == 1 for matches in found.values()):
        return {code: matches[0] for code, matches in found.items()}
    whole = [name for name in names if packed.bare_suffix(name) in FORMATS]
    if len(whole) == 1:
        return dict.fromkeys(codes, whole[0])
    ends = ", ".join(f".{theirs}" for theirs in codes.values())
    raise DataError(
        f"{path}: expected one file for each of {ends}, or one table, got {', '.join(names[:20]) or 'nothing'}; name "
        "it with member:, where {language} stands for the language's code"
    )


def table_head(path: Path, codes: Sequence[str]) -> tuple[str, list[str]]:
    """Return the format of a file with all languages, and the names or first sentences at its beginning."""
    members: set[str | None] = {None}
    if packed.is_archive(path):
        whole = TextSource(source=str(path), languages=list(codes))
        members = set(_members(path, whole, {code: code for code in codes}).values())
    member = members.pop()
    kind = "" if members else FORMATS.get(packed.bare_suffix(member or path.name), "")
    return kind, tables.head(path, member, kind)


def custom_parts(
    name: str, custom: CustomCorpus, languages: str, mirror: Path | None = None, checksums: Path | None = None
) -> dict[str, list[Part]]:
    """Return the splits of the user's own corpus that have these languages; raises ConfigError if a file is missing."""
    check_files(name, custom, languages)
    codes, recorded = tuple(languages.split("-")), Checksums(checksums)
    return {
        split: [
            OwnPart(source, codes, custom.licence if source.licence is None else source.licence, mirror, recorded)
            for source in chosen
        ]
        for split, sources in custom.splits.items()
        if (chosen := sources_with(sources, codes))
    }


def write_custom(
    name: str,
    custom: CustomCorpus,
    languages: str,
    out: Path,
    limit: int | None,
    mirror: Path | None = None,
    checksums: Path | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Write the splits of the user's own corpus and return their sources; warn of splits that share sentences."""
    parts, held_out = custom_parts(name, custom, languages, mirror, checksums), HeldOut()
    sources: dict[str, list[dict[str, Any]]] = {split: [] for split in parts}
    without = {"all": ["train", "valid"], True: ["train"], False: []}[custom.disjoint]
    for split in reversed(parts):  # the tests first, and the training text last
        sides = parts[split]
        sources[split] = write_split(sides, split, languages, out, limit, held_out if split in without else None)
        if without and split != "train":
            held_out.add(chain.from_iterable(part.lines() for part in sides))
    for split in without:
        read, dropped = (sum(source[key] for source in sources.get(split, [])) for key in ("pairs", "dropped"))
        if read and read == dropped:
            raise DataError(
                f"corpora.{name}: disjoint: {str(custom.disjoint).lower()} leaves none of {read:,} pairs of {split}, "
                "as all share a sentence with held-out text; give other text for one of them"
            )
    warn_of_overlap(name, out, {split: Path(sides[0].name) for split, sides in parts.items()}, languages)
    return sources
