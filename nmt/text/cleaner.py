"""Clean lines of one language, for training and for translating."""

import re
import unicodedata
from collections.abc import Iterable

from nmt.config.data import Cleaning
from nmt.text.characters import is_blank, latin_only, visible_only
from nmt.text.languages import DOTLESS, base
from nmt.text.steps import devanagari, hyphens, ranges, symbols
from nmt.text.tokenize import detokenize, normalize_punctuation, tokenize
from nmt.text.transliterate import scheme, to_devanagari, to_latin

JOINER = re.compile("[\u200c\u200d]")


class Cleaner:
    """Cleaner of lines in one language by one recipe: ``Cleaner(recipe, "de")("Ein  Hund.")`` → ``"ein hund ."``."""

    def __init__(self, recipe: Cleaning, language: str, apart: bool = False) -> None:
        """Take a recipe and the language's tag, which selects rules for punctuation and tokenisation.

        Args:
            recipe: the steps.
            language: tag of the language.
            apart: whether a joiner is a word of its own, as in corpora of tables that were published so.
        """
        self.recipe = recipe
        self.language = base(language)
        self._apart = apart
        self._steps = [step for step in (ranges, symbols, hyphens) if getattr(recipe, step.__name__)]
        self._scheme = scheme(recipe, language)

    def __call__(self, text: str) -> str:
        """Return a line as models see it."""
        return self.counted(text)[0]

    def prepare(self, lines: Iterable[str]) -> None:
        """Transliterate the words of many lines at once and cache them, which is faster than line by line."""
        if self._scheme:
            to_latin(unicodedata.normalize("NFC", "\n".join(lines)), self._scheme)

    def counted(self, text: str) -> tuple[str, int]:
        """Return a line as models see it, and the number of removed control or disallowed characters."""
        visible = visible_only(text)
        removed = len(text) - len(visible)
        text = self._normalize(visible)  # without what stood between a letter and its accent
        text = devanagari(text, self.language) if self.recipe.devanagari else text
        text = self._normalize(lowercased(text, self.language)) if self.recipe.lowercase else text  # "J̌" → "ǰ"
        if self.recipe.punctuation:
            text = normalize_punctuation(text, self.language)
        for step in self._steps:
            text = step(text, self.language)
        if self.recipe.tokenize == "moses":
            text = tokenize(JOINER.sub(r" \g<0> ", text) if self._apart else text, self.language)
        if self._scheme:
            text = to_latin(text, self._scheme)
        if self.recipe.characters == "latin":
            allowed = latin_only(text)
            removed, text = removed + len(text) - len(allowed), self._normalize(allowed)
        words = text.split()
        if not self._apart and not text.isascii():
            words = [word for word in words if not is_blank(word)]
        return "" if is_blank(text) else " ".join(words), removed

    def _normalize(self, text: str) -> str:
        return text if self.recipe.unicode == "none" else unicodedata.normalize(self.recipe.unicode, text)


def clean_line(text: str, language: str, recipe: Cleaning) -> str:
    """Clean one line of a language."""
    return Cleaner(recipe, language)(text)


def restore(text: str, language: str, recipe: Cleaning) -> str:
    """Undo cleaning as far as possible: return a cleaned line in its original script and detokenised."""
    if latin_scheme := scheme(recipe, language):
        text = to_devanagari(text, latin_scheme)
    return detokenize(text, base(language)) if recipe.tokenize == "moses" else text


def small_i(text: str, language: str) -> str:
    """Lowercase the I of Turkish and Azerbaijani as their spelling does, "I" to "ı" and "İ" to "i"; nothing else."""
    return text.replace("I", "ı").replace("İ", "i") if language in DOTLESS else text


def lowercased(text: str, language: str) -> str:
    """Lowercase a text: "İ" becomes "i" without Python's combining dot; Turkish and Azerbaijani "I" becomes "ı"."""
    return small_i(text, language).replace("İ", "i").lower()
