"""The command line: one message and exit code 1 where something is wrong; translations from raw text."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run
from copytask import copy_lines

from nmt.system.files import write_json


def test_translate_from_standard_input_and_files(model: Path, tmp_path: Path) -> None:
    lines = "".join(f"{line}\n" for line in copy_lines(5, 4))
    code, piped = run("translate", model, "--device", "cpu", "--beam", 1, text=lines)
    assert code == 0 and len(piped.splitlines()) == 5
    (tmp_path / "a.txt").write_text(lines)
    code, _ = run("translate", model, tmp_path / "a.txt", "--device", "cpu", "--beam", 1, "--out", tmp_path / "b.txt")
    assert code == 0 and (tmp_path / "b.txt").read_text() == piped


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "{tmp}", "{tmp}/run", "--config", "{training: {batsh: 3}}"], "unknown key; did you mean 'batch'"),
        (["train", "{tmp}", "{tmp}/run", "--config", "{training: {epochs: 1}}"], "meta.json: no such file"),
        (["train", "{tmp}", "{tmp}/latin1", "--config", "{training: {epochs: 1}}"], "got one that another stage made"),
        (["train", "{tmp}", "{tmp}/run", "--name", "run"], "--name: expected TABLE/SYSTEM, each of letters, digits"),
        (["translate", "{tmp}/nothing"], "nothing: no such model directory"),
        (["translate", "{tmp}", "--length-penalty", "400"], "expected a number from -10 to 10, got 400.0"),
        (["translate", "{tmp}", "--length-penalty", "nan"], "expected a number from -10 to 10, got nan"),
        (["clean", "{tmp}", "{tmp}/c", "--languages", "en-en"], "--languages: expected two, source-target, e.g. en-de"),
        (["page", "{tmp}", "{tmp}/latin1"], "latin1: expected a file to write, got a folder"),
        (["overview", "{tmp}", "{tmp}/latin1/train.de"], "tables/none.json: expected a table as"),
        (["average", "{tmp}", "{tmp}/m", "--at", "epoch x", "--encoded", "{tmp}"], "expected last, best, epoch N"),
        (["subwords", "{tmp}", "{tmp}/s", "--languages", "en-de"], "train.en"),
        (["encode", "{tmp}/latin1", "{tmp}/s", "{tmp}/e", "--languages", "en-de"], "subwords.json: no such file"),
        (["clean", "{tmp}/latin1", "{tmp}/c", "--languages", "en-de"], "train.en, line 2: expected UTF-8"),
    ],
)  # fmt: skip
def test_faults_are_one_message(tmp_path: Path, arguments: list[str], message: str) -> None:
    raw = tmp_path / "latin1"
    raw.mkdir()
    (raw / "train.en").write_bytes(b"fine\ncaf\xe9\n")
    (raw / "train.de").write_bytes(b"gut\nkaffee\n")
    write_json(raw / "corpus.json", {"corpus": "c", "languages": "en-de", "splits": {"train": {}}, "synthetic": False})
    (tmp_path / "tables").mkdir()
    write_json(tmp_path / "tables" / "none.json", {})
    code, output = run(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 1 and message in output and "Traceback" not in output
    assert output.startswith("nmt: ") and {p.name for p in tmp_path.iterdir()} <= {"latin1", "run", "tables"}


@pytest.mark.parametrize(("command", "option"), [(["reproduce", "scenes"], "--minutes"), (["serve", "m"], "--rate")])
@pytest.mark.parametrize("value", ["nan", "0", "-1", "x"])
def test_an_amount_is_a_number_above_0(command: list[str], option: str, value: str) -> None:
    code, output = run(*command, option, value)
    assert code == 2 and option in output and value in output and "Traceback" not in output


def test_too_little_memory_is_said_to_be_that(copy_corpus: Path, tmp_path: Path) -> None:
    settings = "{model: {layers: 1, width: 99999998, heads: 2}, training: {epochs: 1}}"
    code, output = run("train", copy_corpus, tmp_path / "run", "--config", settings, "--device", "cpu")
    assert code == 1 and "nmt: not enough memory: " in output and "Traceback" not in output


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aksharamukha", None)
    monkeypatch.delitem(sys.modules, "aksharamukha.transliterate", raising=False)
    raw = tmp_path / "raw"
    raw.mkdir()
    for language, word in (("hi", "नमस्ते"), ("en", "hello")):
        (raw / f"train.{language}").write_text(f"{word}\n")
    write_json(raw / "corpus.json", {"corpus": "c", "languages": "hi-en", "splits": {"train": {}}, "synthetic": False})
    recipe = ["--languages", "hi-en", "--config", "{transliterate: hk}", "--jobs", 1]
    code, output = run("clean", raw, tmp_path / "clean", *recipe)
    assert code == 1 and "aksharamukha" in output and "pip install -r envs/requirements.txt" in output
    assert not (tmp_path / "clean").exists()


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


def test_json_is_an_object_a_line(model: Path) -> None:
    options = ["translate", model, "--device", "cpu", "--nbest", 2, "--json"]
    found = [json.loads(line) for line in run(*options, text="W1 w2\n\n")[1].splitlines()]
    assert [each["source"] for each in found] == ["W1 w2", ""]  # as it was given
    assert found[1]["translations"] == [{"text": "", "score": 0.0, "tokens": []}]
    for translation in found[0]["translations"]:
        assert translation["text"] == "".join(translation["tokens"]).replace("▁", " ").strip()
    scores = [translation["score"] for translation in found[0]["translations"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


def test_help_waits_for_no_library() -> None:
    code = "import sys, nmt.cli.main; print([name for name in ('pydantic', 'yaml', 'torch') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_doctor_and_help() -> None:
    code, output = run("doctor")
    assert code == 0 and "torch" in output and "threads" in output
    assert all(stage in run("--help")[1] for stage in ("download", "clean", "train", "translate"))
