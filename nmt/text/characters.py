"""Which characters of a text can be seen, and which are Latin."""

import re
import unicodedata
from collections.abc import Callable

_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SEEN = re.compile(f"[^\\s\0-\x1f\x7f-\x9f{_UNSEEN}]")
"""A character that leaves a mark: none of white space, control characters, Unicode's Default_Ignorable_Code_Point
(joiners, fillers, variation selectors), other format characters that draw nothing, and the blank of Braille."""

_JOINERS = "\u200c\u200d"
_DRAWN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Unicode's Prepended_Concatenation_Mark: format characters that enclose or underline the digits after them."""

SPACELESS_LETTER = re.compile("[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese."""


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing: it is empty, or has only spaces, joiners and other unseen characters."""
    return not _SEEN.search(text)


def length(line: str, characters: bool) -> int:
    """Count the words of a cleaned line, which single spaces separate, or its characters, spaces not counted."""
    if characters:
        return len(line) - line.count(" ")
    return line.count(" ") + 1 if line else 0


def letters_apart(text: str) -> str:
    """Put each letter of a script without spaces between words between spaces, so that it counts as a word."""
    return SPACELESS_LETTER.sub(r" \g<0> ", text)


class _Characters(dict[int, str | int | None]):
    """Translation table for `str.translate` that computes each character's entry on first use."""

    def __init__(self, rule: Callable[[str], str | int | None]) -> None:
        self.rule = rule

    def __missing__(self, code: int) -> str | int | None:
        self[code] = result = self.rule(chr(code))
        return result


def _visible(character: str) -> str | int | None:
    """Replace white space by a space; remove control, format and private-use characters.

    The no-break space stays, because punctuation normalisation needs it (``10 000``).
    Zero-width joiners and non-joiners stay, because they are part of the spelling in Indic and Arabic scripts.
    So do the format characters that are drawn, such as the Arabic end of ayah.
    """
    if character.isspace():
        return character if character == "\u00a0" else " "
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Co") and character not in _JOINERS + _DRAWN
    return None if hidden else ord(character)


def _latin(character: str) -> str | int | None:
    """Keep Latin letters, combining accents, ASCII, punctuation and spaces; remove other characters."""
    category = unicodedata.category(character)
    letter = category[0] == "L" and unicodedata.name(character, "").startswith("LATIN ")
    keep = character.isascii() or letter or category[0] in "PZ" or "\u0300" <= character <= "\u036f"
    return ord(character) if keep else None


_VISIBLE, _LATIN = _Characters(_visible), _Characters(_latin)


def visible_only(text: str) -> str:
    """Replace white space by spaces; remove control, format and private-use characters, joiners excepted."""
    return text if text.isprintable() else text.translate(_VISIBLE)


def latin_only(text: str) -> str:
    """Keep Latin letters, combining accents, ASCII, punctuation and spaces; remove other characters."""
    return text.translate(_LATIN)
