"""Devanagari to Latin letters and back with Aksharamukha; other text stays unchanged.

Case carries meaning in Harvard-Kyoto and ITRANS, so lowercase a text before transliteration, never after it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal

from nmt.config.data import Cleaning
from nmt.text.languages import base

Scheme = Literal["hk", "iast", "itrans"]

DEVANAGARI = ("hi", "mr", "ne", "sa", "bho", "brx", "doi", "kok", "mai")
"""ISO codes of languages that are written in Devanagari."""

NAMES: dict[Scheme, str] = {"hk": "HK", "iast": "IAST", "itrans": "ITRANS"}

CACHED = 2**18
"""Distinct words that a process caches per direction, about 50 MB, before it empties the cache."""

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
    """Write the Devanagari of a text in Latin letters: ``नहीं था।`` → ``nahIM thA.``; its digits become 0 to 9.

    All words of a text are converted in one call: Aksharamukha takes 0.4 ms for a single word, but 0.003 ms per word
    for many.
    """
    known = _converted("Devanagari", NAMES[scheme], _DEVANAGARI.findall(text))
    return _DEVANAGARI.sub(lambda word: known[word[0]], text)


def to_devanagari(text: str, scheme: Scheme) -> str:
    """Undo `to_latin` as far as possible: ``nahIM thA.`` → ``नहीं था।``, in Unicode normal form C.

    A word that cannot come from Devanagari (``PDF``) stays. Any other word becomes Devanagari, even if the original
    text had it in Latin letters. A full stop after a word becomes a danda. Digits stay 0 to 9. Joiners are lost.
    """
    words = _WORDS[scheme].findall(text)
    known = _converted(NAMES[scheme], "Devanagari", words)
    forms = {word: unicodedata.normalize("NFC", known[word]) for word in words}
    round_trip = _converted("Devanagari", NAMES[scheme], filter(_LETTERS.fullmatch, forms.values()))
    text = _WORDS[scheme].sub(lambda w: forms[w[0]] if round_trip.get(forms[w[0]]) == w[0] else w[0], text)
    return _DANDA.sub(lambda stop: "॥" if stop[1] else "।", text)


_KNOWN: dict[tuple[str, str], dict[str, str]] = {}


def _converted(source: str, target: str, words: Iterable[str]) -> Mapping[str, str]:
    """Return a table from words to their form in another script or scheme; it contains at least these words."""
    from aksharamukha.transliterate import process  # takes half a second; training and decoding do not need it

    known = _KNOWN.setdefault((source, target), {})
    if len(known) > CACHED:
        known.clear()
    missing = list({word for word in words if word not in known})
    converted = process(source, target, "\n".join(missing)).split("\n") if missing else []
    known.update(zip(missing, converted, strict=True))
    return known
