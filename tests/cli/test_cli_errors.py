"""Errors that a user can fix: one message and exit code 1."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import run

from nmt.cli.errors import explain
from nmt.system.errors import ConfigError
from nmt.system.files import write_json


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "{tmp}", "{tmp}/run", "--config", "{training: {batsh: 3}}"], "unknown key; did you mean 'batch'"),
        (["train", "{tmp}", "{tmp}/run", "--config", "{training: {epochs: 1}}"], "meta.json: no such file"),
        (["train", "{tmp}", "{tmp}/latin1", "--config", "{training: {epochs: 1}}"], "got the output of another stage"),
        (["train", "{tmp}", "{tmp}/run", "--name", "run"], "--name: expected TABLE/SYSTEM, each of letters, digits"),
        (["translate", "{tmp}/nothing"], "nothing: no such model directory; expected a config.json in it, as in"),
        (["translate", "{tmp}/run"], "as in demo; there is {tmp}/run/best/model"),
        (["translate", "{tmp}/run/best"], "as in demo; there is {tmp}/run/best/model"),
        (["translate", "{tmp}"], "as in demo; there is {tmp}/run/best/model"),
        (["translate", "{tmp}", "Two dogs."], "Two dogs.: no such file; check the path, or for text: echo 'Two dogs.'"),
        (["translate", "{tmp}", "--length-penalty", "400"], "expected a number from -10 to 10, got 400.0"),
        (["translate", "{tmp}", "--length-penalty", "nan"], "expected a number from -10 to 10, got nan"),
        (["translate", "{tmp}", "--sampling", "--temperature", "nan"], "expected a finite number, got NaN"),
        (["translate", "{tmp}", "--sampling", "--temperature", "-1"], "--temperature: expected 0.001 or more, got"),
        (["translate", "{tmp}", "--top-p", "0.9"], "--top-p needs --sampling, got false"),
        (["translate", "{tmp}", "--sampling", "--beam", "4"], "--sampling needs --beam 1, got 4"),
        (["translate", "{tmp}", "--sampling", "--nbest", "4"], "--nbest must not exceed --samples, got 4 and 1"),
        (["clean", "{tmp}", "{tmp}/c", "--languages", "en-en"], "--languages: expected two, source-target, e.g. en-de"),
        (["page", "{tmp}", "{tmp}/latin1"], "latin1: expected a folder to write that is new"),
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
    write_json(tmp_path / "run" / "best" / "model" / "config.json", {})
    (tmp_path / "tables").mkdir()
    write_json(tmp_path / "tables" / "none.json", {})
    code, output = run(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 1 and message.replace("{tmp}", str(tmp_path)) in output and "Traceback" not in output
    assert output.startswith("nmt: ") and {p.name for p in tmp_path.iterdir()} <= {"latin1", "run", "tables"}


def test_too_little_memory_is_said_to_be_that(copy_corpus: Path, tmp_path: Path) -> None:
    ffn = 2 * 10**13  # beyond the address space of any machine, so the allocation fails at once
    settings = f"{{model: {{layers: 1, width: 8, ffn: {ffn}, heads: 2}}, training: {{epochs: 1}}}}"
    code, output = run("train", copy_corpus, tmp_path / "run", "--config", settings, "--device", "cpu")
    assert code == 1 and "nmt: not enough memory: " in output and "Traceback" not in output


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    raw = tmp_path / "raw"
    raw.mkdir()
    for language, word in (("is", "halló"), ("ga", "dia")):
        (raw / f"train.{language}").write_text(f"{word}\n")
    write_json(raw / "corpus.json", {"corpus": "c", "languages": "is-ga", "splits": {"train": {}}, "synthetic": False})
    recipe = ["--languages", "is-ga", "--config", "{tokenize: moses}", "--jobs", 1]
    code, output = run("clean", raw, tmp_path / "clean", *recipe)
    assert code == 1 and "sacremoses" in output and "python3 envs/install.py run" in output
    assert not (tmp_path / "clean").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("--beam: wrong"), "--beam: wrong"),
        (PermissionError(13, "Permission denied", "out"), "out: Permission denied; check space, permissions and path"),
        (OSError("disk full"), "writing: disk full; check space"),
        (shutil.Error([("from", "to", "no space left")]), "to: no space left; check space"),
        (ModuleNotFoundError("x", name="mlflow.pyfunc"), "needs the package mlflow.pyfunc, which is not installed"),
        (
            ModuleNotFoundError("x", name="sklearn.svm"),
            "python3 envs/install.py run images (or pip install -r envs/images",
        ),
        (MemoryError(), "not enough memory: choose a smaller training.batch"),
        (
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            "not enough memory: [Errno 12] Cannot allocate",
        ),
        (ImportError("x.so: failed to map segment from shared object"), "not enough memory: x.so: failed to map"),
        (RuntimeError("can't start new thread"), "not enough memory: can't start new thread; choose"),
        (OSError(errno.ENOSPC, "No space left on device", "in", None, "out"), "out: No space left on device; check"),
        (RuntimeError("CUDA out of memory. Tried"), "not enough memory: CUDA out of memory. Tried; choose a smaller"),
    ],
)
def test_errors_that_a_user_can_fix_have_a_message(error: Exception, message: str) -> None:
    assert message in (explain(error) or "")


@pytest.mark.parametrize(
    "error", [BrokenPipeError(), ModuleNotFoundError("x", name="nmt.x"), RuntimeError("a bug"), KeyError("a bug")]
)
def test_other_errors_have_none(error: Exception) -> None:
    assert explain(error) is None


@pytest.mark.integration
def test_a_limit_of_memory_that_is_too_low_is_named(model: Path) -> None:
    command = f"ulimit -v 300000; {sys.executable} -m nmt translate {model} --device cpu --threads 2"
    done = subprocess.run(["bash", "-c", command], input="w1\n", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("nmt: not enough memory: ") and "the limit of 292 MiB (ulimit -v)" in done.stderr
