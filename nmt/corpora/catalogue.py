"""Corpora by name: downloadable ones (corpora.yaml), built-in ones (scenes, copy), and the user's own files."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nmt.config.choices import LANGUAGE
from nmt.config.corpus.sources import CustomCorpus, Slice, sources_with
from nmt.config.problems.words import nearest
from nmt.config.system import System
from nmt.config.types import Name, Strict
from nmt.config.yaml import parse
from nmt.corpora.overlap import HeldOut
from nmt.corpora.own import write_custom
from nmt.corpora.parts import aligned, named_parts, write_split
from nmt.corpora.pictured import PictureArchive
from nmt.corpora.sources import Source, Text, holds
from nmt.system.errors import ConfigError
from nmt.system.files import atomic_directory, sha256, write_json
from nmt.system.lines import count_lines

_BUILT_IN: dict[str, dict[str, Sequence[str]]] = {
    "scenes": dict.fromkeys(("train", "valid", "test", "test_ambiguous"), ("en", "de", "fr")),
    "copy": dict.fromkeys(("train", "valid", "test", "test_longer"), ("src", "tgt")),
}
"""The generated corpora, with the languages of each split."""
TRAINING = ("train", "valid")
"""The splits that are not test sets."""
TRAIN_SAMPLE = "train_sample"
"""The test set that `nmt.text.sample` draws from the training text."""

Sources = Annotated[list[Source], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]


class Declared(Strict):
    """A corpus that can be downloaded; corpora.yaml explains its keys."""

    title: str
    licence: str = Field("", description="licence of every source that names none")
    splits: dict[Name, Sources] = Field({}, description="train, valid, and test sets")
    join: list[Name] = Field([], description="corpora whose training and validation text this corpus joins, in order")
    tests: list[Name] = Field([], description="other corpora whose test sets its systems can be scored on")
    disjoint: bool = Field(False, description="training shares no sentence with validation or any test set")
    together: bool = Field(False, description="line n of all sources has one topic; a limit applies to each source")
    descriptions: Name | None = Field(None, description="corpus with several descriptions of what each line describes")
    pictures: PictureArchive | None = Field(None, description="pictures of some lines; the corpus has no other lines")


class _Catalogue(Strict):
    corpora: dict[Name, Declared]


@dataclass(frozen=True)
class _Part:
    """The text of one source in a split: both sides, or one of monolingual text. A slice or numbers select lines."""

    sides: tuple[Text, ...]
    licence: str
    selected: tuple[Slice, Text] | None = None
    numbers: Container[int] | None = None

    @property
    def name(self) -> str:
        """The source's name in messages."""
        return self.sides[0].name

    def describe(self, codes: Sequence[str]) -> dict[str, Any]:
        """Return ``url``, by language, and ``licence``."""
        return {"url": {code: side.url for code, side in zip(codes, self.sides, strict=True)}, "licence": self.licence}

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the sentences of each line, one per side; raises DataError if the files do not align."""
        texts = (*self.sides, *(self.selected[1:] if self.selected else ()))
        for number, line in enumerate(aligned([(text.path, text.lines()) for text in texts])):
            if self.numbers is not None and number not in self.numbers:
                continue
            if self.selected is None or holds(self.selected[0], line[-1]):
                yield line[: len(self.sides)]


@cache
def declared() -> dict[str, Declared]:
    """Return the downloadable corpora by name, with the splits of joined corpora filled in."""
    text = resources.files("nmt.corpora").joinpath("corpora.yaml").read_text(encoding="utf-8")
    return resolve(parse(_Catalogue, text, "corpora.yaml").corpora)


def resolve(corpora: Mapping[str, Declared]) -> dict[str, Declared]:
    """Fill in the training and validation sources of corpora that join others; raises ConfigError for unknown names."""
    for name, corpus in corpora.items():
        for other in (*corpus.join, *corpus.tests, *([corpus.descriptions] if corpus.descriptions else [])):
            if other not in corpora:
                raise _unknown(f"corpus in corpora.yaml's {name}", other, list(corpora))
        sets = [split for other in (name, *corpus.tests) for split in corpora[other].splits if split not in TRAINING]
        if len(set(sets)) < len(sets):
            raise ConfigError(f"corpora.yaml: {name}: two test sets have the same name: {', '.join(sets)}; rename one")
    return {name: _joined(corpus, [corpora[part] for part in corpus.join]) for name, corpus in corpora.items()}


def _joined(corpus: Declared, parts: Sequence[Declared]) -> Declared:
    if not parts:
        return corpus
    joined = {
        split: [
            source.model_copy(update={"licence": source.licence or part.licence})
            for part in parts
            for source in part.splits[split]
        ]
        for split in TRAINING
    }
    return corpus.model_copy(update={"splits": joined | corpus.splits})


def names() -> list[str]:
    """Return the names of all corpora that need no configuration."""
    return [*_BUILT_IN, *declared()]


def splits(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """Return a corpus's own splits that exist in all these languages: ``train``, ``valid``, then the test sets.

    Args:
        name: the corpus.
        languages: source and target, e.g. ``en-de``; or one, e.g. ``en``, for monolingual text without ``valid``.
        custom: the user's declaration, if the corpus is their own.

    Raises:
        ConfigError: unknown corpus or language; the message names the nearest one. Or the corpus has training and
            validation text, but only one of them in these languages, or no text at all.
    """
    sides = _available(name, custom)
    pair = _sides(name, languages, sides)
    ordered = [*(split for split in TRAINING if split in sides), *(split for split in sides if split not in TRAINING)]
    own = custom.splits if custom else {}
    available = [s for s in ordered if (sources_with(own[s], pair) if custom else set(pair) <= set(sides[s]))]
    lacking = [split for split in TRAINING[: len(pair)] if split in sides and split not in available]
    if lacking and (not available or set(TRAINING) & set(available)):
        raise ConfigError(f"corpus '{name}' has no {lacking[0]} text for {languages}; add it, or choose another pair")
    return available


def check_known(name: str, own: Iterable[str]) -> None:
    """Raise ConfigError, which names the nearest corpus, if nmt and the user's ``own`` corpora have no such name."""
    if name not in (known := [*names(), *own]):
        raise _unknown("corpus", name, known, "; your own goes under corpora: in config.yaml")


def check_trainable(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """Return the same as `splits`; raises ConfigError also if a corpus has no training text."""
    available = splits(name, languages, custom)
    if "train" not in available:
        without = f" for {languages}" if "train" in _available(name, custom) else ""  # other pairs have training text
        raise ConfigError(f"corpus '{name}' has test sets only{without}, nothing to train on; choose another")
    return available


def names_of_parts(system: System, custom: CustomCorpus | None) -> list[str]:
    """Return the names of the parts of a system's training text, added translations included; for training.mixing.

    Args:
        system: of one pair of languages.
        custom: the user's declaration, if the corpus is their own.
    """
    sources = sources_with(custom.splits["train"], system.languages.split("-")) if custom else []
    own = [source.name or system.corpus for source in sources] or [system.corpus]
    added = [f"{mixture.added_direction}_translation" for mixture in reversed(system.mixtures)]
    return list(dict.fromkeys([*own, *added]))


def test_sets(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """Return a corpus's test sets in these languages: its own, then those of the corpora in ``tests``.

    Raises:
        ConfigError: as `splits` does.
    """
    own = splits(name, languages, custom)
    others = declared()[name].tests if custom is None and name in declared() else []
    pair = set(languages.split("-"))
    added = [split for other in others for split, known in _available(other, None).items() if pair <= set(known)]
    return [split for split in (*own, *added) if split not in TRAINING]


def with_corpus_of(system: System, split: str) -> System:
    """Return the system with the corpus that has a split: its own corpus, or the one that has this test set."""
    corpus = declared().get(system.corpus)
    if corpus is None or split in corpus.splits:
        return system
    owners = [name for name in corpus.tests if split in declared()[name].splits]
    return system.without_added(corpus=owners[0]) if owners else system


def fetch(
    name: str,
    languages: str,
    out: Path,
    *,
    mirror: Path | None = None,
    limit: int | None = None,
    custom: CustomCorpus | None = None,
    checksums: Path | None = None,
) -> None:
    """Write a corpus's raw text atomically: ``{split}.{language}`` for each split and language, and ``corpus.json``.

    Args:
        name: the corpus.
        languages: source and target, e.g. ``en-de``; or one, e.g. ``en``, for monolingual text.
        out: the folder to write.
        mirror: folder with the files of downloadable corpora; None: the variable NMT_MIRROR, otherwise their URLs.
        limit: keep only the first lines of each split.
        custom: the user's declaration, if the corpus is their own.
        checksums: file that records the checksums of what the user's corpus downloads; None: nothing is recorded.

    Raises:
        ConfigError: as `splits` does; or the mirror folder or a file of the user does not exist.
        DataError: a file is not available, is damaged, empty, not UTF-8, or does not align with its other side.
    """
    available = splits(name, languages, custom)
    with atomic_directory(out, "corpus.json") as part:
        if custom is None and name in _BUILT_IN:
            _generate(name, languages, part, limit)
            sources = {split: [{"url": dict.fromkeys(languages.split("-"), "built in")}] for split in available}
        elif custom:
            sources = write_custom(name, custom, languages, part, limit, mirror, checksums)
        else:
            sources = _write_declared(name, languages, available, part, mirror, limit)
        together = {"together": True} if custom is None and name in declared() and declared()[name].together else {}
        write_json(part / "corpus.json", _describe(name, languages, part, sources, custom) | together)


def pictured() -> list[str]:
    """Return the names of the corpora that come with pictures."""
    return ["scenes", *(name for name, corpus in declared().items() if corpus.pictures)]


def write_pictures(name: str, out: Path, limit: int | None = None, mirror: Path | None = None) -> None:
    """Write the pictures of a corpus atomically, and ``{split}.txt`` with their names, one per line of the text.

    Args:
        name: the corpus; those of scenes are drawn, others are unpacked.
        out: folder to write.
        limit: write only the first pictures of each split.
        mirror: folder with the pictures of corpora that are not drawn; None: the variable NMT_MIRROR.

    Raises:
        ConfigError: the corpus comes without pictures, or the mirror folder does not exist.
        DataError: the mirror has no such file, or its checksum is wrong.
    """
    if name not in pictured():
        raise _unknown("corpus with pictures", name, pictured())
    if archive := None if name == "scenes" else declared()[name].pictures:
        archive.unpack(out, limit, mirror)
        return
    from nmt.corpora.scenes import write_pictures as draw_pictures

    draw_pictures(out, limit)


def _generate(name: str, languages: str, folder: Path, limit: int | None) -> None:
    if name == "scenes":
        from nmt.corpora.scenes import write_corpus
    else:
        from nmt.corpora.copy_task import write_corpus
    write_corpus(folder, languages, limit)


def _available(name: str, custom: CustomCorpus | None) -> dict[str, Sequence[str]]:
    """Return the languages of each split; raises ConfigError for an unknown corpus or a name that is not allowed."""
    if custom is not None:
        if name in names():
            raise ConfigError(f"corpora.{name}: nmt has a corpus of this name already; choose another")
        if clash := {*TRAINING, TRAIN_SAMPLE, "model"} & set(custom.tests):
            raise ConfigError(f"corpora.{name}.tests.{clash.pop()}: this name is reserved; choose another")
        return {split: [code for each in sources for code in each.sides] for split, sources in custom.splits.items()}
    if name in _BUILT_IN:
        return dict(_BUILT_IN[name])
    check_known(name, ())
    return {split: _shared(sources) for split, sources in declared()[name].splits.items()}


def _shared(sources: Sequence[Source]) -> list[str]:
    """Return the languages that all sources have."""
    return [code for code in sources[0].languages if all(code in source.languages for source in sources)]


def _sides(name: str, languages: str, sides: Mapping[str, Sequence[str]]) -> list[str]:
    """Split and check ``languages``: source and target, or one language of monolingual text."""
    if not re.fullmatch(f"{LANGUAGE}(-{LANGUAGE})?", languages):
        raise ConfigError(f"languages: expected source-target, e.g. en-de, or one language, got '{languages}'")
    pair = languages.split("-")
    known = sorted({language for side in sides.values() for language in side})
    for language in pair:
        if language not in known:
            raise _unknown(f"language of corpus '{name}'", language, known)
    if len(set(pair)) < len(pair):
        raise ConfigError(f"languages: expected two different languages, got '{languages}'")
    return pair


def _unknown(what: str, word: str, allowed: Sequence[str], more: str = "") -> ConfigError:
    near = nearest(word, list(allowed))
    return ConfigError(f"unknown {what}: '{word}'{near}; expected one of {', '.join(allowed)}{more}")


def _declared_parts(corpus: Declared, split: str, languages: str, mirror: Path | None) -> list[_Part]:
    """Return the sources of a split of a downloadable corpus, with verified files."""
    parts = []
    for source in corpus.splits[split]:
        sides = tuple(source.text(language, mirror) for language in languages.split("-"))
        selected = (source.slice, source.text(source.slice.by, mirror)) if source.slice else None
        numbers = corpus.pictures.of_split(split, mirror) if corpus.pictures else None
        parts.append(_Part(sides, source.licence or corpus.licence, selected, numbers))
    return parts


def _write_declared(
    name: str, languages: str, available: Sequence[str], out: Path, mirror: Path | None, limit: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Write the splits of a downloadable corpus and return their sources.

    Training comes last: if the corpus is disjoint, held-out sentences are dropped from it.
    """
    corpus, sources = declared()[name], {}
    parts = {split: _declared_parts(corpus, split, languages, mirror) for split in available}
    held_out = _test_sentences(name, languages, mirror) if corpus.disjoint else None
    for split in reversed(available):
        most = limit * len(parts[split]) if limit and corpus.together else limit
        excluded = held_out if split in TRAINING else None
        sources[split] = write_split(parts[split], split, languages, out, most, excluded)
        if held_out and split == "valid":
            held_out.add(chain.from_iterable(part.lines() for part in parts[split]))
    return {split: sources[split] for split in available}


def _test_sentences(name: str, languages: str, mirror: Path | None) -> HeldOut:
    """Collect the sentences of all test sets that a corpus's systems can be scored on."""
    held_out, corpora = HeldOut(), [declared()[other] for other in (name, *declared()[name].tests)]
    for corpus in corpora:
        for split, sources in corpus.splits.items():
            if split not in TRAINING and set(languages.split("-")) <= set(_shared(sources)):
                for part in _declared_parts(corpus, split, languages, mirror):
                    held_out.add(part.lines())
    return held_out


def _describe(
    name: str, languages: str, folder: Path, sources: Mapping[str, list[dict[str, Any]]], custom: CustomCorpus | None
) -> dict[str, Any]:
    """Return corpus.json: ``lines`` and ``sha256`` describe the text in ``folder``, ``sources`` its origin."""

    def file(split: str, language: str) -> dict[str, Any]:
        path = folder / f"{split}.{language}"
        url = " ".join(dict.fromkeys(source["url"][language] for source in sources[split]))
        return {"lines": count_lines(path), "sha256": sha256(path), "url": url}

    synthetic = custom is None and name in _BUILT_IN
    licences = dict.fromkeys(source["licence"] for split in sources.values() for source in split if not synthetic)
    parts = named_parts(name, sources.get("train", []))
    return {
        "corpus": name,
        "languages": languages,
        "licence": "CC0-1.0" if synthetic else "; ".join(licences),
        "splits": {split: {language: file(split, language) for language in languages.split("-")} for split in sources},
        "sources": sources,
        "synthetic": synthetic,
        **({"declared": custom.fingerprint} if custom else {}),
        **({"parts": parts} if parts else {}),
    }
