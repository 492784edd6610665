"""German sentences of scenes: gender, case and number in articles, adjectives and nouns."""

from dataclasses import replace
from typing import Literal

from nmt.corpora.scenes.lexicon import ADJECTIVES, NUMBERS, PLACES, RELATIONS, VERBS
from nmt.corpora.scenes.scene import Scene, Thing

Case = Literal["nominative", "accusative", "dative", "genitive"]

_PLURAL = "p"
_DEFINITE = {
    "nominative": {"m": "der", "f": "die", "n": "das", _PLURAL: "die"},
    "accusative": {"m": "den", "f": "die", "n": "das", _PLURAL: "die"},
    "dative": {"m": "dem", "f": "der", "n": "dem", _PLURAL: "den"},
    "genitive": {"m": "des", "f": "der", "n": "des", _PLURAL: "der"},
}
_INDEFINITE = {
    "nominative": {"m": "ein", "f": "eine", "n": "ein"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}  # no genitive: owners are always definite
# Adjective endings other than -en: weak after der, mixed after ein, strong after a numeral without article.
_WEAK = {"nominative": {"m": "e", "f": "e", "n": "e"}, "accusative": {"f": "e", "n": "e"}}
_MIXED = {"nominative": {"m": "er", "f": "e", "n": "es"}, "accusative": {"f": "e", "n": "es"}}
_STRONG = {"nominative": {_PLURAL: "e"}, "accusative": {_PLURAL: "e"}}
_CONTRACTIONS = {"in dem": "im", "an dem": "am", "von dem": "vom"}


def noun_phrase(thing: Thing, case: Case) -> str:
    """Return a noun phrase: *die zwei kleinen roten Bälle*, *einem alten Mann*, *eine Frau in einem blauen Mantel*."""
    gender = _PLURAL if thing.plural else thing.noun.german_gender
    words = []
    if thing.definite:
        words.append(_DEFINITE[case][gender])
    elif not thing.plural:
        words.append(_INDEFINITE[case][gender])
    if thing.plural:
        words.append(NUMBERS[thing.count][1])
    endings = _WEAK if thing.definite else _STRONG if thing.plural else _MIXED
    ending = endings.get(case, {}).get(gender, "en")
    words += [ADJECTIVES[word].german + ending for word in (thing.size, thing.colour) if word]
    words.append(noun_form(thing, case))
    if thing.wears:
        words.append(_prepositional("in", Thing(thing.wears, definite=thing.definite, colour=thing.wears_colour)))
    return " ".join(words)


def noun_form(thing: Thing, case: Case) -> str:
    """Return the noun in its number and case."""
    noun = thing.noun
    if thing.plural:
        return noun.german[1] + ("n" if case == "dative" and noun.german[1][-1] not in "ns" else "")
    if case == "genitive":
        assert noun.genitive, noun
        return noun.genitive
    return noun.german[1] if noun.weak and case != "nominative" else noun.german[0]


def clause(scene: Scene) -> str:
    """Return the sentence without capital letter and full stop."""
    subject = noun_phrase(scene.subject, "nominative")
    if scene.companion:
        subject += f" und {noun_phrase(scene.companion, 'nominative')}"
    match scene.pattern:
        case "exists":
            return f"{_where(scene)} {_rests(scene)} {subject}"
        case "located":
            return f"{subject} {_rests(scene)} {_where(scene)}"
        case "acting":
            return f"{subject} {_verb(scene)} {_where(scene)}"
        case "handling":
            start = f"{_where(scene)} {_verb(scene)} {subject}" if scene.place else f"{subject} {_verb(scene)}"
            return f"{start} {noun_phrase(scene.target, 'accusative')}"
        case "giving":
            assert scene.receiver
            receiver = noun_phrase(scene.receiver, "dative")
            return f"{subject} {_verb(scene)} {receiver} {noun_phrase(scene.target, 'accusative')}"
        case "owning":
            return _owning(scene)


def ambiguous_form(scene: Scene) -> str:
    """Return the ambiguous noun in its form in the sentence."""
    assert scene.ambiguous
    return noun_form(scene.ambiguous, "accusative" if scene.pattern in ("handling", "giving") else "nominative")


def _rests(scene: Scene) -> str:
    """Return the German verb for *is* of position: *liegt*, *steht* or *sitzt*, or its plural."""
    plural = {"liegt": "liegen", "steht": "stehen", "sitzt": "sitzen"}
    rests = scene.subject.noun.rests
    return plural[rests] if scene.plural else rests


def _verb(scene: Scene) -> str:
    assert scene.verb
    return VERBS[scene.verb].german[scene.plural]


def _where(scene: Scene) -> str:
    if scene.place:
        return _prepositional(PLACES[scene.place][1], Thing(scene.place, definite=True))
    assert scene.relation
    return _prepositional(RELATIONS[scene.relation][1], scene.target)


def _prepositional(preposition: str, thing: Thing) -> str:
    """Return a prepositional phrase: *im Park*, *vom kleinen Baum*, *auf einem Stuhl*."""
    *before, last = preposition.split(" ")
    article, _, rest = noun_phrase(thing, "dative").partition(" ")
    start = f"{last} {article}"
    return " ".join([*before, _CONTRACTIONS.get(start, start), rest])


def _owning(scene: Scene) -> str:
    owned = noun_phrase(replace(scene.target, definite=True, colour=None), "nominative")
    owner = noun_phrase(scene.subject, "genitive")
    assert scene.target.colour
    be = "sind" if scene.target.plural else "ist"
    return f"{owned} {owner} {be} {ADJECTIVES[scene.target.colour].german}"
