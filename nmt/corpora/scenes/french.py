"""French sentences of scenes: gender and number in articles, adjectives and participles; elision and contraction."""

from dataclasses import replace

from nmt.corpora.scenes.lexicon import ADJECTIVES, NUMBERS, PLACES, RELATIONS, VERBS
from nmt.corpora.scenes.scene import Scene, Thing

_VOWELS = tuple("aeiouhyâàéèêîôûœ")
_ASPIRATED = ("hibou", "hiboux")  # aspirated h: no elision
_CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def noun_phrase(thing: Thing) -> str:
    """Return a noun phrase: *les deux petits ballons rouges*, *l'homme*, *une femme en robe bleue*."""
    words = [_agree(thing.size, thing)] if thing.size else []
    words.append(noun_form(thing))
    if thing.colour:
        words.append(_agree(thing.colour, thing))
    if thing.wears and thing.wears_colour:
        garment = Thing(thing.wears)
        words += ["en", noun_form(garment), _agree(thing.wears_colour, garment)]
    feminine = thing.noun.french_gender == "f"
    if thing.plural:
        article = "les " if thing.definite else ""
        return article + " ".join([NUMBERS[thing.count][2], *words])
    if not thing.definite:
        return " ".join(["une" if feminine else "un", *words])
    article = "l'" if _elides(words[0]) else "la " if feminine else "le "
    return article + " ".join(words)


def noun_form(thing: Thing) -> str:
    """Return the noun in its number."""
    return thing.noun.french[thing.plural]


def ambiguous_form(scene: Scene) -> str:
    """Return the ambiguous noun in its form in the sentence."""
    assert scene.ambiguous
    return noun_form(scene.ambiguous)


def clause(scene: Scene) -> str:
    """Return the sentence without capital letter and full stop."""
    subject = noun_phrase(scene.subject)
    if scene.companion:
        subject += f" et {noun_phrase(scene.companion)}"
    match scene.pattern:
        case "exists":
            return f"il y a {subject} {_where(scene)}"
        case "located":
            return f"{subject} se {'trouvent' if scene.plural else 'trouve'} {_where(scene)}"
        case "acting":
            return f"{subject} {_verb(scene)} {_where(scene)}"
        case "handling":
            start = f"{_where(scene)}, " if scene.place else ""
            return f"{start}{subject} {_verb(scene)} {noun_phrase(scene.target)}"
        case "giving":
            assert scene.receiver
            receiver = _prepositional("à", scene.receiver)
            return f"{subject} {_verb(scene)} {noun_phrase(scene.target)} {receiver}"
        case "owning":
            return _owning(scene)


def _elides(word: str) -> bool:
    return word.startswith(_VOWELS) and word not in _ASPIRATED


def _agree(word: str, thing: Thing) -> str:
    forms = ADJECTIVES[word].french
    before_vowel = word == thing.size and not thing.plural and _elides(noun_form(thing))
    if before_vowel and thing.noun.french_gender == "m":
        return forms[4]
    return forms[(thing.noun.french_gender == "f") + 2 * thing.plural]


def _verb(scene: Scene) -> str:
    """Return the verb; *assis* agrees with all subjects and is feminine only if all of them are."""
    assert scene.verb
    verb = VERBS[scene.verb].french[scene.plural]
    if not verb.endswith("assis"):
        return verb
    subjects = [thing for thing in (scene.subject, scene.companion) if thing]
    feminine = all(thing.noun.french_gender == "f" for thing in subjects)
    return verb + ("e" if feminine else "") + ("s" if feminine and scene.plural else "")


def _where(scene: Scene) -> str:
    if scene.place:
        return _prepositional(PLACES[scene.place][2], Thing(scene.place, definite=True))
    assert scene.relation
    return _prepositional(RELATIONS[scene.relation][2], scene.target)


def _prepositional(preposition: str, thing: Thing) -> str:
    """Return a prepositional phrase: *dans le parc*, *à côté du banc*, *à gauche d'un arbre*, *au garçon*."""
    phrase = noun_phrase(thing)
    *before, last = preposition.split(" ")
    article, _, rest = phrase.partition(" ")
    if f"{last} {article}" in _CONTRACTIONS:
        return " ".join([*before, _CONTRACTIONS[f"{last} {article}"], rest])
    if last == "de" and _elides(phrase):
        return " ".join([*before, f"d'{phrase}"])
    return f"{preposition} {phrase}"


def _owning(scene: Scene) -> str:
    owned = noun_phrase(replace(scene.target, definite=True, colour=None))
    assert scene.target.colour
    be = "sont" if scene.target.plural else "est"
    return f"{owned} {_prepositional('de', scene.subject)} {be} {_agree(scene.target.colour, scene.target)}"
