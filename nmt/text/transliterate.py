"""Devanagari to Latin letters and back, in Harvard-Kyoto, IAST and ITRANS; other text stays unchanged.

The table and the rules give the same letters as Aksharamukha 2.3, which published systems used: the tests compare 10^5
words. Case carries meaning in Harvard-Kyoto and ITRANS, so lowercase a text before transliteration, never after it.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from nmt.config.data import Cleaning
from nmt.text.languages import base

Scheme = Literal["hk", "iast", "itrans"]

DEVANAGARI = ("hi", "mr", "ne", "sa", "bho", "brx", "doi", "kok", "mai")
"""ISO codes of languages that are written in Devanagari."""

CACHED = 2**17
"""Distinct words that a process caches per direction, about 50 MB."""

# Each line: the letter, its vowel sign (vowels only), then Harvard-Kyoto, IAST and ITRANS.
_VOWELS = """
अ - a a a
आ ा A ā A
इ ि i i i
ई ी I ī I
उ ु u u u
ऊ ू U ū U
ऋ ृ R ṛ R^i
ॠ ॄ RR ṝ R^I
ऌ ॢ lR ḷ L^i
ॡ ॣ lRR ḹ L^I
ए े e e e
ऐ ै ai ai ai
ओ ो o o o
औ ौ au au au
ऎ ॆ E ĕ ^e
ऒ ॊ O ŏ ^o
ऍ ॅ aE æ e.c
ऑ ॉ aO ô A.c
एॕ ॕ AE ǣ a.C
ॳ ऺ A ö A
ॴ ऻ A ȫ A
ॶ ॖ u ŭ u
ॷ ॗ U ŭ̄ U
"""
_CONSONANTS = """
क k k k
ख kh kh kh
ग g g g
घ gh gh gh
ङ G ṅ ~N
च c c ch
छ ch ch Ch
ज j j j
झ jh jh jh
ञ J ñ ~n
ट T ṭ T
ठ Th ṭh Th
ड D ḍ D
ढ Dh ḍh Dh
ण N ṇ N
त t t t
थ th th th
द d d d
ध dh dh dh
न n n n
प p p p
फ ph ph ph
ब b b b
भ bh bh bh
म m m m
य y y y
र r r r
ल l l l
व v v v
श z ś sh
ष S ṣ Sh
स s s s
ह h h h
ळ L l̤ L
ऴ Z ḻ zh
ऱ r2 ṟ R
ऩ n2 ṉ ^n
क़ q q q
ख़ qh k͟h K
ग़ g2 ġ G
ज़ z2 z z
ड़ r3 r̤ .D
ढ़ r3h r̤h .Dh
फ़ f f f
य़ Y ẏ Y
"""
_SIGNS = """
ँ ~ m̐ .N
ं M ṃ M
ः H ḥ H
़ Q ̈ Q
ऽ ' ' .a
। . . .
॥ .. .. ..
॑ \\' ̍ \\'
॒ \\_ ̱ \\_
"""
_VIRAMA, _NUKTA, _OM = "\u094d", "\u093c", "ॐ"
_VARIANTS = str.maketrans(
    dict.fromkeys("\u200c\u200d\u0954", "")
    | {chr(0x958 + i): letter + _NUKTA for i, letter in enumerate("कखगजडढफय")}
    | {"ॲ": "ऍ", "ॎ": "े", "ॐ": "ों", "ॹ": "ज" + 2 * _NUKTA}
    | {"ॻ": "ˍग", "ॼ": "ˍज", "ॾ": "ˍड", "ॿ": "ˍब", "ॽ": "ʔ"}
)
"""Other spellings of letters in the table; joiners and the accent have no Latin letter."""
_ITRANS_ALTERNATIVES = re.compile(
    "aa|ii|uu|ee|oo|RRi|RRI|LLi|LLI|AUM|OM|JN|N\\^|chh|shh|kS(?!h)|dny|GY|c\\.[oe]|[OEJxw]|\\.[nmh]"
)
"""Letters that ITRANS reads as if others stood there (``ee`` is ``I``): `to_latin` does not write them for these."""
_UNIT = re.compile(
    f"((?:[कखगजडढफय]{_NUKTA}|[क-ह]){_NUKTA}?)([\u093a\u093b\u093e-\u094d\u0955-\u0957\u0962\u0963]?)|(एॕ|.)", re.DOTALL
)
"""A consonant with its vowel sign or virama, or any other character."""

_DEVANAGARI = re.compile("[\u0900-\u097f][\u0900-\u097f\u200c\u200d]*")
_LETTERS = re.compile("[\u0900-\u0963\u0970-\u097f]+")
_DANDA = re.compile(r"(?<!\.)(?:\.|(\.\.))(?!\S)")
# Entities such as `&apos;` are not words; an ITRANS word may contain full stops.
_WORDS: dict[Scheme, re.Pattern[str]] = {
    "hk": re.compile(r"&\w+;|(?<![^\W\d])[A-Za-z][A-Za-z0-9~'_]*(?!\w)"),
    "iast": re.compile("&\\w+;|[^\\W\\d_](?:[^\\W\\d_]|['_\u0300-\u036f])*"),
    "itrans": re.compile(r"&\w+;|(?<![^\W\d])(?:[A-Za-z~^_]|\.(?=[DNacC]))+(?!\w)"),
}


def scheme(recipe: Cleaning, language: str) -> Scheme | None:
    """Return the Latin scheme that a recipe uses for a language, or None if the language keeps its script."""
    return recipe.transliterate if recipe.transliterate != "none" and base(language) in DEVANAGARI else None


def to_latin(text: str, scheme: Scheme) -> str:
    """Write the Devanagari of a text in Latin letters: ``नहीं था।`` → ``nahIM thA.``; its digits become 0 to 9."""
    return _DEVANAGARI.sub(lambda word: _latin(word[0], scheme), text)


def to_devanagari(text: str, scheme: Scheme) -> str:
    """Undo `to_latin` as far as possible: ``nahIM thA.`` → ``नहीं था।``, in Unicode normal form C.

    A word that cannot come from Devanagari (``PDF``) stays. Any other word becomes Devanagari, even if the original
    text had it in Latin letters. A full stop after a word becomes a danda. Digits stay 0 to 9. Joiners are lost.
    """
    text = _WORDS[scheme].sub(lambda word: _word_back(word[0], scheme), text)
    return _DANDA.sub(lambda stop: "॥" if stop[1] else "।", text)


@dataclass(frozen=True)
class _Table:
    """The letters of one scheme, by their Devanagari."""

    vowels: dict[str, str]
    vowel_signs: dict[str, str]
    consonants: dict[str, str]
    signs: dict[str, str]
    unaspirated: tuple[str, ...]
    """Latin consonants that are another letter together with an h."""


@cache
def _table(scheme: Scheme) -> _Table:
    column = {"hk": -3, "iast": -2, "itrans": -1}[scheme]
    vowels, consonants, signs = ([row.split() for row in t.split("\n") if row] for t in (_VOWELS, _CONSONANTS, _SIGNS))
    letters = {row[0]: row[column] for row in consonants}
    return _Table(
        {row[0]: row[column] for row in vowels},
        {row[1]: row[column] for row in vowels},
        letters,
        {row[0]: row[column] for row in signs} | {chr(0x966 + digit): str(digit) for digit in range(10)},
        tuple(letters[letter] for letter in "कगचजटडतदपब"),
    )


@lru_cache(CACHED)
def _latin(word: str, scheme: Scheme) -> str:
    """Write one Devanagari word in Latin letters: a consonant without vowel sign and virama has the vowel a.

    The sign ``_`` keeps apart what would be read as one letter: ``k_h``, ``a_i``, and a vowel sign after a virama.
    """
    table, latin, before = _table(scheme), "", ""
    for consonant, vowel, other in _UNIT.findall(word.translate(_VARIANTS)):
        if consonant:
            apart = before == _VIRAMA and consonant[0] == "ह" and latin.endswith(table.unaspirated)
            plain = table.consonants.get(consonant) or table.consonants[consonant[:-1]] + table.signs[_NUKTA]
            latin += "_" * apart + plain + table.vowel_signs.get(vowel, "" if vowel else "a")
            before = vowel or ("a" if consonant in table.consonants else "")
        elif other in table.vowel_signs:
            latin += "_" * (before == _VIRAMA) + table.vowel_signs[other]
            before = other
        elif other == _VIRAMA:  # it kills no vowel a
            short = scheme == "iast" and latin.endswith("u")
            latin = latin[:-1] + "_" * (before == "ु") + "ŭ" if short else latin
            before = ""
        else:
            letter = table.vowels.get(other) or table.signs.get(other, other)
            latin += "_" * (before in ("a", "अ") and letter in ("i", "u")) + letter
            before = other
    return _unambiguous(latin, scheme)


def _unambiguous(latin: str, scheme: Scheme) -> str:
    """Keep apart letters that the scheme would read as one, in its own way."""
    if scheme == "iast":
        latin = re.sub("(m̐|ṃ|ḥ)([\u030d\u0331])", r"\2\1", latin)  # an accent is on the vowel
        return latin.replace("a_i", "aï").replace("a_u", "aü")
    if scheme == "itrans":  # RRi and LLi are other spellings of the vowels R^i and L^i
        return re.sub("(?<=[aAiIuUeo])([RL])\\1(?=[iI])", r"\1_L", latin)
    return latin


@lru_cache(CACHED)
def _word_back(word: str, scheme: Scheme) -> str:
    """Return the Devanagari word that has this Latin form; a word without one stays as it is."""
    if scheme == "itrans" and _ITRANS_ALTERNATIVES.search(word):
        return word
    form = unicodedata.normalize("NFC", _devanagari(word, scheme)).replace("ज" + 2 * _NUKTA, "ॹ")
    return form if _LETTERS.fullmatch(form) and _latin(form, scheme) == word else word


def _devanagari(latin: str, scheme: Scheme) -> str:
    """Read Latin letters from left to right, the longest first."""
    reader = _reader(scheme)
    if latin == reader.om:
        return _OM
    script, before = "", ""
    for apart, letter in reader.pattern.findall(latin):
        dead = before in reader.consonants and not apart
        if letter in reader.consonants:
            script += reader.consonants[letter] + _VIRAMA
        elif letter == reader.nukta and dead:
            script, letter = script[:-1] + _NUKTA + _VIRAMA, before
        elif letter in reader.vowel_signs and (dead or (before == reader.nukta and letter != "a")):
            script = script.removesuffix(_VIRAMA) + reader.vowel_signs[letter]
        else:
            script += reader.others.get(letter, letter)
        before = letter
    return script


@dataclass(frozen=True)
class _Reader:
    """The Devanagari of one scheme, by its Latin letters."""

    pattern: re.Pattern[str]
    """An optional ``_``, and a letter."""
    consonants: dict[str, str]
    vowel_signs: dict[str, str]
    others: dict[str, str]
    nukta: str
    om: str


@cache
def _reader(scheme: Scheme) -> _Reader:
    def backwards(letters: dict[str, str]) -> dict[str, str]:
        return {latin: letter for letter, latin in reversed(letters.items())}  # the first of several wins

    table = _table(scheme)
    consonants, signs = backwards(table.consonants), backwards(table.vowel_signs)
    others = backwards(table.signs) | backwards(table.vowels)
    if scheme == "iast":
        others |= {"ï": "इ", "ü": "उ", "ŭ": "उ" + _VIRAMA}
        others |= {f"{vowel}\u0308": "?" for vowel in ("a", "e", "i", "o", "u", "ai", "au")}  # not a nukta
    letters = sorted({*consonants, *signs, *others}, key=len, reverse=True)
    pattern = re.compile(f"(_?)({'|'.join(map(re.escape, letters))}|.)", re.DOTALL)
    return _Reader(pattern, consonants, signs | {"a": ""}, others, table.signs[_NUKTA], "o" + table.signs["ं"])
