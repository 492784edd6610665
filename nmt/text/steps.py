"""Cleaning steps: each function takes a line and its language code and returns the rewritten line.

A step returns the line unchanged if it has no rule for the language.
"""

import re

from nmt.text.transliterate import DEVANAGARI

CURRENCIES = {"$": "dollar", "£": "pound", "€": "euro", "₹": "rupee"}
UNTIL = {"en": "to", "hi": "तक"}
"""Word that replaces the dash between two numbers, by language."""

_NUMBER = r"\d+(?:[.,:]\d+)*"
_SYMBOL = "[$£€₹]"
_TIMES = "thousand|million|billion|trillion|lakh|crore"
_AMOUNT = re.compile(
    rf"(?P<before>{_SYMBOL}) ?(?P<number>{_NUMBER})(?P<times>(?: (?:{_TIMES})(?!\w))?)"
    rf"|(?P<amount>{_NUMBER}) ?(?P<after>{_SYMBOL})(?!\d)|(?P<symbol>{_SYMBOL})"
)
_AND = re.compile(r"&(?!#?\w+;)")
_RANGE = re.compile(rf"(?<![\w.,:\-–/])({_SYMBOL}?{_NUMBER}%?) ?[-–] ?({_SYMBOL}?{_NUMBER}%?)(?![\d/]|[.,:–-]\d)")
_LETTER = "[^\\W\\d_]|[\u0900-\u0963\u0970-\u097f]"  # `re` does not count vowel signs as letters
_HYPHEN = re.compile(f"(?<={_LETTER})[-\u2010\u2011](?={_LETTER})")
_PIPE = re.compile("(?<=[\u0900-\u097f]) ?\\|(?!\\S)")
_NUKTA = re.compile("([\u093e-\u094c\u0901\u0902])\u093c+")
_DEVANAGARI = str.maketrans("०१२३४५६७८९", "0123456789", "\u200c\u200d")
_VOWELS = {"ाॅ": "ॉ", "ाे": "ो", "ाै": "ौ", "अा": "आ", "अॉ": "ऑ", "अो": "ओ", "अौ": "औ", "एे": "ऐ"}


def symbols(text: str, language: str) -> str:
    """Write English ``&`` and currency signs as words: ``$1`` → ``1 dollar``, ``£5.50`` → ``5.50 pounds``."""
    if language != "en":
        return text
    text = _AMOUNT.sub(lambda match: _separated(match, _amount(match)), text)
    return _AND.sub(lambda match: _separated(match, "and"), text)


def _amount(match: re.Match[str]) -> str:
    """Write an amount of money in words, with the currency in the plural unless the amount is 1."""
    symbol = match["before"] or match["after"] or match["symbol"]
    number, times = match["number"] or match["amount"] or "", match["times"] or ""
    plural = "" if number == "1" and not times else "s"
    return f"{number}{times} {CURRENCIES[symbol]}{plural}".strip()


def _separated(match: re.Match[str], words: str) -> str:
    """Return the words that replace a match, with a space on each side where they would touch another word."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    return f"{' ' * before.isalnum()}{words}{' ' * after.isalnum()}"


def ranges(text: str, language: str) -> str:
    """Write the dash between two numbers as a word: ``10-20`` → ``10 to 20`` (English), ``10 तक 20`` (Hindi).

    Three or more numbers in a row, for example dates, stay unchanged.
    """
    return _RANGE.sub(rf"\1 {UNTIL[language]} \2", text) if language in UNTIL else text


def hyphens(text: str, language: str) -> str:
    """Replace the hyphen between two words by a space: ``well-known`` → ``well known``.

    The vocabulary probably contains both words, but not their compound.
    """
    return _HYPHEN.sub(" ", text)


def devanagari(text: str, language: str) -> str:
    """Normalise Devanagari: give strings that look the same one spelling, in languages written in this script.

    Digits become 0 to 9. A ``|`` at the end of a sentence becomes a danda. A nukta is written once, before the vowel
    sign. Joiners are removed, as they change no Hindi word. A vowel typed as two signs becomes one sign.
    """
    if language not in DEVANAGARI:
        return text
    text = _PIPE.sub("।", text.translate(_DEVANAGARI))
    text = _NUKTA.sub("\u093c\\1", text).replace("\u093c\u093c", "\u093c")
    for signs, vowel in _VOWELS.items():
        text = text.replace(signs, vowel)
    return text
