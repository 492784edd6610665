"""Model cards: what they say, and what a stranger's provenance cannot make them say."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import run

from nmt.data.card import model_card, scores_beside
from nmt.system.files import read_json, write_json

METRIC = {"score": 12.345, "low": 10.0, "high": 14.0, "signature": "nrefs:1|tok:13a"}


def write_scores(model: Path, weights: str) -> None:
    provenance = {"weights_sha256": weights, "corpus": "scenes"}
    made = {"test": "test", "decoding": {"decoding": {"beam": 5, "length_penalty": 1.0}}, "provenance": provenance}
    protocols = {"detokenised": {"bleu": METRIC, "chrf": METRIC}, "tokenised": {"bleu": METRIC}}
    write_json(model.parent / "test" / weights / "scores.json", protocols | made)


def front(card: str) -> dict[str, Any]:
    return dict(yaml.safe_load(card.split("---\n")[1]))


def test_a_new_model_says_where_its_scores_will_be(model: Path) -> None:
    card = (model / "README.md").read_text()
    assert card == model_card(model)
    assert front(card)["language"] == ["en", "de"] and front(card)["library_name"] == "nmt"
    assert "Test sets are scored after this folder is written" in card and "`results/tables/custom.md`" in card
    assert "architecture: `transformer`, 1 layers, width 32" in card and "up to update 60" in card


def test_scores_are_those_of_these_weights(tmp_path: Path) -> None:
    model = tmp_path / "best" / "model"
    write_json(model / "provenance.json", {"table": "t", "system": "s", "seed": 1, "weights_sha256": "ours"})
    write_json(model / "cleaning.json", {"languages": "en-de", "cleaning": {}})
    write_scores(model, "others")
    assert scores_beside(model) == [] and "No scores of these weights" in model_card(model, scores=[])
    write_scores(model, "ours")
    code, card = run("card", model)
    assert code == 0 and card.count("12.35 [10.0, 14.0]") == 3 and "`nrefs:1|tok:13a`" in card
    assert "beam 5, length penalty 1.00" in card
    [result] = front(card)["model-index"][0]["results"]
    assert (
        result["metrics"] == [{"type": "bleu", "name": "BLEU, beam 5, length penalty 1.00", "value": 12.35}]
        and result["dataset"]["name"] == "test"
    )


@pytest.mark.parametrize(
    ("corpus", "recorded", "shown"),
    [("scenes", None, "CC0-1.0"), ("mine", None, "not recorded"), ("mine", "CC-BY-4.0", "CC-BY-4.0")],
)
def test_the_licence_of_the_text(tmp_path: Path, corpus: str, recorded: str | None, shown: str) -> None:
    made = {"corpus": corpus} | ({"licence": recorded} if recorded else {})
    write_json(tmp_path / "provenance.json", made)
    write_json(tmp_path / "cleaning.json", {"languages": "en-de"})
    assert f"licence of the text: `{shown}`" in model_card(tmp_path)


def test_a_strangers_provenance_is_only_text(tmp_path: Path) -> None:
    evil = "a`b\n\n# Heading <script>alert(1)</script> [x](http://e) | \u202etxt\x1b[31m\n---\nlanguage: xx"
    keys = ("table", "system", "seed", "selection", "code_version", "corpus", "update", "config", "hardware", "members")
    made: dict[str, Any] = dict.fromkeys((*keys, "valid_loss"), evil)
    made |= {"data": [evil], "versions": {"torch": evil}, "parameters": {"x": 1}, "licence": {"a": evil}}
    write_json(tmp_path / "provenance.json", made)
    write_json(tmp_path / "cleaning.json", {"languages": f"en-{evil}", "cleaning": evil})
    card = model_card(tmp_path, scores=[{"test": evil, "detokenised": evil}, {}])
    assert front(card)["language"][0] == "en" and card.count("\n---\n") == 1
    title, *body = card.split("---\n", 2)[2].strip().splitlines()
    assert title.startswith("# `") and not [line for line in body if line.startswith("# ")]
    for line in (title, *body):
        outside = "".join(line.split("`")[::2])
        assert "<" not in outside and "Heading" not in outside and line.isprintable()
    assert read_json(tmp_path / "provenance.json") == made
