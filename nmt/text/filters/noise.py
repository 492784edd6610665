"""Noise in training pairs: letter case, typing errors, missing marks, inline tags, names (nmt.config.corpus.noise)."""

import random
import re
from collections.abc import Sequence

from nmt.config.corpus.noise import Noise
from nmt.text.cleaner import lowercased

Pair = tuple[str, str]
KINDS = ("title", "upper", "typos", "punctuation", "tags")
OWN_DRAWS = ("names", "lower")
"""Kinds that came later: each has draws of its own, so those of `KINDS` stay as they were."""
LETTERS = 20
"""Letters of the source for each typing error."""
TAGS = ('<b>{}</b>', '<i>{}</i>', '<u>{}</u>', '<span>{}</span>', '<a href="#">{}</a>', '<g id="1">{}</g>')  # fmt: skip
_END = re.compile(r"[\s.,:;!?…。．！？؟۔।॥]+$")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
NAME = re.compile(r"[^\W\d_]{2,}")
"""Words that may be names."""


def noisy(pair: Pair, noise: Noise, languages: tuple[str, str], tags: Sequence[str] = ()) -> tuple[Pair, list[str]]:
    """Return a raw pair with noise, and the kinds of noise that it got.

    Args:
        pair: source and target.
        noise: the share of each kind.
        languages: codes of both sides, for letter case.
        tags: words before added sources; such a word stays as it is.
    """
    mark, space, rest = pair[0].partition(" ")
    if mark in tags:
        (source, target), chosen = noisy((rest, pair[1]), noise, languages)
        return (mark + space + source, target), chosen
    draw = random.Random("\n".join([str(noise.seed), *pair]))
    chosen = [kind for kind in KINDS if draw.random() < getattr(noise, kind)]
    own = {kind: random.Random("\n".join([kind, str(noise.seed), *pair])) for kind in OWN_DRAWS if getattr(noise, kind)}
    chosen += [kind for kind in own if own[kind].random() < getattr(noise, kind)]
    source, target = _renamed(pair, own["names"]) if "names" in chosen else pair
    if (source, target) == pair and "names" in chosen:
        chosen.remove("names")
    if "typos" in chosen:
        source = _mistyped(source, draw)
    if "punctuation" in chosen:
        source = _END.sub("", source) or source
    if "upper" in chosen:
        source, target = _upper(source, languages[0]), _upper(target, languages[1])
    elif "title" in chosen:
        source, target = _title(source, languages[0]), _title(target, languages[1])
    elif "lower" in chosen:
        source = lowercased(source, languages[0])
    if "tags" in chosen:
        tag = draw.choice(TAGS)
        source, target = tag.format(source), tag.format(target)
    return (source, target), chosen


def _renamed(pair: Pair, draw: random.Random) -> Pair:
    """Return a pair with a made-up word for each capitalised word that both sides have."""
    source, target = pair
    shared = set(NAME.findall(source)) & set(NAME.findall(target))
    letters = "".join(letter for letter in source.lower() if letter.isalpha() and letter in target.lower())
    names = {word: _made_up(word, letters, draw) for word in sorted(shared) if word[0].isupper()}
    source, target = (NAME.sub(lambda word: names.get(word[0], word[0]), text) for text in pair)
    return source, target


def _made_up(word: str, letters: str, draw: random.Random) -> str:
    """Join fragments of one to four of these letters to a word of three to ten, in the letter case of `word`."""
    length, made_up = draw.randint(3, 10), ""
    while len(made_up) < length:
        start = draw.randrange(len(letters))
        made_up += letters[start : start + draw.randint(1, 4)]
    return made_up[:length].upper() if word.isupper() else made_up[:length].capitalize()


def _upper(text: str, language: str) -> str:
    return (text.replace("i", "İ") if language in ("tr", "az") else text).upper()


def _title(text: str, language: str) -> str:
    return _WORD.sub(lambda word: _upper(word[0][0], language) + word[0][1:], text)


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
