"""Filters that judge each training pair by itself."""

import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import regex

from nmt.config.corpus.filters import (
    EqualFilter,
    Filter,
    LanguageFilter,
    NumbersFilter,
    OpusFilter,
    OverlapFilter,
    PunctuationFilter,
    ScriptFilter,
)
from nmt.corpora.near import NearIndex
from nmt.corpora.overlap import HeldOut, keys
from nmt.corpora.sources import key
from nmt.system.errors import ConfigError
from nmt.system.lines import read_lines
from nmt.text.languages import base

Pair = tuple[str, str]
Verdicts = list[bool]
"""Whether each pair of a batch is kept."""

_SCRIPTS = {
    "Arab": "ar azb ckb fa glk ks lrc mzn pnb ps sd skr ug ur", "Armn": "hy", "Beng": "as bn mni",
    "Cans": "cr iu oj",
    "Cyrl": "ab ady alt av ba be bg bua bxr ce chm cu cv inh kbd kk koi krc kum kv ky lez mdf mhr mk mn mrj myv os ru "
    "sah sr tg tt tyv udm uk xal",
    "Cher": "chr", "Deva": "anp awa bho bgc brx doi gom hi hne kok mag mai mr ne new raj sa", "Ethi": "am ti tig",
    "Geor": "ka xmf", "Grek": "el grc pnt", "Gujr": "gu", "Guru": "pa", "Hang": "ko",
    "Hani": "gan hak lzh wuu yue zh", "Hebr": "he lad yi", "Jpan": "ja", "Khmr": "km", "Knda": "kn tcy", "Laoo": "lo",
    "Mlym": "ml", "Mymr": "ksw mnw my shn", "Nkoo": "nqo", "Olck": "sat", "Orya": "or", "Sinh": "si", "Syrc": "arc syr",
    "Taml": "ta", "Telu": "te", "Tfng": "taq zgh", "Thaa": "dv", "Thai": "th", "Tibt": "bo dz", "Yiii": "ii",
}  # fmt: skip
_SCRIPT_OF = {code: script for script, codes in _SCRIPTS.items() for code in codes.split()}
"""The script (ISO 15924) of each language that is not written in Latin letters."""
_OTHERS = {"Jpan": "Hani Hira Kana", "Kore": "Hang", "Hans": "Hani", "Hant": "Hani", "Aran": "Arab"}
"""Codes of ISO 15924 for other scripts, together or in a style."""
MARKS = str.maketrans({
    "؟": "?", "？": "?", "！": "!", "।": ".", "॥": ".", "。": ".", "．": ".", "։": ".", "۔": ".", "：": ":", "；": ";",
    "؛": ";", "％": "%", "٪": "%", "（": "(", "）": ")", "［": "[", "］": "]", "…": ".",
})  # fmt: skip
"""Marks of other scripts, and the same in Latin script."""
COUNTED = ".?!:;%()[]"
SMALL = 100
"""Greatest number that one side may write as a word."""
_NUMBER = regex.compile(r"\d{1,3}(?:[.,'’٬\s]\d{3})+(?!\d)|\d+")
_SEPARATOR = regex.compile(r"\D")
_IN_NUMBER = regex.compile(r"(?<=\d)[.:](?=\d)")


class Judge(ABC):
    """A filter that judges batches of pairs; made once in each process.

    Args:
        languages: tags of source and target.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = languages

    @abstractmethod
    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        """Return whether each raw pair is kept."""


class _Each(Judge):
    """A judge of single sides: a pair is kept if both sides are."""

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        return [all(map(self.keeps, pair, self.languages)) for pair in pairs]

    @abstractmethod
    def keeps(self, text: str, language: str) -> bool:
        """Return whether a side is good."""


WHERE = "cleaning.filters: kind: language"
"""Begin of the messages about the filter of languages."""


class _Language(_Each):
    def __init__(self, settings: LanguageFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)
        self._minimum, self._shortest, self._identifier = settings.minimum, settings.shortest, identifier(WHERE)
        if unknown := [code for code in languages if base(code) not in self._identifier.labels]:
            raise ConfigError(
                f"{WHERE}: py3langid does not know '{unknown[0]}'; take kind: script, or leave the filter out"
            )

    def keeps(self, text: str, language: str) -> bool:
        if sum(map(str.isalpha, text)) < self._shortest:
            return True
        (found, _), expected = self._identifier.classify(text), base(language)
        return bool(found == expected or dict(self._identifier.rank(text))[expected] >= self._minimum)


@cache
def identifier(where: str) -> Any:
    """Return py3langid's identifier of languages; raises ConfigError, which begins with a place, if it is missing."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise ConfigError(
            f"{where}: expected the package py3langid, got none; python3 envs/install.py run filters"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class _Script(_Each):
    def __init__(self, settings: ScriptFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)
        self._share = settings.share
        self._letters = {code: _letters(settings.scripts.get(code), code) for code in languages}

    def keeps(self, text: str, language: str) -> bool:
        visible = sum(not (character.isspace() or character.isdigit()) for character in text)
        return len(self._letters[language].findall(text)) >= self._share * visible


def scripts_of(tag: str) -> list[str]:
    """Return the scripts (ISO 15924) of a language: that of the tag, such as ``sr_Latn``, or the usual one."""
    named = [part for part in tag.split("_")[1:] if len(part) == 4]
    script = named[0] if named else _SCRIPT_OF.get(base(tag), "Latn")
    return _OTHERS.get(script, script).split()


def _letters(script: str | None, language: str) -> Any:
    """Return the pattern of a letter or mark of a language's script; raises ConfigError for an unknown script."""
    names = [script] if script else scripts_of(language)
    try:
        return regex.compile("[" + "".join(rf"\p{{Script={name}}}" for name in names) + r"\p{Mn}\p{Mc}]")
    except regex.error:
        raise ConfigError(
            "cleaning.filters: kind: script: expected a script of Unicode, such as Latin or Devanagari, got "
            f"'{names[0]}'" + ("" if script else f" in the tag '{language}'; name one under scripts:")
        ) from None


class _Numbers(Judge):
    def __init__(self, settings: NumbersFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)
        self._share = settings.share

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        return [self._agree(*map(_numbers, pair)) for pair in pairs]

    def _agree(self, source: Counter[str], target: Counter[str]) -> bool:
        if not source or not target:  # small numbers may be written as words
            return all(len(number) < 4 and int(number) <= SMALL for number in (*source, *target))
        common, most = _digits(source & target), max(_digits(source), _digits(target))
        return common >= self._share * most


def _numbers(text: str) -> Counter[str]:
    """Count the numbers of a text: ``1,500``, ``1.500`` and ``१५००`` are ``1500``; ``7.25`` is ``7`` and ``25``."""
    found = (_SEPARATOR.sub("", number) for number in _NUMBER.findall(text))
    plain = ("".join(str(unicodedata.digit(digit)) for digit in number) for number in found)
    return Counter(number.lstrip("0") or "0" for number in plain)


def _digits(numbers: Counter[str]) -> int:
    return sum(len(number) * count for number, count in numbers.items())


class _Punctuation(Judge):
    def __init__(self, settings: PunctuationFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)
        self._differences = settings.differences

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        return [self._differ(*map(_marks, pair)) <= self._differences for pair in pairs]

    def _differ(self, source: str, target: str) -> int:
        return sum(abs(source.count(mark) - target.count(mark)) for mark in COUNTED)


def _marks(text: str) -> str:
    """Return a text with the marks of Latin script, and without those inside numbers."""
    return str(_IN_NUMBER.sub("", text.translate(MARKS)))


class _Equal(Judge):
    def __init__(self, _: EqualFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        return [key(source) != key(target) for source, target in pairs]


class _Overlap(Judge):
    """Compares with the sentences of validation and test text, which are in memory."""

    def __init__(self, settings: OverlapFilter, languages: Sequence[str], held_out: Sequence[Sequence[Path]]) -> None:
        super().__init__(languages)
        self._similarity, self._keys = settings.similarity, HeldOut()
        texts = [list(zip(*(read_lines(path) for path in split), strict=True)) for split in held_out]
        lines = [pair for split in texts for pair in split]
        self._keys.add(line for line in lines if any(side.strip() for side in line))
        self._near = [NearIndex([pair[side] for pair in lines if pair[side].strip()]) for side in range(2)]

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        exact = [any(part[1].strip() and part in self._keys.keys for part in keys(pair)) for pair in pairs]
        if self._similarity >= 1:
            return [not found for found in exact]
        near = [self._near[side].holds([pair[side] for pair in pairs], self._similarity) for side in range(2)]
        return [not (found or near[0][row] or near[1][row]) for row, found in enumerate(exact)]


class _Opus(Judge):
    def __init__(self, settings: OpusFilter, languages: Sequence[str]) -> None:
        super().__init__(languages)
        where = f"cleaning.filters: kind: opusfilter: {settings.name}"
        try:
            from opusfilter import filters
        except ImportError:
            raise ConfigError(
                f"{where}: expected the package opusfilter, got none; pip install opusfilter==3.3.1"
            ) from None
        if not hasattr(filters, settings.name):
            known = ", ".join(name for name in dir(filters) if name.endswith("Filter"))
            raise ConfigError(f"{where}: OpusFilter has no such filter; it has {known}")
        try:
            self._filter = getattr(filters, settings.name)(**settings.parameters)
        except Exception as error:  # OpusFilter and its libraries raise many
            raise ConfigError(f"{where}: {error}; fix its parameters, or install what it needs") from None

    def __call__(self, pairs: Sequence[Pair]) -> Verdicts:
        return [bool(self._filter.accept(score)) for score in self._filter.score(pairs)]


JUDGES: dict[type, Callable[..., Judge]] = {
    LanguageFilter: _Language, ScriptFilter: _Script, NumbersFilter: _Numbers, PunctuationFilter: _Punctuation,
    EqualFilter: _Equal, OverlapFilter: _Overlap, OpusFilter: _Opus,
}  # fmt: skip


def judge_of(settings: Filter, languages: Sequence[str], held_out: Sequence[Sequence[Path]]) -> Judge:
    """Make the judge of a filter that judges each pair by itself.

    Args:
        settings: of the filter.
        languages: tags of source and target.
        held_out: files of the sides of validation text and each test set.

    Raises:
        ConfigError: a package is missing, or the filter does not suit the languages.
    """
    more = [held_out] if isinstance(settings, OverlapFilter) else []
    return JUDGES[type(settings)](settings, languages, *more)
