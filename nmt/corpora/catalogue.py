"""Corpora by name: declared in corpora.yaml, built in (scenes, copy), or the user's own files (custom)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from nmt.config.data import CustomCorpus
from nmt.config.system import System
from nmt.config.types import Name, Strict
from nmt.config.yaml import nearest, parse
from nmt.corpora.sources import Slice, Source, Text, key
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import atomic_directory, count_lines, sha256, write_json

_BUILT_IN: dict[str, dict[str, Sequence[str]]] = {
    "scenes": dict.fromkeys(("train", "valid", "test", "test_ambiguous"), ("en", "de", "fr")),
    "copy": dict.fromkeys(("train", "valid", "test", "test_longer"), ("src", "tgt")),
}
"""The corpora that are generated: the languages of their splits."""
TRAINING = ("train", "valid")
"""The splits that are not test sets."""
TRAIN_SAMPLE = "train_sample"
"""The name of the test set that `nmt.text.sample` makes of the training text."""

Sources = Annotated[list[Source], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]


class Declared(Strict):
    """A corpus that can be downloaded; corpora.yaml says what each key means."""

    title: str
    licence: str = Field("", description="of the sources that name none; none needed where all are other corpora's")
    splits: dict[Name, Sources] = Field({}, description="train, valid, and test sets")
    join: list[Name] = Field([], description="corpora whose training and validation texts it has, one after another")
    tests: list[Name] = Field([], description="corpora whose test sets its systems can be scored on too")
    disjoint: bool = Field(False, description="no sentence is in two splits, nor in training and a test set")
    together: bool = Field(False, description="line n of each source is about one thing; a limit is of each source")
    descriptions: Name | None = Field(None, description="a corpus that has several of what each line describes")


class _Catalogue(Strict):
    corpora: dict[Name, Declared]


@dataclass(frozen=True)
class _Part:
    """What one source gives to a split: both sides, or one of text alone, and the lines to take."""

    sides: tuple[Text, ...]
    licence: str
    chosen: tuple[Slice, Text] | None = None

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Sentence and translation, or sentences alone; raises DataError where the files do not align."""
        texts = (*self.sides, *(self.chosen[1:] if self.chosen else ()))
        for line in zip_longest(*(text.lines() for text in texts)):
            if None in line:
                raise misaligned({text.path: sum(1 for _ in text.lines()) for text in texts})
            if self.chosen is None or self.chosen[0].holds(line[-1]):
                yield line[: len(self.sides)]


class _Held:
    """Sentences of each language that a text must not share: of test sets, and for training of validation too."""

    def __init__(self) -> None:
        self.keys: set[tuple[int, str]] = set()

    def add(self, lines: Iterable[tuple[str, ...]]) -> None:
        for line in lines:
            self.keys.update((side, key(sentence)) for side, sentence in enumerate(line))

    def shares(self, line: tuple[str, ...]) -> bool:
        """Whether any side is there already, by its `key`."""
        return any((side, key(sentence)) in self.keys for side, sentence in enumerate(line))


@cache
def declared() -> dict[str, Declared]:
    """The downloadable corpora, by name; those that join others have their splits."""
    text = resources.files("nmt.corpora").joinpath("corpora.yaml").read_text(encoding="utf-8")
    return resolve(parse(_Catalogue, text, "corpora.yaml").corpora)


def resolve(corpora: Mapping[str, Declared]) -> dict[str, Declared]:
    """Give corpora that join others their training and validation sources; raises ConfigError for unknown names."""
    for name, corpus in corpora.items():
        for other in (*corpus.join, *corpus.tests, *([corpus.descriptions] if corpus.descriptions else [])):
            if other not in corpora:
                raise _unknown(f"corpus in corpora.yaml's {name}", other, list(corpora))
        sets = [split for other in (name, *corpus.tests) for split in corpora[other].splits if split not in TRAINING]
        if len(set(sets)) < len(sets):
            raise ConfigError(f"corpora.yaml: {name}: two of its test sets have one name: {', '.join(sets)}")
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
    """Every corpus that needs no configuration."""
    return [*_BUILT_IN, *declared()]


def splits(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """The splits of its own that both languages of a pair have: ``train``, ``valid``, then the test sets.

    Args:
        name: the corpus.
        languages: source and target, e.g. ``en-de``; or one, ``en``, for text alone, which needs no ``valid``.
        custom: the user's declaration where the corpus is their own.

    Raises:
        ConfigError: unknown corpus or language, with the nearest; or languages without training text, unless the whole
            corpus is test sets.
    """
    sides = _available(name, custom)
    pair = _sides(name, languages, sides)
    ordered = [*(split for split in TRAINING if split in sides), *(split for split in sides if split not in TRAINING)]
    found = [split for split in ordered if set(pair) <= set(sides[split])]
    for split in TRAINING[: len(pair)]:
        if split in sides and split not in found:
            raise ConfigError(f"corpus '{name}' has no {split} text for {languages}; add it, or choose another pair")
    return found


def check_known(name: str, own: Iterable[str]) -> None:
    """Raise a ConfigError with the nearest name if a corpus is neither one of nmt's nor of a user's own."""
    if name not in (known := [*names(), *own]):
        raise _unknown("corpus", name, known, "; your own goes under corpora: in config.yaml")


def check_trainable(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """The same as `splits`; raises ConfigError also where a corpus has no training text."""
    found = splits(name, languages, custom)
    if "train" not in found:
        raise ConfigError(f"corpus '{name}' has test sets only, nothing to train on; choose another")
    return found


def test_sets(name: str, languages: str, custom: CustomCorpus | None = None) -> list[str]:
    """Names of the test sets that a system trained on a corpus can be scored on: its own, then those of others.

    Raises:
        ConfigError: as `check_trainable` does.
    """
    own = check_trainable(name, languages, custom)
    others = declared()[name].tests if custom is None and name in declared() else []
    pair = set(languages.split("-"))
    found = [split for other in others for split, known in _available(other, None).items() if pair <= set(known)]
    return [split for split in (*own, *found) if split not in TRAINING]


def with_corpus_of(system: System, split: str) -> System:
    """Give a system the corpus that has a split: its own, or else the one that its corpus takes this test set from."""
    corpus = declared().get(system.corpus)
    if corpus is None or split in corpus.splits:
        return system
    holders = [name for name in corpus.tests if split in declared()[name].splits]
    return system.without_added(corpus=holders[0]) if holders else system


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
        languages: source and target, e.g. ``en-de``; or one, ``en``, for text alone.
        out: the folder to write.
        mirror: take declared files from this folder, else from NMT_MIRROR, else from their URLs.
        limit: keep only the first lines of each split.
        custom: the user's declaration where the corpus is their own.

    Raises:
        ConfigError: as `splits` does, or a mirror folder or custom file that is not there.
        DataError: a file cannot be had, is damaged, empty, not UTF-8, or does not align with its other side.
    """
    found = splits(name, languages, custom)
    with atomic_directory(out, "corpus.json") as part:
        if custom is None and name in _BUILT_IN:
            _generate(name, languages, part, limit)
            made = {split: [{"url": dict.fromkeys(languages.split("-"), "built in")}] for split in found}
        elif custom:
            own = custom_parts(name, custom, languages)
            made = {split: _copy([text], split, languages, part, limit) for split, text in own.items()}
        else:
            made = _compose(name, languages, found, part, mirror, limit)
        together = {"together": True} if custom is None and name in declared() and declared()[name].together else {}
        write_json(part / "corpus.json", _describe(name, languages, part, made, custom) | together)


def _generate(name: str, languages: str, folder: Path, limit: int | None) -> None:
    if name == "scenes":
        from nmt.corpora.scenes import write_corpus
    else:
        from nmt.corpora.copy_task import write_corpus
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
        if clash := {*TRAINING, TRAIN_SAMPLE, "model"} & set(custom.tests):
            raise ConfigError(f"corpora.{name}.tests.{clash.pop()}: not a name for a test set; choose another")
        return {split: list(files) for split, files in _custom_files(custom).items()}
    if name in _BUILT_IN:
        return dict(_BUILT_IN[name])
    if name not in declared():
        raise _unknown("corpus", name, names(), "; your own goes under corpora: in config.yaml")
    return {split: _shared(sources) for split, sources in declared()[name].splits.items()}


def _shared(sources: Sequence[Source]) -> list[str]:
    """The languages that all sources have."""
    return [code for code in sources[0].languages if all(code in source.languages for source in sources)]


def _custom_files(custom: CustomCorpus) -> dict[str, dict[str, Path]]:
    return {"train": custom.train, "valid": custom.valid, **custom.tests}


def _sides(name: str, languages: str, sides: Mapping[str, Sequence[str]]) -> list[str]:
    """Source and target, or the one language of text alone, checked."""
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z]{2,3})?", languages):
        raise ConfigError(f"languages: expected source-target, e.g. en-de, or one, en, got '{languages}'")
    pair = languages.split("-")
    known = sorted({language for side in sides.values() for language in side})
    for language in pair:
        if language not in known:
            raise _unknown(f"language of corpus '{name}'", language, known)
    if len(set(pair)) < len(pair):
        raise ConfigError(f"languages: expected two different ones, got '{languages}'")
    return pair


def _unknown(what: str, word: str, allowed: Sequence[str], more: str = "") -> ConfigError:
    near = nearest(word, list(allowed))
    return ConfigError(f"unknown {what}: '{word}'{near}; expected one of {', '.join(allowed)}{more}")


def custom_parts(name: str, custom: CustomCorpus, languages: str) -> dict[str, _Part]:
    """The splits of a user's own corpus that have these languages; raises ConfigError where a file is missing."""
    splits = _custom_files(custom).items()
    return {
        split: _custom_part(name, custom, split, languages)
        for split, files in splits if set(languages.split("-")) <= set(files)
    }  # fmt: skip


def _custom_part(name: str, custom: CustomCorpus, split: str, languages: str) -> _Part:
    """A split of the user's own."""
    texts = []
    for language in languages.split("-"):
        path = _custom_files(custom)[split][language]
        if not path.is_file():
            where = split if split in TRAINING else f"tests.{split}"
            got = "expected a file, got a folder; name a file in it" if path.is_dir() else "no such file"
            raise ConfigError(f"corpora.{name}.{where}.{language}: {path}: {got}; paths start at {Path.cwd()}")
        texts.append(Text(path, str(path)))
    return _Part(tuple(texts), custom.licence)


def _declared_parts(corpus: Declared, split: str, languages: str, mirror: Path | None) -> list[_Part]:
    """A split of a declared corpus, its files verified."""
    found = []
    for one in corpus.splits[split]:
        sides = tuple(one.text(language, mirror) for language in languages.split("-"))
        chosen = (one.slice, one.text(one.slice.by, mirror)) if one.slice else None
        found.append(_Part(sides, one.licence or corpus.licence, chosen))
    return found


def _compose(
    name: str, languages: str, found: Sequence[str], out: Path, mirror: Path | None, limit: int | None
) -> dict[str, list[dict[str, Any]]]:
    """Write a declared corpus's splits; disjoint ones from the last, so that training lacks what the others hold."""
    corpus, made = declared()[name], {}
    parts = {split: _declared_parts(corpus, split, languages, mirror) for split in found}
    held = _in_tests(name, languages, mirror) if corpus.disjoint else None
    for split in reversed(found):
        most = limit * len(parts[split]) if limit and corpus.together else limit
        made[split] = _copy(parts[split], split, languages, out, most, held if split in TRAINING else None)
        if held and split == "valid":
            held.add(chain.from_iterable(part.lines() for part in parts[split]))
    return {split: made[split] for split in found}


def _in_tests(name: str, languages: str, mirror: Path | None) -> _Held:
    """The sentences of all test sets that a corpus's systems can be scored on."""
    held, corpora = _Held(), [declared()[other] for other in (name, *declared()[name].tests)]
    for corpus in corpora:
        for split, sources in corpus.splits.items():
            if split not in TRAINING and set(languages.split("-")) <= set(_shared(sources)):
                for part in _declared_parts(corpus, split, languages, mirror):
                    held.add(part.lines())
    return held


def _copy(
    parts: Sequence[_Part], split: str, languages: str, folder: Path, limit: int | None, held: _Held | None = None
) -> list[dict[str, Any]]:
    """Write the sides of a split; returns what each part gave.

    A ``limit`` is shared out among the parts, each giving its first lines; all are read and checked the same.
    """
    codes = languages.split("-")
    made, share = [], None if limit is None else max(1, limit // len(parts))
    with ExitStack() as opened:
        paths = [folder / f"{split}.{code}" for code in codes]
        files = [opened.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for part in parts:
            read = dropped = written = 0
            for line in part.lines():
                read += 1
                if held and held.shares(line):
                    dropped += 1
                elif share is None or written < share:
                    for file, sentence in zip(files, line, strict=True):
                        file.write(sentence + "\n")
                    written += 1
            if not read:
                raise DataError(
                    f"{part.sides[0].name}: expected {split} text, got an empty file; give it at least one line"
                )
            urls = {code: text.url for code, text in zip(codes, part.sides, strict=True)}
            made.append({"url": urls, "licence": part.licence, "pairs": read, "dropped": dropped})
    return made


def _describe(
    name: str,
    languages: str,
    folder: Path,
    made: Mapping[str, list[dict[str, Any]]],
    custom: CustomCorpus | None,
) -> dict[str, Any]:
    """corpus.json; ``lines`` and ``sha256`` are of the plain text in ``folder``, ``sources`` say where it is from."""

    def file(split: str, language: str) -> dict[str, Any]:
        path = folder / f"{split}.{language}"
        url = " ".join(dict.fromkeys(source["url"][language] for source in made[split]))
        return {"lines": count_lines(path), "sha256": sha256(path), "url": url}

    synthetic = custom is None and name in _BUILT_IN
    licences = dict.fromkeys(source["licence"] for sources in made.values() for source in sources if not synthetic)
    return {
        "corpus": name,
        "languages": languages,
        "licence": "CC0-1.0" if synthetic else "; ".join(licences),
        "splits": {split: {language: file(split, language) for language in languages.split("-")} for split in made},
        "sources": made,
        "synthetic": synthetic,
    }
