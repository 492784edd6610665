"""Noise in training pairs: letter case, typing errors, missing marks and inline tags (nmt.config.corpus.noise)."""

import random
import re
from collections.abc import Sequence

from nmt.config.corpus.noise import Noise

Pair = tuple[str, str]
LETTERS = 20
"""Letters of the source for each typing error."""
TAGS = ('<b>{}</b>', '<i>{}</i>', '<u>{}</u>', '<span>{}</span>', '<a href="#">{}</a>', '<g id="1">{}</g>')  # fmt: skip
_END = re.compile(r"[\s.,:;!?…。．！？؟۔।॥]+$")
_WORD = re.compile(r"\w+(?:['’]\w+)*")


def noisy(pair: Pair, noise: Noise, languages: tuple[str, str], tags: Sequence[str] = ()) -> tuple[Pair, list[str]]:
    """Return a raw pair with noise, and the kinds of noise that it got.

    Args:
        pair: source and target.
        noise: the share of each kind.
        languages: codes of both sides, for upper case.
        tags: words before added sources; such a word stays as it is.
    """
    mark, space, rest = pair[0].partition(" ")
    if mark in tags:
        (source, target), chosen = noisy((rest, pair[1]), noise, languages)
        return (mark + space + source, target), chosen
    draw = random.Random("\n".join([str(noise.seed), *pair]))
    chosen = [kind for kind in Noise.model_fields if kind != "seed" and draw.random() < getattr(noise, kind)]
    source, target = pair
    if "typos" in chosen:
        source = _mistyped(source, draw)
    if "punctuation" in chosen:
        source = _END.sub("", source) or source
    if "upper" in chosen:
        source, target = (_upper(text, language) for text, language in zip((source, target), languages, strict=True))
    elif "title" in chosen:
        source, target = (
            _WORD.sub(lambda word, code=language: _upper(word[0][0], code) + word[0][1:], text)  # type: ignore[misc]
            for text, language in zip((source, target), languages, strict=True)
        )
    if "tags" in chosen:
        tag = draw.choice(TAGS)
        source, target = tag.format(source), tag.format(target)
    return (source, target), chosen


def _upper(text: str, language: str) -> str:
    return (text.replace("i", "İ") if language in ("tr", "az") else text).upper()


def _mistyped(text: str, draw: random.Random) -> str:
    """Return a text in which about one of `LETTERS` letters, at least one, is left out, doubled, or swapped."""
    places = [place for place, character in enumerate(text) if character.isalpha()]
    letters = list(text)
    for place in draw.sample(places, min(len(places), max(1, len(places) // LETTERS))):
        kind = draw.choice(("omit", "double", "swap"))
        if kind == "swap" and place + 1 < len(letters) and letters[place + 1].isalpha():
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
        else:
            letters[place] = "" if kind == "omit" else letters[place] * 2
    return "".join(letters)
