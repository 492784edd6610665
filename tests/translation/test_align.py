"""Word alignments: against loops over the attention weights, and the files of links."""

import json
import math
import random
from pathlib import Path

import pytest
from commands import run
from marian import own_model, sentences, write_texts

from benchmarks.alignment import pairs
from nmt.translation.align import Alignment, align, choose_layer, error_rate, likelihood
from nmt.translation.translator import Translation, Translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory, source.en and target.de."""
    place = tmp_path_factory.mktemp("align")
    (place / "model").mkdir()
    own_model(write_texts(place), place / "model")
    for side, name in (("source", "source.en"), ("target", "target.de")):
        (place / name).write_text("".join(f"{line}\n" for line in [*sentences(side, 6, 8), "", "Bank"]))
    return place


def expected_links(translator: Translator, source: str, target: str, layer: int) -> set[tuple[int, int]]:
    """Each target word's most attended source word, by loops."""
    ids = translator.target.encode([target])[0]
    maps = translator.attentions(source, Translation("", 0.0, ids))
    weights = maps.weights["source"][layer - 1].mean(0).tolist()

    def places(pieces: list[str]) -> list[list[int]]:
        found: list[list[int]] = []
        for place, piece in enumerate(pieces):
            if piece.startswith("▁"):
                found.append([])
            found[-1].append(place)
        return found

    links = set()
    for j, rows in enumerate(places(maps.target[1:-1])):
        looks = [sum(weights[t][s + 1] for t in rows for s in columns) for columns in places(maps.source[1:-1])]
        links.add((looks.index(max(looks)), j))
    return links


def test_each_target_word_is_linked_to_the_source_word_it_looks_at_most(folder: Path) -> None:
    translator = Translator.load(folder / "model", "cpu", 1)
    sources, targets = sentences("source", 6, 8), sentences("target", 6, 8)
    for alignment, source, target in zip(align(translator, sources, targets), sources, targets, strict=True):
        cleaned = translator.clean(source), translator.clean(target, 1)
        assert (" ".join(alignment.source), " ".join(alignment.target)) == cleaned
        for layer in (1, 2):
            assert alignment.links[layer - 1] == expected_links(translator, *cleaned, layer)
        assert {j for _, j in alignment.links[0]} == set(range(len(alignment.target)))


def test_the_command_writes_pharaoh_and_json_and_chooses_a_layer(folder: Path, tmp_path: Path) -> None:
    files = [folder / "model", folder / "source.en", folder / "target.de", "--threads", 1, "--device", "cpu"]
    outputs = {layer: run("align", *files, "--layer", layer) for layer in (1, 2)}
    assert all(code == 0 for code, _ in outputs.values()) and outputs[1] != outputs[2]
    code, output = run("align", *files)
    first, second, *rest = output.splitlines()
    assert first.startswith("layer 1: log-likelihood of the links -") and code == 0
    chosen = 1 if first.endswith("(used)") else 2
    assert (first + second).count("(used)") == 1 and rest == outputs[chosen][1].splitlines()
    code, output = run("align", *files, "--valid", *files[1:3], "--out", tmp_path / "by valid")
    assert output.splitlines() == [first, second] and (tmp_path / "by valid").read_text() == outputs[chosen][1]
    heads = [run("align", *files, "--layer", 1, "--head", head) for head in (1, 2)]
    assert all(code == 0 for code, _ in heads) and len({heads[0][1], heads[1][1], outputs[1][1]}) > 1
    lines = outputs[1][1].splitlines()
    assert len(lines) == 8 and lines[6:] == ["", "0-0"]
    code, output = run("align", *files, "--layer", 1, "--json")
    objects = [json.loads(line) for line in output.splitlines()]
    assert [" ".join(f"{i}-{j}" for i, j in o["links"]) for o in objects] == lines
    (tmp_path / "gold").write_text(outputs[1][1])
    code, output = run("align", *files, "--gold", tmp_path / "gold", "--out", tmp_path / "found")
    assert code == 0 and (tmp_path / "found").read_text() == outputs[1][1]
    before = (folder / "model" / "config.json").read_text()
    code, refused = run("align", *files, "--out", folder / "model" / "config.json")
    assert code == 1 and "config.json: expected an output file, got one in the input" in refused
    assert (folder / "model" / "config.json").read_text() == before
    assert output.startswith("layer 1: alignment error rate 0.0000 (used)\nlayer 2: alignment error rate 0.")


@pytest.mark.parametrize(
    ("gold", "message"),
    [("0-0\n", "expected the alignments of 8 pairs, one a line, got 1 lines"), ("0-0\n" * 9, "got 9 lines"),
     ("0-0\n1:1\n" + "\n" * 6, "gold, line 2: expected links i-j between words counted from 0, got '1:1'"),
     ("0-99\n" + "\n" * 7, "gold, line 1: expected words below")],
)  # fmt: skip
def test_alignments_of_another_text_are_one_message(folder: Path, tmp_path: Path, gold: str, message: str) -> None:
    (tmp_path / "gold").write_text(gold)
    files = [folder / "model", folder / "source.en", folder / "target.de", "--threads", 1, "--gold", tmp_path / "gold"]
    code, output = run("align", *files)
    assert code == 1 and message in output and len(output.splitlines()) == 1
    code, output = run("align", *files[:-2], "--layer", 3)
    assert code == 1 and "--layer: expected 1 to 2, got 3" in output
    code, output = run("align", *files[:-2], "--head", 99)
    assert code == 1 and "--head: expected 1 to " in output


def test_error_rates() -> None:
    assert error_rate([{(0, 0), (1, 1)}, set()], [{(0, 0)}, {(2, 1)}]) == pytest.approx(1 - 2 * 1 / 4)
    assert error_rate([set()], [set()]) == 0


def test_the_likelihood_of_links_equals_a_loop() -> None:
    found = [(Alignment(["a", "b"], ["x", "y", "x"], []), {(0, 0), (1, 1), (0, 2)}),
             (Alignment(["a", "c"], ["x", "z"], []), {(0, 0), (0, 1)})]  # fmt: skip
    links = [("a", "x"), ("b", "y"), ("a", "x"), ("a", "x"), ("a", "z")]
    total = 0.0
    for n, (source, target) in enumerate(links):
        others = links[:n] + links[n + 1 :]
        smooth = sum(word == target for _, word in links) / len(links)
        total += math.log((others.count((source, target)) + smooth) / (sum(s == source for s, _ in others) + 1))
    assert likelihood(found) == pytest.approx(total / len(links), abs=1e-12)
    assert likelihood([]) == 0


@pytest.mark.parametrize("count", [20, 50])
def test_the_layer_with_the_best_links_is_chosen_without_the_true_ones(count: int) -> None:
    """Layers of links of different quality: on scenes, the likelihood orders them like the error rate."""
    numbers, drawn = random.Random(1), pairs(count, 2)
    layers: list[list[set[tuple[int, int]]]] = [[] for _ in range(5)]
    for source, target, links in drawn:
        most = len(source.split()) - 1
        true = {j: min((i for i, k in links if k == j), default=0) for j in range(len(target.split()))}
        worse = {j: i if numbers.random() < 0.8 else numbers.randint(0, most) for j, i in true.items()}
        shifted = {j: min(i + 1, most) for j, i in true.items()}
        diagonal = {j: min(j, most) for j in true}
        anything = {j: numbers.randint(0, most) for j in true}
        for layer, found in zip(layers, (diagonal, worse, true, shifted, anything), strict=True):
            layer.append({(i, j) for j, i in found.items()})
    alignments = [
        Alignment(source.split(), target.split(), list(links))
        for (source, target, _), links in zip(drawn, zip(*layers, strict=True), strict=True)
    ]
    rates = choose_layer(alignments, [links for _, _, links in drawn])
    chosen, likelihoods = choose_layer(alignments)
    assert chosen == rates[0] == 3
    assert sorted(range(5), key=likelihoods.__getitem__)[-2:] == [1, 2]  # the second best too
    assert choose_layer([Alignment(["a"], ["b"], [{(0, 0)}] * 3)])[0] == 3  # equally good ones: the last


def test_links_of_scenes_join_the_words_of_a_part() -> None:
    drawn = {source: (target.split(), links) for source, target, links in pairs(300, 1)}  # each sentence is checked
    assert len(drawn) > 250
    same = {"two": "zwei", "three": "drei", "four": "vier", "red": "rot", "small": "klein", "bench": "bank", ".": "."}
    for source, (target, links) in drawn.items():
        for i, word in enumerate(source.split()):
            linked = [target[j] for k, j in sorted(links) if k == i]
            assert linked or word in ("to", ",")
            if word in same:
                assert len(linked) == 1 and linked[0].startswith(same[word])
