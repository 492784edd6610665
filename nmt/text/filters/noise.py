"""Noise in training pairs: letter case, typing errors, missing marks, tags, names and numbers (nmt.config.corpus)."""

import random
import re
import string
from collections.abc import Sequence

from nmt.config.corpus.noise import Noise
from nmt.text.cleaner import lowercased

Pair = tuple[str, str]
KINDS = ("title", "upper", "typos", "punctuation", "tags")
OWN_DRAWS = ("names", "numbers", "lower")
"""Kinds that came later: each has draws of its own, so those of `KINDS` stay as they were."""
LETTERS = 20
"""Letters of the source for each typing error."""
TAGS = ('<b>{}</b>', '<i>{}</i>', '<u>{}</u>', '<span>{}</span>', '<a href="#">{}</a>', '<g id="1">{}</g>')  # fmt: skip
_END = re.compile(r"[\s.,:;!?…。．！？؟۔।॥]+$")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
NAME = re.compile(r"[^\W\d_]{2,}")
"""Words that may be names."""
NUMBER = re.compile(r"[0-9]+")


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
    source, target = pair
    for kind, change in (("names", _renamed), ("numbers", _renumbered)):
        if kind in chosen:
            changed = change((source, target), own[kind])
            if changed == (source, target):
                chosen.remove(kind)
            source, target = changed
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
    """Return a pair with a made-up name for each capitalised word that both sides have."""
    shared = _shared(NAME, pair)
    letters = "".join(letter for letter in pair[0].lower() if letter.isalpha() and letter in pair[1].lower())
    names = {word: _made_up(word, letters, draw) for word in shared if word[0].isupper()}
    return _replaced(NAME, pair, names)


def _renumbered(pair: Pair, draw: random.Random) -> Pair:
    """Return a pair with other digits for each number that both sides have, except 1, which needs the singular."""
    numbers = {number: _digits(number, draw) for number in _shared(NUMBER, pair) if number != "1"}
    return _replaced(NUMBER, pair, numbers)


def _shared(pattern: re.Pattern[str], pair: Pair) -> list[str]:
    return sorted(set(pattern.findall(pair[0])) & set(pattern.findall(pair[1])))


def _replaced(pattern: re.Pattern[str], pair: Pair, words: dict[str, str]) -> Pair:
    source, target = (pattern.sub(lambda word: words.get(word[0], word[0]), text) for text in pair)
    return source, target


def _made_up(word: str, letters: str, draw: random.Random) -> str:
    """Return a made-up name of one word or, one time in five, of two.

    A word has three to ten letters. It joins fragments of one to four of `letters`; one name in two takes Latin letters
    in any order too, where `word` has such letters. A name in capitals stays so, and one in ten becomes so.
    """
    if word.isascii() and draw.random() < 0.5:
        letters += "".join(draw.sample(string.ascii_lowercase, 26))
    capitals = word.isupper() or draw.random() < 0.1
    words = []
    for _ in range(2 if draw.random() < 0.2 else 1):
        length, made_up = draw.randint(3, 10), ""
        while len(made_up) < length:
            start = draw.randrange(len(letters))
            made_up += letters[start : start + draw.randint(1, 4)]
        words.append(made_up[:length].upper() if capitals else made_up[:length].capitalize())
    return " ".join(words)


def _digits(number: str, draw: random.Random) -> str:
    """Return a random number with as many digits. It begins with 2 to 9; if `number` begins with 0, with any digit."""
    first = string.digits if number[0] == "0" else string.digits[2:]
    return draw.choice(first) + "".join(draw.choices(string.digits, k=len(number) - 1))


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
