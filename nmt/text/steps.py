"""Steps of cleaning that rewrite text, each by itself: a line and its language give a line.

A language that a step does not know keeps its lines as they are.
"""

import re

from nmt.text.transliterate import DEVANAGARI

CURRENCIES = {"$": "dollar", "£": "pound", "€": "euro", "₹": "rupee"}
UNTIL = {"en": "to", "hi": "तक"}
"""What stands for the dash between two numbers."""

_NUMBER = r"\d+(?:[.,:]\d+)*"
_SYMBOL = "[$£€₹]"
_TIMES = "thousand|million|billion|trillion|lakh|crore"
_AMOUNT = re.compile(
    rf"(?P<before>{_SYMBOL}) ?(?P<number>{_NUMBER})(?P<times>(?: (?:{_TIMES})(?!\w))?)"
    rf"|(?P<amount>{_NUMBER}) ?(?P<after>{_SYMBOL})(?!\d)|(?P<alone>{_SYMBOL})"
)
_AND = re.compile(r"&(?!#?\w+;)")
_RANGE = re.compile(rf"(?<![\w.,:\-–/])({_SYMBOL}?{_NUMBER}%?) ?[-–] ?({_SYMBOL}?{_NUMBER}%?)(?![\d/]|[.,:–-]\d)")
_LETTER = "[^\\W\\d_]|[\u0900-\u0963\u0970-\u097f]"  # vowel signs are no letters to `re`
_HYPHEN = re.compile(f"(?<={_LETTER})[-\u2010\u2011](?={_LETTER})")
_PIPE = re.compile("(?<=[\u0900-\u097f]) ?\\|(?!\\S)")
_NUKTA = re.compile("([\u093e-\u094c\u0901\u0902])\u093c+")
_DEVANAGARI = str.maketrans("०१२३४५६७८९", "0123456789", "\u200c\u200d")
_VOWELS = {"ाॅ": "ॉ", "ाे": "ो", "ाै": "ौ", "अा": "आ", "अॉ": "ऑ", "अो": "ओ", "अौ": "औ", "एे": "ऐ"}


def symbols(text: str, language: str) -> str:
    """English ``&`` and currency signs in words: ``$1`` → ``1 dollar``, ``£5.50`` → ``5.50 pounds``."""
    if language != "en":
        return text
    return _AND.sub(lambda found: _apart(found, "and"), _AMOUNT.sub(lambda found: _apart(found, _amount(found)), text))


def _amount(found: re.Match[str]) -> str:
    """An amount of money in words; one of a currency is singular."""
    symbol = found["before"] or found["after"] or found["alone"]
    number, times = found["number"] or found["amount"] or "", found["times"] or ""
    plural = "" if number == "1" and not times else "s"
    return f"{number}{times} {CURRENCIES[symbol]}{plural}".strip()


def _apart(found: re.Match[str], words: str) -> str:
    """Words in place of a match, with a space where they would touch others."""
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return f"{' ' * before.isalnum()}{words}{' ' * after.isalnum()}"


def ranges(text: str, language: str) -> str:
    """The dash between two numbers as a word: ``10-20`` → ``10 to 20`` (English), ``10 तक 20`` (Hindi).

    Three numbers or more, as in dates, stay.
    """
    return _RANGE.sub(rf"\1 {UNTIL[language]} \2", text) if language in UNTIL else text


def hyphens(text: str, language: str) -> str:
    """The hyphen between two words as a space: ``well-known`` → ``well known``.

    A space, because both words are likely known and their compound is not; joined they would be a third word.
    """
    return _HYPHEN.sub(" ", text)


def devanagari(text: str, language: str) -> str:
    """One spelling for what looks the same in Devanagari, in languages written in it.

    Its digits become 0 to 9, a ``|`` that ends a sentence a danda; a nukta stands before the vowel sign, once; joiners,
    which change no word of Hindi, go; vowels that were typed as two signs become one.
    """
    if language not in DEVANAGARI:
        return text
    text = _PIPE.sub("।", text.translate(_DEVANAGARI))
    text = _NUKTA.sub("\u093c\\1", text).replace("\u093c\u093c", "\u093c")
    for two, one in _VOWELS.items():
        text = text.replace(two, one)
    return text
