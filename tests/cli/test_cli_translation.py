"""`nmt translate`: raw text in, translations out."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from commands import run
from copytask import copy_lines


@pytest.mark.integration
def test_translate_from_standard_input_and_files(model: Path, tmp_path: Path) -> None:
    lines = "".join(f"{line}\n" for line in copy_lines(5, 4))
    code, piped = run("translate", model, "--device", "cpu", "--beam", 1, text=lines)
    assert code == 0 and len(piped.splitlines()) == 5
    assert run("translate", model, "-", "--device", "cpu", "--beam", 1, text=lines) == (0, piped)
    (tmp_path / "a.txt").write_text(lines)
    code, _ = run("translate", model, tmp_path / "a.txt", "--device", "cpu", "--beam", 1, "--out", tmp_path / "b.txt")
    assert code == 0 and (tmp_path / "b.txt").read_text() == piped


def test_nbest_and_scores_stand_before_the_text(model: Path) -> None:
    lines = ["w1 w2 w3", "", "w4"]
    options = ["translate", model, "--device", "cpu", "--beam", 3]
    text = "".join(f"{line}\n" for line in lines)
    plain = run(*options, text=text)[1].splitlines()
    scored = [row.split("\t") for row in run(*options, "--scores", text=text)[1].splitlines()]
    assert [row[1] for row in scored] == plain and all(float(score) <= 0 for score, _ in scored)
    listed = [row.split("\t") for row in run(*options, "--nbest", 3, "--scores", text=text)[1].splitlines()]
    assert [number for number, *_ in listed] == ["1", "1", "1", "2", "3", "3", "3"]
    assert listed[3] == ["2", "0.000000", ""]
    assert all(float(a[1]) >= float(b[1]) for a, b in itertools.pairwise(listed) if a[0] == b[0])
    assert "--nbest: expected at most --beam, 3, got 4" in run(*options, "--nbest", 4, text=text)[1]


def test_a_source_that_is_cut_is_said_by_all_that_read_pairs(model: Path, tmp_path: Path) -> None:
    (source := tmp_path / "source").write_text("w1 " * 600 + "\nw2\n")
    (target := tmp_path / "target").write_text("w1\nw2\n")
    for command in ("align", "logprob"):
        code, output = run(command, model, source, target, "--device", "cpu")
        assert code == 0 and "1 of 2 sources were cut to 510 pieces, the model's limit" in output


def test_a_line_that_shows_nothing_is_empty(model: Path, tmp_path: Path) -> None:
    text = "w1 w2\n\u200d\n \u200c\ufe0f\u3164\nw4\n"
    translated = run("translate", model, "--device", "cpu", text=text)[1].split("\n")
    assert [bool(line) for line in translated] == [True, False, False, True, False]
    (tmp_path / "cleaned").write_text(text, encoding="utf-8")  # not by this project
    assert run("decode", model, tmp_path / "cleaned", tmp_path / "out", "--device", "cpu")[0] == 0
    assert (tmp_path / "out").read_text().split("\n") == translated


def test_json_is_an_object_a_line(model: Path) -> None:
    options = ["translate", model, "--device", "cpu", "--nbest", 2, "--json"]
    found = [json.loads(line) for line in run(*options, text="W1 w2\n\n")[1].splitlines()]
    assert [each["source"] for each in found] == ["W1 w2", ""]  # as it was given
    assert found[1]["translations"] == [{"text": "", "score": 0.0, "tokens": []}]
    for translation in found[0]["translations"]:
        assert translation["text"] == "".join(translation["tokens"]).replace("▁", " ").strip()
    scores = [translation["score"] for translation in found[0]["translations"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


def test_no_output_replaces_a_file_of_the_model(model: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in model.iterdir()}
    (text := tmp_path / "text").write_text("w1 w2\n")
    for command in (
        ["translate", model, text, "--out", model / "config.json"],
        ["logprob", model, text, text, "--out", model / "cleaning.json"],
        ["decode", model, text, model / "new.txt"],
    ):
        code, output = run(*command, "--device", "cpu")
        assert code == 1 and f"expected an output file, got one in the input {model}; name one elsewhere" in output
    assert before == {file: file.read_bytes() for file in model.iterdir()}


@pytest.mark.parametrize(
    ("mark", "advice"),
    [
        ("translate.json", "an export for CTranslate2; python {}/translate.py translates"),
        ("source.spm", "one of Hugging Face; nmt import {} NEW makes a model directory"),
        ("MLmodel", "a model of MLflow; its model directory is in {}/data"),
    ],
)
def test_an_export_is_no_model_directory(model: Path, tmp_path: Path, mark: str, advice: str) -> None:
    (export := tmp_path / "export").mkdir()
    for name in ("config.json", mark):
        (export / name).write_text("{}")
    (text := tmp_path / "text").write_text("w1\n")
    for command in (
        ["translate", export, text],
        ["translate-text", export, text, tmp_path / "new" / "out"],
        ["ensemble", model, export, tmp_path / "out"],
        ["export", export, tmp_path / "out", "--format", "half"],
    ):
        code, output = run(*command)
        assert code == 1 and f"{export}: expected a model directory, got {advice.format(export)}" in output


def test_figures_of_lines_that_are_done_are_not_left_out(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with other figures, or with whole lines instead of sentences, does not go on where another stopped."""
    settings: list[Any] = []
    monkeypatch.setattr("nmt.cli.translation.write_translations", lambda _, __, made, ___: settings.append(made))
    (text := tmp_path / "text").write_text("w1 w2\n")
    for options in ([], ["--no-split"], ["--attention", tmp_path / "a"], ["--attention", tmp_path / "b"]):
        assert run("translate", model, text, "--out", tmp_path / "out", *options)[0] == 0
    assert all(a != b for a, b in itertools.combinations(settings, 2))


def test_a_command_that_fails_leaves_no_empty_folder(model: Path, tmp_path: Path) -> None:
    assert run("average", tmp_path / "run", tmp_path / "deep" / "er" / "model", "--encoded", tmp_path)[0] == 1
    assert list(tmp_path.iterdir()) == []
