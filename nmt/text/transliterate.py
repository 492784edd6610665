"""Devanagari to Latin letters and back, by Aksharamukha; what is not Devanagari stays as it is.

Case carries meaning in Harvard-Kyoto and ITRANS: lowercase before, never after.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal

from nmt.config.data import Cleaning

Scheme = Literal["hk", "iast", "itrans"]

DEVANAGARI = ("hi", "mr", "ne", "sa", "bho", "brx", "doi", "kok", "mai")
"""Languages written in it, by ISO code."""

NAMES: dict[Scheme, str] = {"hk": "HK", "iast": "IAST", "itrans": "ITRANS"}

CACHED = 2**18
"""Distinct words remembered by a process, some 50 MB each way, before it starts anew."""

_DEVANAGARI = re.compile("[\u0900-\u097f][\u0900-\u097f\u200c\u200d]*")
_LETTERS = re.compile("[\u0900-\u0963\u0970-\u097f]+")
_DANDA = re.compile(r"(?<!\.)(?:\.|(\.\.))(?!\S)")
_WORDS: dict[Scheme, re.Pattern[str]] = {  # entities, as `&apos;`, are no words; in ITRANS a word may hold full stops
    "hk": re.compile(r"&\w+;|(?<![^\W\d])[A-Za-z][A-Za-z0-9~'_]*(?!\w)"),
    "iast": re.compile("&\\w+;|[^\\W\\d_](?:[^\\W\\d_]|['_\u0300-\u036f])*"),
    "itrans": re.compile(r"&\w+;|(?<![^\W\d])(?:[A-Za-z~^_]|\.(?=[DNacC]))+(?!\w)"),
}


def scheme(recipe: Cleaning, language: str) -> Scheme | None:
    """The scheme in which a recipe writes a language, or None where it leaves its script."""
    return recipe.transliterate if recipe.transliterate != "none" and language in DEVANAGARI else None


def to_latin(text: str, scheme: Scheme) -> str:
    """Write the Devanagari in a text in Latin letters: ``नहीं था।`` → ``nahIM thA.``; its digits become 0 to 9.

    The words of a text are converted together: a word alone takes Aksharamukha 0.4 ms, among many 0.003 ms.
    """
    known = _converted("Devanagari", NAMES[scheme], _DEVANAGARI.findall(text))
    return _DEVANAGARI.sub(lambda word: known[word[0]], text)


def to_devanagari(text: str, scheme: Scheme) -> str:
    """Undo `to_latin`, as far as Latin letters tell: ``nahIM thA.`` → ``नहीं था।``, in normal form C.

    A word that cannot come from Devanagari (``PDF``) stays. One that could comes back in Devanagari, also where it was
    Latin before; a full stop that ends a word becomes a danda; digits stay 0 to 9; joiners are lost.
    """
    words = _WORDS[scheme].findall(text)
    known = _converted(NAMES[scheme], "Devanagari", words)
    written = {word: unicodedata.normalize("NFC", known[word]) for word in words}
    again = _converted("Devanagari", NAMES[scheme], filter(_LETTERS.fullmatch, written.values()))
    text = _WORDS[scheme].sub(lambda w: written[w[0]] if again.get(written[w[0]]) == w[0] else w[0], text)
    return _DANDA.sub(lambda stop: "॥" if stop[1] else "।", text)


_KNOWN: dict[tuple[str, str], dict[str, str]] = {}


def _converted(source: str, target: str, words: Iterable[str]) -> Mapping[str, str]:
    """A table that holds these words, among others, each with its form in another script or scheme."""
    from aksharamukha.transliterate import process  # half a second, and not needed to train or decode

    known = _KNOWN.setdefault((source, target), {})
    if len(known) > CACHED:
        known.clear()
    missing = list({word for word in words if word not in known})
    found = process(source, target, "\n".join(missing)).split("\n") if missing else []
    known.update(zip(missing, found, strict=True))
    return known
