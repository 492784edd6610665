"""Configuration of the user's own corpora: files and other sources of parallel text."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from nmt.config.choices import LANGUAGE
from nmt.config.types import SHA256, Count, Different, Language, Name, Strict, UserPath, matching
from nmt.system.files import digest

REMOTE = r"(https?://|mtdata:|sacrebleu:)"
"""Beginning of the name of a text that is not a file of the user."""
Hash = Annotated[str, matching(SHA256, "64 hexadecimal digits")]
NonEmpty = Annotated[str, Field(min_length=1)]
Format = Literal["text", "tsv", "csv", "tmx", "xliff", "jsonl", "parquet", "xml"]


class Slice(Strict):
    """A part of a text, chosen by the hash of each sentence in one language, so the order of lines has no effect.

    In your own corpora, a pair with an empty side is in no slice.
    """

    by: Language = Field(description="the language whose sentences choose")
    per_mille: tuple[int | float, int | float] = Field(  # a whole number stays one, so digests do not change
        description="begin and end, of 1000 parts; large corpora need fractions, e.g. [0, 0.02]"
    )

    @model_validator(mode="after")
    def _is_a_part(self) -> Self:
        begin, end = self.per_mille
        if not 0 <= begin < end <= 1000:
            raise ValueError(f"per_mille: expected [begin, end] from 0 to 1000, got [{begin}, {end}]")
        return self


def _container(value: Any) -> str:
    return "<list>" if isinstance(value, list) else "<map>"


Columns = Annotated[
    Annotated[list[Language | Literal["_"]], Tag("<list>")] | Annotated[dict[Language, NonEmpty], Tag("<map>")],
    Discriminator(_container),
]


class TextSource(Strict):
    """One text of a split: a file with all languages, or a file for each language.

    Formats: plain text, TSV, TMX, XLIFF, JSON lines, parquet, XML and SGM of WMT, zip files of Moses; packed as .gz,
    .bz2, .xz or .zst.
    """

    source: NonEmpty | None = Field(
        None,
        description="file, https:// address, mtdata:ID, or sacrebleu:NAME with all languages (docs/how-to/sources.md)",
    )
    files: dict[Language, UserPath] = Field({}, description="a file for each language, instead of source")
    name: Name | None = Field(
        None,
        description="name of training text for training.mixing, which several sources may share; null: the corpus's "
        "(docs/how-to/mix-corpora.md)",
    )
    languages: Annotated[list[Language], Different] = Field(
        [], description="languages to read from source; not needed with columns"
    )
    columns: Columns = Field(
        [],
        description="of a table: the language of each column, _ for one that is not read; or the name of each "
        "language's column in the head line",
    )
    codes: dict[Language, NonEmpty] = Field({}, description="the source's own language codes, if they differ from ours")
    member: NonEmpty | None = Field(None, description="file in an archive; {language} stands for the language's code")
    format: Format | None = Field(None, description="format of source, if its name does not say it")
    lines: tuple[Count, Count] | None = Field(
        None, description="pairs to read: the first, and the one after the last, from 0"
    )
    slice: Slice | None = Field(None, description="only these pairs")
    sha256: Hash | None = Field(None, description="checksum that source must have")
    licence: str | None = Field(None, description="licence, if it differs from the corpus's")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.source is None) == (not self.files):
            raise ValueError("expected either source, or a file for each language")
        if self.files and (extra := [key for key in _OF_SOURCE if getattr(self, key)]):
            raise ValueError(f"{extra[0]} goes with source, but a file for each language is given; remove it")
        if not self.sides:
            raise ValueError("languages: which languages does the source have? Add e.g. languages: [en, de]")
        if self.columns and (missing := [code for code in self.languages if code not in self.columns]):
            raise ValueError(f"columns: expected a column for each language, got none for {missing[0]}; add it")
        if self.slice and self.slice.by not in self.sides:
            raise ValueError(f"slice.by: expected one of {', '.join(self.sides)}, got '{self.slice.by}'")
        return self

    @property
    def sides(self) -> list[str]:
        """The languages of the text."""
        return [*self.files] or self.languages or [code for code in self.columns if code != "_"]

    def read_for(self, languages: Iterable[str]) -> list[str]:
        """The languages that are read for text in some languages: these, and that of ``slice.by``."""
        return list(dict.fromkeys([*languages, *([self.slice.by] if self.slice else [])]))

    def local_files(self, languages: Iterable[str]) -> list[Path]:
        """The user's own files that are read for text in some languages; none for downloads."""
        files = [self.files[language] for language in self.read_for(languages) if language in self.files]
        return files + ([Path(self.source).expanduser()] if self.source and not self.is_remote else [])

    def without_paths(self) -> dict[str, Any]:
        """The fields that differ from the defaults, without names of the user's own files."""
        fields = self.non_defaults() | {"files": sorted(self.files)}
        return fields if self.is_remote else fields | {"source": bool(self.source)}

    def of_languages(self, languages: Iterable[str]) -> Self:
        """The same without the files of other languages."""
        return self.model_copy(update={"files": {code: self.files[code] for code in languages if code in self.files}})

    @property
    def is_remote(self) -> bool:
        """Whether the text is downloaded."""
        return bool(self.source and re.match(REMOTE, self.source))

    @property
    def local(self) -> list[Path]:
        """All of the user's own files that the text is read from."""
        return self.local_files(self.files)


_OF_SOURCE = ("languages", "columns", "codes", "member", "format", "sha256")
"""Keys that describe a file with all languages."""
_OF_ANY = {"name", "lines", "slice", "licence"}
"""Keys that may stand beside languages and their files."""


def _listed(value: Any) -> Any:
    """Write the short forms of a split as a list: one source, and maps of languages to files among several sources."""
    if isinstance(value, dict):
        return [_whole(value)] if value.keys() & TextSource.model_fields.keys() else value
    return [_whole(each) for each in value] if isinstance(value, list) else value


def _whole(source: Any) -> Any:
    """Write the short form of a source, languages and their files and perhaps a part, with its key ``files``."""
    fields = TextSource.model_fields.keys()
    if not isinstance(source, dict) or source.keys() & {"source", "files"} or not source.keys() - fields:
        return source
    files = {key: value for key, value in source.items() if key not in fields}
    beside = {key: value for key, value in source.items() if key in fields}
    if beside.keys() - _OF_ANY and not any(re.fullmatch(LANGUAGE, key) for key in files):
        return source  # a key is misspelt, perhaps source
    return beside | {"files": files}


Split = Annotated[
    Annotated[dict[Language, UserPath], Tag("<map>")] | Annotated[list[TextSource], Tag("<list>")],
    Discriminator(_container),
    BeforeValidator(_listed),
]
"""A file for each language, or a list of sources that follow one another."""


def sources_of(split: Split) -> list[TextSource]:
    """The sources of a split."""
    return split if isinstance(split, list) else [TextSource(files=split)] if split else []


def sources_with(sources: Iterable[TextSource], languages: Iterable[str]) -> list[TextSource]:
    """Return the sources of a split that have these languages; those of other pairs are not read."""
    return [source for source in sources if set(languages) <= set(source.sides)]


class CustomCorpus(Strict):
    """Your own text: for each split one file per language, UTF-8 or compressed, one sentence per line; or sources.

    Text in one language needs no ``valid``; it can be translated for back_translation and forward_translation.
    """

    train: Split = Field(description="training text: a file per language, a source, or a list of sources")
    valid: Split = Field({}, description="validation text, like train")
    tests: dict[Name, Split] = Field({}, description="test sets by name, each like train")
    disjoint: bool | Literal["all"] = Field(
        False,
        description="leave out training pairs that share a sentence with validation or test text; "
        "all: and validation pairs that share one with test text",
    )
    licence: str = Field("not stated", description="licence of the text, shown with its scores")

    @property
    def splits(self) -> dict[str, list[TextSource]]:
        """The sources of each split."""
        return {name: sources_of(split) for name, split in self._named().items()}

    @property
    def local(self) -> list[Path]:
        """All files of the user that the corpus is read from."""
        return [file for sources in self.splits.values() for source in sources for file in source.local]

    @property
    def fingerprint(self) -> str:
        """A digest of the declaration without the user's own paths; their files may lie elsewhere."""
        return digest(
            {"disjoint": self.disjoint}
            | {name: [source.without_paths() for source in sources] for name, sources in self.splits.items()}
        )

    def of_languages(self, languages: Sequence[str]) -> Self:
        """The same with only what text in these languages is read from."""
        kept = {
            name: [source.of_languages(languages) for source in chosen]
            for name, sources in self.splits.items()
            if (chosen := sources_with(sources, languages))
        }
        sides = {"train": kept.pop("train", []), "valid": kept.pop("valid", [])}
        return self.model_copy(update={**sides, "tests": kept})

    def _named(self) -> dict[str, Split]:
        return {"train": self.train, "valid": self.valid, **self.tests}
