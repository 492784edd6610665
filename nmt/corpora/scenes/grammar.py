"""The grammar that draws random scenes."""

import random
from collections.abc import Callable
from dataclasses import replace

from nmt.corpora.scenes.lexicon import NOUNS, PLACES, SENSES, VERBS
from nmt.corpora.scenes.scene import Scene, Thing

AMBIGUOUS_SHARE = 0.3
"""Share of scenes with an ambiguous word."""

_KINDS = {
    kind: [name for name, noun in NOUNS.items() if noun.kind == kind and "/" not in name]
    for kind in ("person", "animal", "small", "large", "garment")
}
_TOPS = ["table", "chair", "bench", "bed", "box"]
_ROOFS = ["table", "chair", "bench", "bed", "tree"]
_BESIDE = ["behind", "front", "next", "left", "right"]
_SIZES = {"boy": ["small"], "girl": ["small"], "man": ["old"], "woman": ["old"], "cook": ["old"], "clown": ["old"]}
_MOVING = {"person": ["sleep", "sit", "stand", "run", "jump", "dance"], "animal": ["sleep", "sit", "run", "jump"]}
_DOING = {
    "person": ["hold", "carry", "watch", "photograph", "push", "wash", "feed", "eat", "read"],
    "animal": ["watch", "chase"],
}
_NEUTRAL = ["hold", "carry", "watch", "photograph"]  # verbs that fit both senses of every ambiguous word

Random = random.Random


def sample(rng: Random) -> Scene:
    """Draw a scene; with probability `AMBIGUOUS_SHARE` it has an ambiguous word, whose senses are equally likely."""
    if rng.random() >= AMBIGUOUS_SHARE:
        return rng.choice([_exists, _located, _acting, _handling, _giving, _owning])(rng, None)
    noun = rng.choice(SENSES[rng.choice(list(SENSES))])
    patterns: list[Callable[[Random, str | None], Scene]] = [_exists, _located, _handling, _owning]
    if NOUNS[noun].kind == "small":
        patterns.append(_giving)
    return rng.choice(patterns)(rng, noun)


def _exists(rng: Random, noun: str | None) -> Scene:
    subject = _thing(rng, noun or _any(rng, person=1, animal=2, small=4, large=2), definite=False)
    return _placed(rng, Scene("exists", subject))


def _located(rng: Random, noun: str | None) -> Scene:
    subject = _thing(rng, noun or _any(rng, person=1, animal=2, small=4, large=2))
    return _placed(rng, Scene("located", subject))


def _acting(rng: Random, _: str | None) -> Scene:
    """Draw one or two people or animals that do something somewhere."""
    subject = _dressed(rng, _thing(rng, _any(rng, person=1, animal=1)))
    kind = subject.noun.kind
    scene = Scene("acting", subject, verb=rng.choice(_MOVING[kind]))
    if rng.random() < 0.25:
        second = _thing(rng, _other(rng, _KINDS[kind], subject.name), count=1, definite=subject.definite)
        scene = replace(scene, subject=replace(subject, count=1, wears=None, wears_colour=None), companion=second)
    if rng.random() < 0.6:
        return replace(scene, place=rng.choice(list(PLACES)))
    return _placed(rng, scene)


def _handling(rng: Random, noun: str | None) -> Scene:
    """Draw a person or animal that does something to an object."""
    kind = "person" if noun or rng.random() < 0.8 else "animal"
    subject = _dressed(rng, _thing(rng, rng.choice(_KINDS[kind])))
    if noun:
        verb = rng.choice([verb for verb in _NEUTRAL if NOUNS[noun].kind in VERBS[verb].objects])
    else:
        verb = rng.choice(_DOING[kind])
    objects = [name for name in _objects(verb) if name != subject.name]
    scene = Scene("handling", subject, verb=verb, object=_thing(rng, noun or rng.choice(objects)))
    return replace(scene, place=rng.choice(list(PLACES))) if rng.random() < 0.3 else scene


def _giving(rng: Random, noun: str | None) -> Scene:
    """Draw a person who gives or shows something to another person."""
    subject = _dressed(rng, _thing(rng, rng.choice(_KINDS["person"])))
    receiver = _thing(rng, _other(rng, _KINDS["person"], subject.name), definite=True)
    thing = _thing(rng, noun or rng.choice(_KINDS["small"]))
    return Scene("giving", subject, verb=rng.choice(["give", "show"]), object=thing, receiver=receiver)


def _owning(rng: Random, noun: str | None) -> Scene:
    """Draw a person's thing with its colour."""
    owner = _thing(rng, rng.choice(_KINDS["person"]), definite=True)
    owned = _thing(rng, noun or _any(rng, small=3, animal=1, large=1))
    return Scene("owning", owner, object=replace(owned, colour=rng.choice(owned.noun.colours), definite=False))


def _placed(rng: Random, scene: Scene) -> Scene:
    """Add the position of the subject: on, under or beside something that fits."""
    moving = scene.verb in ("run", "jump", "dance", "stand")
    noun = scene.subject.noun
    light = all(
        thing.noun.kind == "small" or thing.noun.rests == "sitzt" for thing in (scene.subject, scene.companion) if thing
    )
    relations = _BESIDE if moving or not light else ["on", "on", "on", "under", "under", *_BESIDE]
    if noun.kind == "person" and scene.verb in ("sit", "sleep"):
        relations = ["on", *_BESIDE]
    relation = rng.choice(relations)
    anchors = {"on": _TOPS, "under": _ROOFS}.get(relation, _KINDS["large"])
    names = {scene.subject.name, scene.companion.name if scene.companion else None}
    anchor = rng.choice([name for name in anchors if name not in names])
    count = 1 if rng.random() < 0.9 or relation in ("on", "under") else None
    return replace(scene, relation=relation, object=_thing(rng, anchor, count=count))


def _thing(rng: Random, name: str, count: int | None = None, definite: bool | None = None) -> Thing:
    """Draw a thing of this name; its number, size, colour and article are random unless they are given."""
    noun = NOUNS[name]
    sizes = _SIZES.get(name, [] if noun.kind == "person" else ["small", "big"])
    return Thing(
        name,
        count=count or rng.choice([1, 1, 1, 1, 1, 1, 2, 2, 3, 4]),
        definite=rng.random() < 0.4 if definite is None else definite,
        size=rng.choice(sizes) if sizes and rng.random() < 0.3 else None,
        colour=rng.choice(noun.colours) if noun.colours and rng.random() < 0.5 else None,
    )


def _dressed(rng: Random, thing: Thing) -> Thing:
    """Give a single person a coloured garment, with some probability."""
    if thing.noun.kind != "person" or thing.plural or thing.name == "astronaut" or rng.random() < 0.6:
        return thing
    female = thing.name in ("woman", "girl")
    garment = rng.choice([name for name in _KINDS["garment"] if female or name != "dress"])
    return replace(thing, wears=garment, wears_colour=rng.choice(NOUNS[garment].colours))


def _any(rng: Random, **weights: int) -> str:
    """Draw a noun: first its kind by weight, then the noun."""
    kind = rng.choices(list(weights), list(weights.values()))[0]
    return rng.choice(_KINDS[kind])


def _other(rng: Random, names: list[str], than: str) -> str:
    return rng.choice([name for name in names if name != than])


def _objects(verb: str) -> list[str]:
    """Return the nouns that can be the object of a verb."""
    allowed = VERBS[verb].objects
    return [name for name, noun in NOUNS.items() if "/" not in name and {name, noun.kind} & allowed]
