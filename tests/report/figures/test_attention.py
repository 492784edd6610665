"""Attention to look at: joined words against a loop, labels, figures, and the commands that draw them."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import run
from PIL import Image

from nmt.report.figures import heatmaps
from nmt.report.figures.attention_maps import SubLayer, joined, select, sub_layer, words
from nmt.report.figures.heatmaps import CELL, Panel, draw, readable
from nmt.report.write import by_word
from nmt.system.errors import ConfigError
from nmt.translation.translator import Attentions, Translator

PIECES = ["<s>", "▁two", "▁pl", "ay", "ing", "▁do", "gs", "</s>"]
WORDS = [["<s>"], ["▁two"], ["▁pl", "ay", "ing"], ["▁do", "gs"], ["</s>"]]


def random_layer(rows: list[str], columns: list[str]) -> SubLayer:
    torch.manual_seed(1)
    return SubLayer(torch.rand(2, 3, len(rows), len(columns)).softmax(-1), rows, columns)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (PIECES, WORDS),
        (["▁a", "<unk>", "▁b"], [["▁a"], ["<unk>"], ["▁b"]]),  # a vocabulary of words: an unknown one stands alone
        (["▁", "<unk>", "s", "▁b"], [["▁", "<unk>", "s"], ["▁b"]]),
        (["ay", "▁b", "</s>"], [["ay"], ["▁b"], ["</s>"]]),
        (["<s>", "ay", "s", "</s>"], [["<s>"], ["ay", "s"], ["</s>"]]),
    ],
)
def test_pieces_are_grouped_by_word(pieces: list[str], expected: list[list[str]]) -> None:
    assert words(pieces) == expected


def test_joining_words_equals_an_explicit_loop_and_keeps_the_sums_of_rows() -> None:
    layer = random_layer(PIECES[1:], PIECES)
    found = joined(layer)
    assert found.rows == ["two", "playing", "dogs", "</s>"] and found.columns == ["<s>", *found.rows]
    starts = [0, 1, 2, 5, 7, 8]  # of the words in PIECES
    for r, c in np.ndindex(4, 5):
        rows = range(starts[r + 1] - 1, starts[r + 2] - 1)
        columns = range(starts[c], starts[c + 1])
        expected = sum(layer.weights[:, :, i, j] for i in rows for j in columns) / len(rows)
        torch.testing.assert_close(found.weights[:, :, r, c], expected)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(2, 3, 4))


def test_a_map_over_a_picture_is_the_mean_of_a_words_pieces() -> None:
    rows = np.random.default_rng(1).random((7, 49))
    found = by_word({"target": PIECES[1:], "image_rows": rows.tolist()})
    assert [overlay.title for overlay in found] == ["two", "playing", "dogs", "⟨/s⟩"]
    for overlay, pieces in zip(found, ([0], [1, 2, 3], [4, 5], [6]), strict=True):
        np.testing.assert_allclose(overlay.weights, sum(rows[i] for i in pieces) / len(pieces))


def test_layers_and_heads_are_chosen_by_number_or_averaged() -> None:
    layer = random_layer(["▁a"], ["▁b", "▁c"])
    chosen, layers, heads = select(layer, 2, "all")
    assert (layers, heads) == ([2], [1, 2, 3]) and torch.equal(chosen.weights, layer.weights[1:])
    chosen, layers, heads = select(layer, "all", 3)
    assert (layers, heads) == ([1, 2], [3]) and torch.equal(chosen.weights, layer.weights[:, 2:])
    chosen, _, heads = select(layer, "all", "mean")
    assert heads == ["mean"] and torch.allclose(chosen.weights[:, 0], layer.weights.mean(1))
    with pytest.raises(ConfigError, match="--head: expected 1 to 3, mean or all, got 4"):
        select(layer, 1, 4)
    with pytest.raises(ConfigError, match="--layer: expected 1 to 2 or all, got 0"):
        select(layer, 0, 1)


def test_a_sub_layer_comes_with_its_labels() -> None:
    weights = {"source": torch.zeros(1, 1, 2, 3), "decoder": torch.zeros(1, 1, 2, 2)}
    found = Attentions(["<s>", "▁x", "</s>"], ["<s>", "▁y", "</s>"], weights)
    for part in ("source", "decoder"):
        layer = sub_layer(found, part)  # type: ignore[arg-type]
        assert layer.weights.shape[2:] == (len(layer.rows), len(layer.columns))
    assert sub_layer(found, "decoder").columns == ["<s>", "▁y"] and sub_layer(found, "decoder").rows == ["▁y", "</s>"]
    with pytest.raises(ConfigError, match=r"this model has \(source, decoder\), got encoder"):
        sub_layer(found, "encoder")
    with pytest.raises(ConfigError, match="without attention"):
        sub_layer(Attentions([], [], {}), "source")


def test_labels_are_readable() -> None:
    assert readable(["<s>", "▁pl", "ay", "▁", "<unk>", "</s>"]) == ["⟨s⟩", "pl", "·ay", "␣", "⟨unk⟩", "⟨/s⟩"]
    assert readable(["two", "dog&apos;s"]) == ["two", "dog's"]


def panels(count: int, rows: list[str], columns: list[str]) -> list[Panel]:
    numbers = np.random.default_rng(0)
    return [Panel(f"head {n}", numbers.random((len(rows), len(columns))), rows, columns) for n in range(count)]


@pytest.mark.integration
def test_figures_grow_with_labels_and_panels_and_their_svg_stays_the_same(tmp_path: Path) -> None:
    rows, columns = [f"▁r{i}" for i in range(4)], [f"▁c{i}" for i in range(40)]
    draw(panels(1, rows, columns), "one", tmp_path / "one")
    draw(panels(3, rows, columns), "three", tmp_path / "three", across=1)
    sizes = {name: Image.open(tmp_path / f"{name}.png").size for name in ("one", "three")}
    assert sizes["one"][0] >= 40 * CELL * 160 and sizes["three"][0] == sizes["one"][0]
    assert sizes["three"][1] >= sizes["one"][1] + 2 * 4 * CELL * 160
    first = (tmp_path / "one.svg").read_bytes()
    draw(panels(1, rows, columns), "one", tmp_path / "one")
    assert (tmp_path / "one.svg").read_bytes() == first


def test_dollars_are_not_taken_for_formulas(tmp_path: Path) -> None:
    draw(panels(1, ["▁$\\x", "▁y$"], ["▁$1_{", "▁$"]), "$a_{ and $", tmp_path / "money")
    assert (tmp_path / "money.png").exists()


def test_a_script_without_a_font_is_one_warning_that_names_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        heatmaps, "_installed", lambda: [("DejaVu Sans", heatmaps.font_manager.findfont(heatmaps.BASE))]
    )
    draw(panels(1, ["▁कुत्ता"], ["▁小狗"]), "scripts", tmp_path / "scripts")
    [told] = capsys.readouterr().err.splitlines()
    assert re.search(r"\(CJK, DEVANAGARI\).*fonts-noto-cjk fonts-noto-core", told)
    assert (tmp_path / "scripts.svg").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(panels(1, ["▁μικρό"], ["▁собака"]), "Greek, Cyrillic", tmp_path / "greek")
    assert capsys.readouterr().err == ""


def test_fonts_are_chosen_by_what_they_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    covered = {"base": "abc", "two": "αβ", "three": "αβγ", "other": "жз"}
    monkeypatch.setattr(heatmaps, "_characters", lambda path: frozenset(map(ord, covered.get(path, covered["base"]))))
    monkeypatch.setattr(heatmaps, "_installed", lambda: [(name.title(), name) for name in covered])
    assert heatmaps.font_families("a b") == [heatmaps.BASE]
    assert heatmaps.font_families("aαγж") == [heatmaps.BASE, "Three", "Other"]


def test_the_commands_draw_what_their_json_says(model: Path, tmp_path: Path) -> None:
    sentence = "w1 w2 w3 w4"
    code, output = run(
        "attention", model, sentence, "--out", tmp_path / "a", "--part", "encoder", "--head", "mean", "--device", "cpu"
    )
    assert code == 0, output
    found = json.loads((tmp_path / "a" / "encoder.json").read_text())
    assert found["rows"] == found["columns"] == ["<s>", "▁w1", "▁w2", "▁w3", "▁w4", "</s>"]
    assert (found["layers"], found["heads"], found["source"]) == ([1], ["mean"], sentence)
    np.testing.assert_allclose(np.sum(found["weights"], -1), 1, atol=1e-5)
    text = f"{sentence}\n\nw5\n"
    code, translated = run("translate", model, "--attention", tmp_path / "t", "--device", "cpu", text=text)
    assert code == 0 and len(translated.splitlines()) == 3
    names = {f"{n}.{ending}" for n in (1, 3) for ending in ("png", "svg", "json")}  # line 2 is empty
    assert {path.name for path in (tmp_path / "t").iterdir()} == names
    first = json.loads((tmp_path / "t" / "1.json").read_text())
    assert (
        np.shape(first["weights"]) == (1, 2, len(first["rows"]), 6)
        and first["translation"] == translated.splitlines()[0]
    )


def test_a_long_line_has_weights_but_no_figure(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.png").touch()  # of an earlier line
    options = ["--attention", tmp_path / "t", "--device", "cpu"]
    code, output = run("translate", model, *options, text="w1 " * 119 + "\n")
    assert code == 0 and "rows or columns, more than 120; give a single sentence" in output
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["1.json"]


def test_a_model_without_attention_is_refused_before_it_translates(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "has_attention", False)
    code, output = run("translate", model, "--attention", tmp_path / "t", "--device", "cpu", text="w1\n")
    assert code == 1 and "--attention: expected a model with attention" in output and not (tmp_path / "t").exists()


def test_a_file_is_no_sentence(model: Path, tmp_path: Path) -> None:
    (tmp_path / "one.en").write_text("w1\n")
    code, output = run("attention", model, tmp_path / "one.en", "--out", tmp_path / "a")
    assert code == 1 and "one.en; give a sentence in quotes" in output and not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "2"], "--layer: expected 1 to 1 or all, got 2"),
        (["--layer", "top"], "--layer: expected a number from 1 or all, got 'top'"),
        (["--image", "p.png", "--words"], "--image: expected neither --part nor --words beside it"),
        (["--image", "p.png", "--part", "encoder"], "--image: expected neither --part nor --words beside it"),
        (["--head", "-1"], "--head: expected a number from 1, mean or all, got '-1'"),
    ],
)
def test_wrong_choices_are_one_message(model: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    code, output = run("attention", model, "w1", "--out", tmp_path / "a", *arguments)
    assert code == 1 and message in output and not list(tmp_path.glob("a/*"))
