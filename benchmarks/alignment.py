"""Measure the alignments of a model of the built-in corpus, English to German, against those of the generator.

    python -m benchmarks.alignment [MODEL] [--pairs 50]
    python -m benchmarks.alignment --train 4000 [--seeds 3]

The generator writes the parts of a scene in an order of its own in each language. Words of the same part are linked:
*are sitting* and *sitzen* are three words and two links. Sentences with a dressed person, two subjects or an owner are
left out. Prints the alignment error rate of each layer, and which layer `nmt align` chooses without knowing the links.
With ``--train``, two small models are trained on other sentences, one of them with guided alignment.
"""

import random
import re
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click

from benchmarks.measure import TRAINED, environment, table
from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Cleaning, Subwords
from nmt.corpora.catalogue import fetch
from nmt.corpora.scenes import english, german
from nmt.corpora.scenes.grammar import sample
from nmt.corpora.scenes.lexicon import PLACES, RELATIONS
from nmt.corpora.scenes.scene import Scene, Thing
from nmt.data.encode import encode_corpus
from nmt.system.files import write_text
from nmt.text.clean import clean
from nmt.text.subwords import learn
from nmt.training.average import average
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.translation.align import align, choose_layer, error_rate, pharaoh
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
MODEL = {"layers": 2, "decoder_layers": 3, "width": 64, "ffn": 128, "heads": 4, "tied": "all", "dropout": 0.1}
TRAINING = {
    "batch": "2048 tokens", "epochs": 12, "label_smoothing": 0.1, "schedule": {"peak": 0.003, "warmup": 100},
    "validation_bleu": False, "validate_every": "3 epochs", "checkpoint_every": "3 epochs",
}  # fmt: skip
GUIDED = 2  # of three decoder layers


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


def train_both(folder: Path, count: int, known: set[str], seed: int) -> dict[str, Path]:
    """Train two small Transformers on so many drawn pairs, one of them guided by the generator's links.

    Args:
        folder: an empty folder.
        count: training pairs; there are a tenth as many of validation.
        known: source sentences to leave out, those of the test.
        seed: of the scenes and of both trainings.

    Returns:
        The model directory of each, by name.
    """
    drawn = [pair for pair in pairs(2 * count, seed) if pair[0] not in known]
    parts = {"valid": drawn[: count // 10], "train": drawn[count // 10 :][:count]}
    for name, part in parts.items():
        for side, language in enumerate(("en", "de")):
            write_text(folder / f"{name}.{language}", "".join(f"{pair[side]}\n" for pair in part))
    write_text(folder / "links", "".join(f"{pharaoh(links)}\n" for _, _, links in parts["train"]))
    files = {name: {language: folder / f"{name}.{language}" for language in ("en", "de")} for name in parts}
    fetch("drawn", "en-de", folder / "raw", mirror=None, limit=None, custom=CustomCorpus.model_validate(files))
    clean(folder / "raw", folder / "clean", Cleaning(), "en-de")
    learn(folder / "clean", folder / "subwords", "en-de", Subwords(size=500))
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    models = {}
    for name, guided in (("no guidance", None), ("guided", {"layer": GUIDED})):
        config = Experiment.model_validate({"model": MODEL, "training": TRAINING | {"guided_alignment": guided}})
        links = folder / "links" if guided else None
        train(folder / "encoded", folder / name, config, seed, "cpu", 1, "alignment/small", alignments=links)
        models[name] = folder / name / "model"
        average(folder / name, folder / "encoded", "best", models[name])
    return models


def measure(name: str, model: Path, drawn: Sequence[Pair]) -> list[str]:
    """Return a row of the table: the error rate of each layer in percent, of the chosen layer, of the diagonal."""
    sources, targets, gold = zip(*drawn, strict=True)
    alignments = align(Translator.load(model, "cpu"), sources, targets)
    (chosen, _), (_, rates) = choose_layer(alignments), choose_layer(alignments, gold)
    layers = ", ".join(f"{100 * rate:.1f}" for rate in rates)
    return [name, layers, str(chosen), f"{100 * rates[chosen - 1]:.1f}", f"{100 * min(rates):.1f}"]


@click.command()
@click.argument("model", type=click.Path(path_type=Path), default=TRAINED)
@click.option("--pairs", "count", type=click.IntRange(1), default=50, help="Sentence pairs.")
@click.option("--seed", default=1, help="Seed of the scenes.")
@click.option("--train", "trained", default=0, help="Train on so many other pairs, with and without guidance.")
@click.option("--seeds", default=1, help="Trainings of each kind.")
def main(model: Path, count: int, seed: int, trained: int, seeds: int) -> None:
    """Print the alignment error rates of MODEL, or of models that are trained for it."""
    drawn = pairs(count, seed)
    rows = [] if trained else [measure(str(model), model, drawn)]
    for number in range(1, seeds + 1) if trained else ():
        with tempfile.TemporaryDirectory() as folder:
            models = train_both(Path(folder), trained, {source for source, _, _ in drawn}, seed + number)
            rows += [measure(f"{name}, seed {number}", path, drawn) for name, path in models.items()]
    headings = ("model", "error rate of each layer, %", "layer chosen without links", "its error rate", "of the best")
    click.echo(table(headings, rows))
    diagonal = [{(i, i) for i in range(min(len(s.split()), len(t.split())))} for s, t, _ in drawn]
    rate = error_rate(diagonal, [links for _, _, links in drawn])
    click.echo(f"\nThe diagonal, word n to word n: {100 * rate:.1f} %. {environment(1)}.")


if __name__ == "__main__":
    main()
