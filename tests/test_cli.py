"""The command line: one message and exit code 1 where something is wrong; translations from raw text."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from copytask import copy_lines

from nmt.cli import main
from nmt.files import write_json


def run(*arguments: object, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=text)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def model(copy_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    settings = (
        "{model: {layers: 1, width: 32, ffn: 64, heads: 2, dropout: 0},"
        " training: {batch: 1000 tokens, updates: 60, schedule: {peak: 0.005, warmup: 20}}}"
    )
    config = folder / "config.yaml"
    config.write_text(settings)
    code, output = run("train", copy_corpus, folder / "run", "--config", config, "--device", "cpu", "--threads", 1)
    assert code == 0, output
    code, output = run("average", folder / "run", folder / "model", "--at", "last", "--encoded", copy_corpus)
    assert code == 0, output
    return folder / "model"


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
        (["translate", "{tmp}/nothing"], "nothing: no such model directory"),
        (["average", "{tmp}", "{tmp}/m", "--at", "epoch x", "--encoded", "{tmp}"], "expected last, best, epoch N"),
        (["subwords", "{tmp}", "{tmp}/s", "--languages", "en-de"], "train.en"),
        (["encode", "{tmp}/latin1", "{tmp}/s", "{tmp}/e", "--languages", "en-de"], "No such file"),
        (["clean", "{tmp}/latin1", "{tmp}/c", "--languages", "en-de"], "train.en, line 2: expected UTF-8"),
    ],
)  # fmt: skip
def test_faults_are_one_message(tmp_path: Path, arguments: list[str], message: str) -> None:
    raw = tmp_path / "latin1"
    raw.mkdir()
    (raw / "train.en").write_bytes(b"fine\ncaf\xe9\n")
    (raw / "train.de").write_bytes(b"gut\nkaffee\n")
    write_json(raw / "corpus.json", {"corpus": "c", "languages": "en-de", "splits": {"train": {}}, "synthetic": False})
    code, output = run(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 1 and message in output and "Traceback" not in output
    assert output.startswith("nmt: ") and {p.name for p in tmp_path.iterdir()} <= {"latin1", "run"}


def test_doctor_and_help() -> None:
    code, output = run("doctor")
    assert code == 0 and "torch" in output and "threads" in output
    assert all(stage in run("--help")[1] for stage in ("download", "clean", "train", "translate"))
