"""English sentences of scenes."""

from dataclasses import replace

from nmt.corpora.scenes.lexicon import NUMBERS, PLACES, RELATIONS, VERBS
from nmt.corpora.scenes.scene import Scene, Thing


def noun_phrase(thing: Thing) -> str:
    """Return a noun phrase: *the two small red balls*, *an old man in a white coat*."""
    words = [NUMBERS[thing.count][0]] if thing.plural else []
    words += [word for word in (thing.size, thing.colour) if word] + [noun_form(thing)]
    if thing.wears:
        words += ["in", noun_phrase(Thing(thing.wears, definite=thing.definite, colour=thing.wears_colour))]
    if thing.definite:
        words.insert(0, "the")
    elif not thing.plural:
        words.insert(0, "an" if words[0][0] in "aeiou" else "a")
    return " ".join(words)


def noun_form(thing: Thing) -> str:
    """Return the noun in its number."""
    return thing.noun.english[thing.plural]


def ambiguous_form(scene: Scene) -> str:
    """Return the ambiguous noun in its form in the sentence."""
    assert scene.ambiguous
    return noun_form(scene.ambiguous)


def clause(scene: Scene) -> str:
    """Return the sentence without capital letter and full stop."""
    subject = noun_phrase(scene.subject)
    if scene.companion:
        subject += f" and {noun_phrase(scene.companion)}"
    be = "are" if scene.plural else "is"
    match scene.pattern:
        case "exists":
            return f"there {be} {subject} {_where(scene)}"
        case "located":
            return f"{subject} {be} {_where(scene)}"
        case "acting":
            return f"{subject} {be} {_verb(scene)} {_where(scene)}"
        case "handling":
            start = f"{_where(scene)}, " if scene.place else ""
            return f"{start}{subject} {be} {_verb(scene)} {noun_phrase(scene.target)}"
        case "giving":
            assert scene.receiver
            return f"{subject} {be} {_verb(scene)} {noun_phrase(scene.target)} to {noun_phrase(scene.receiver)}"
        case "owning":
            return _owning(scene, subject)


def _verb(scene: Scene) -> str:
    assert scene.verb
    return VERBS[scene.verb].english


def _where(scene: Scene) -> str:
    if scene.place:
        return f"{PLACES[scene.place][0]} {noun_phrase(Thing(scene.place, definite=True))}"
    assert scene.relation
    return f"{RELATIONS[scene.relation][0]} {noun_phrase(scene.target)}"


def _owning(scene: Scene, owner: str) -> str:
    owned = noun_phrase(replace(scene.target, definite=False, colour=None))
    owned = owned.removeprefix("an ").removeprefix("a ")
    ending = "'" if owner.endswith("s") else "'s"
    return f"{owner}{ending} {owned} {'are' if scene.target.plural else 'is'} {scene.target.colour}"
