"""COMET through an environment of its own; a stand-in for its Python gives scores, and a real one if it is named."""

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from commands import run
from sacrebleu.significance import _compute_p_value

from nmt.scoring.comet import compare, score_files
from nmt.scoring.words import SAMPLES
from nmt.system.errors import ConfigError, DataError

STAND_IN = f"""#!{sys.executable}
import json, sys
samples = json.load(sys.stdin)
if "ref" not in samples[0]:
    sys.exit("this checkpoint compares with references, but none were given")
same = [len(set(s["mt"]) & set(s["ref"])) / len(set(s["mt"]) | set(s["ref"])) for s in samples]
json.dump({{"scores": same, "references": True, "version": "0"}}, sys.stdout)
"""
FILES = {
    "source": ["A red ball.", "Two dogs.", "A man."],
    "reference": ["Ein roter Ball.", "Zwei Hunde.", "Ein Mann."],
    "better": ["Ein roter Ball.", "Zwei Hunde.", "Ein Man."],
    "worse": ["Ein Ball.", "Zwei Katzen.", "Xyz."],
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    for name, lines in FILES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "model.ckpt").write_bytes(b"a checkpoint")
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    return {path.name: path for path in tmp_path.iterdir()}


@pytest.mark.integration
def test_scores_have_intervals_and_paired_tests(files: dict[str, Path], tmp_path: Path) -> None:
    options = ["--source", files["source"], "--reference", files["reference"], "--checkpoint", files["model.ckpt"]]
    options += ["--python", files["python"]]
    out = tmp_path / "out.json"
    code, said = run("comet", files["better"], *options, "--against", files["worse"], "--out", out)
    found = json.loads(out.read_text())
    assert code == 0 and found["low"] <= found["score"] <= found["high"] <= 100
    assert found["score"] == pytest.approx(np.mean(found["scores"])) and found["scores"][:2] == [100, 100]
    assert found["difference"] > 20 and 0 < found["p_value"] <= 1 and "checkpoint:" in said
    code, said = run("comet", files["better"], *options[:2], *options[4:])
    assert code == 1 and "compares with references, but none were given" in said


@pytest.mark.parametrize("name", ["better", "worse", "source", "reference", "model.ckpt", "python"])
def test_scores_replace_no_input(files: dict[str, Path], name: str) -> None:
    before = files[name].read_bytes()
    options = ["--source", files["source"], "--reference", files["reference"], "--checkpoint", files["model.ckpt"]]
    options += ["--python", files["python"], "--against", files["worse"], "--out", files[name]]
    code, said = run("comet", files["better"], *options)
    assert code == 1 and f"{name}: expected an output file, got the input" in said
    assert files[name].read_bytes() == before


def test_an_environment_replaces_no_other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    monkeypatch.setattr("nmt.scoring.comet.EnvBuilder.create", lambda _, folder: made.append(folder))
    monkeypatch.setattr("subprocess.run", lambda command, check: subprocess.CompletedProcess(command, 0))
    thesis = tmp_path / "precious/part/thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.touch()
    for path, got in [(tmp_path / "precious", f"the file {thesis}"), (thesis, "the file"), (sys.prefix, "that of nmt")]:
        code, said = run("comet-environment", path)
        assert code == 1 and f"{path}: expected" in said and got in said
    (tmp_path / "old").mkdir()
    (tmp_path / "old/pyvenv.cfg").touch()
    (tmp_path / "snakemake/bin").mkdir(parents=True)  # it makes the folder of an output
    allowed = [tmp_path / name for name in ("new", "old", "snakemake")]
    assert [run("comet-environment", path)[0] for path in allowed] == [0, 0, 0] and made == allowed


def test_the_paired_test_is_sacrebleus() -> None:
    generator = np.random.default_rng(5)
    first, second = generator.normal(0.0, 1, 50), generator.normal(0.1, 1, 50)
    found = compare(first.tolist(), second.tolist())
    drawn = np.random.default_rng(12345).integers(50, size=(SAMPLES, 50))
    samples = np.abs(second[drawn].mean(1) - first[drawn].mean(1))
    expected = _compute_p_value(samples - samples.mean(), abs(second.mean() - first.mean()))
    assert found["p_value"] == pytest.approx(expected) and found["difference"] == pytest.approx(
        second.mean() - first.mean()
    )
    assert compare([1.0, 2.0], [1.0, 2.0]) == {"difference": 0.0, "p_value": 1.0}


def test_what_is_missing_is_one_message(files: dict[str, Path], tmp_path: Path) -> None:
    texts = files["better"], files["source"], files["reference"]
    with pytest.raises(ConfigError, match=r"none\.ckpt: expected the checkpoint of a COMET metric, got no such file"):
        score_files(*texts, tmp_path / "none.ckpt", files["python"])
    with pytest.raises(ConfigError, match="make it with: snakemake --cores 1 comet_environment"):
        score_files(*texts, files["model.ckpt"], tmp_path / "no-python")
    files["source"].write_text("one line\n")
    with pytest.raises(DataError, match="misaligned"):
        score_files(*texts, files["model.ckpt"], files["python"])


@pytest.mark.long
@pytest.mark.parametrize("kiwi", [False, True])
def test_a_tiny_checkpoint_scores_a_hundred_sentences(tmp_path: Path, kiwi: bool) -> None:
    python = os.environ.get("NMT_COMET_PYTHON") or pytest.skip("NMT_COMET_PYTHON is not set")
    lines = {name: [f"{line} {n}" for n in range(34) for line in text][:100] for name, text in FILES.items()}
    for name, text in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    (tmp_path / "text").write_text("\n".join(chain.from_iterable(lines.values())), encoding="utf-8")
    helper = Path(__file__).parents[1] / "helpers" / "tiny_comet.py"
    words = [python, helper, tmp_path / "tiny", tmp_path / "text", *(["kiwi"] if kiwi else [])]
    subprocess.run(words, check=True, env={"PATH": os.environ["PATH"]})
    reference = None if kiwi else tmp_path / "reference"
    checkpoint = tmp_path / "tiny/checkpoints/model.ckpt"
    found = score_files(tmp_path / "better", tmp_path / "source", reference, checkpoint, Path(python))
    assert len(found["scores"]) == 100 and found["signature"].startswith("COMET-Kiwi|" if kiwi else "COMET|")
    assert len(set(found["scores"])) > 50
