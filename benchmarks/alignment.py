"""Measure the alignments of a model of the built-in corpus, English to German, against those of the generator.

    python -m benchmarks.alignment [MODEL] [--pairs 50]

The generator writes the parts of a scene in an order of its own in each language. Words of the same part are linked:
*are sitting* and *sitzen* are three words and two links. Sentences with a dressed person, two subjects or an owner are
left out. Prints the alignment error rate of each layer.
"""

import random
import re
from itertools import chain
from pathlib import Path

import click

from benchmarks.measure import TRAINED
from nmt.corpora.scenes import english, german
from nmt.corpora.scenes.grammar import sample
from nmt.corpora.scenes.lexicon import PLACES, RELATIONS
from nmt.corpora.scenes.scene import Scene, Thing
from nmt.translation.align import align, choose_layer, error_rate
from nmt.translation.translator import Translator

Pair = tuple[str, str, set[tuple[int, int]]]
Words = list[tuple[str, set[str]]]  # words, and the parts of the scene that each writes
ORDERS = {  # the parts of a clause in English and in German, by pattern
    "exists": ("is subject where", "where is subject"),
    "located": ("subject is where", "subject is where"),
    "acting": ("subject verb where", "subject verb where"),
    "giving": ("subject verb target to receiver", "subject verb receiver target"),
    "handling": ("subject verb target", "subject verb target"),
    "handling somewhere": ("where , subject verb target", "where verb subject target"),
}


def phrase(name: str, thing: Thing, words: str) -> Words:
    """A noun phrase, whose words have the same order in both languages."""
    own, *garment = re.split(r" (?=in )", words, maxsplit=1)
    roles = ["article"] * (thing.definite or not thing.plural) + ["number"] * thing.plural
    roles += ["size"] * bool(thing.size) + ["colour"] * bool(thing.colour) + ["noun"]
    tagged: Words = [(word, {f"{name} {role}"}) for word, role in zip(own.split(), roles, strict=True)]
    if thing.wears:
        in_, *rest = garment[0].split() if garment else own.split()
        worn = Thing(thing.wears, definite=thing.definite, colour=thing.wears_colour)
        tagged += [(in_, {f"{name} in"}), *phrase(f"{name} garment", worn, " ".join(rest))]
    return tagged


def pairs(count: int, seed: int) -> list[Pair]:
    """Draw scenes; return their tokenised, lowercased sentences and links."""
    rng, found = random.Random(seed), list[Pair]()
    while len(found) < count:
        if pair := sentences(sample(rng)):
            found.append(pair)
    return found


def sentences(scene: Scene) -> Pair | None:
    """The tokenised, lowercased sentences and their links i-j; None for patterns whose words this cannot tell apart."""
    somewhere = " somewhere" if scene.pattern == "handling" and scene.place else ""
    if (
        scene.pattern == "owning"
        or scene.companion
        or any(thing and thing.wears for thing in (scene.subject, scene.object, scene.receiver))
    ):
        return None
    tagged = [_clause(scene, order.split(), side) for side, order in enumerate(ORDERS[scene.pattern + somewhere])]
    links = {(i, j) for i, (_, a) in enumerate(tagged[0]) for j, (_, b) in enumerate(tagged[1]) if a & b}
    source, target = (" ".join(word for word, _ in words) for words in tagged)
    plain = [module.clause(scene).replace(",", " ,") for module in (english, german)]
    assert [f"{text} ." for text in plain] == [source, target], (plain, source, target)
    return source.lower(), target.lower(), links


def _clause(scene: Scene, order: list[str], side: int) -> Words:
    module = (english, german)[side]
    cases = {"subject": "nominative", "receiver": "dative", "target": "accusative"}
    parts: list[Words] = []
    for part in order:
        if part in cases:
            thing = {"subject": scene.subject, "receiver": scene.receiver, "target": scene.object}[part]
            assert thing
            arguments = () if side == 0 else (cases[part],)
            parts.append(phrase(part, thing, module.noun_phrase(thing, *arguments)))
        elif part == "where":
            parts.append(_where(scene, side))
        elif part in ("verb", "is"):
            be = "are" if scene.plural else "is"
            if part == "is":
                words = (["there", be] if scene.pattern == "exists" else [be]) if side == 0 else [german._rests(scene)]
            else:
                words = [be, *english._verb(scene).split()] if side == 0 else [german._verb(scene)]
            parts.append([(word, {"verb"}) for word in words])
        else:
            parts.append([(part, set())])
    return [*chain.from_iterable(parts), (".", {"."})]


def _where(scene: Scene, side: int) -> Words:
    """A prepositional phrase; a contraction such as *im* writes preposition and article."""
    table, key = (PLACES, scene.place) if scene.place else (RELATIONS, scene.relation)
    assert key
    thing = Thing(scene.place, definite=True) if scene.place else scene.object
    assert thing
    preposition = table[key][side].split()
    tagged: Words = [(word, {"preposition"}) for word in preposition]
    noun = phrase("place", thing, english.noun_phrase(thing) if side == 0 else german.noun_phrase(thing, "dative"))
    contracted = german._CONTRACTIONS.get(f"{tagged[-1][0]} {noun[0][0]}") if side else None
    if contracted:
        return [*tagged[:-1], (contracted, tagged[-1][1] | noun[0][1]), *noun[1:]]
    return tagged + noun


@click.command()
@click.argument("model", type=click.Path(path_type=Path), default=TRAINED)
@click.option("--pairs", "count", type=click.IntRange(1), default=50, help="Sentence pairs.")
@click.option("--seed", default=1, help="Seed of the scenes.")
def main(model: Path, count: int, seed: int) -> None:
    """Print the alignment error rate of each layer of MODEL."""
    sources, targets, gold = zip(*pairs(count, seed), strict=True)
    alignments = align(Translator.load(model, "cpu"), sources, targets)
    for layer, rate in enumerate(choose_layer(alignments, None, gold)[1], 1):
        click.echo(f"layer {layer}: alignment error rate {rate:.3f}")
    diagonal = [{(i, i) for i in range(min(len(a.source), len(a.target)))} for a in alignments]
    click.echo(f"the diagonal, word n to word n: {error_rate(diagonal, gold):.3f}")


if __name__ == "__main__":
    main()
