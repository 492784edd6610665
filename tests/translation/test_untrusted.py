"""Models, data and settings made by others: nothing in them runs, and nothing is written outside its folder."""

import os
import pickle
import re
import shutil
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from commands import run
from snakes import TABLE, Project

from nmt.config.inherit import ModelFolder
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.config.yaml import load_yaml, parse
from nmt.corpora.sources import Text
from nmt.data.batches import Parallel
from nmt.models.build import build
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256, write_json
from nmt.training.average import ensemble
from nmt.training.checkpoint import OPTIMIZER, WEIGHTS, Checkpoints, Progress, read_tensors, weights_of, write_tensors
from nmt.training.experiment import Experiment
from nmt.training.optimizer import make_optimizer
from nmt.translation.translator import Translator

EVIL = "a; touch hacked"


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


def test_a_model_of_no_numbers_is_said_to_be_one(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model/provenance.json").unlink()  # it has the weights' checksum
    weights = {name: torch.full_like(one, torch.nan) for name, one in read_tensors(model / WEIGHTS).items()}
    write_tensors(weights, tmp_path / "model" / WEIGHTS)
    (tmp_path / "text").write_text("w1\n\nw2\n")
    for command in (
        ["translate", tmp_path / "model", tmp_path / "text"],
        ["decode", tmp_path / "model", tmp_path / "text", tmp_path / "out"],
    ):
        code, output = run(*command, "--device", "cpu")
        assert code == 1 and "the model's probabilities are not numbers" in output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("packed", ["pickle", "torch"])
def test_weights_that_are_a_pickle_are_refused_unopened(model: Path, tmp_path: Path, packed: str) -> None:
    folder, hacked = tmp_path / "model", tmp_path / "hacked"
    shutil.copytree(model, folder)
    if packed == "torch":
        torch.save({"weight": Bomb(hacked)}, folder / "weights.safetensors")
    else:
        (folder / "weights.safetensors").write_bytes(pickle.dumps(Bomb(hacked)))
    with pytest.raises(DataError, match=r"weights\.safetensors: expected safetensors"):
        Translator.load(folder, "cpu")
    assert not hacked.exists()


def test_a_checkpoint_that_is_a_pickle_is_set_aside_unopened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Experiment.model_validate({"model": {"layers": 1, "width": 8, "heads": 1}, "training": {"updates": 1}})
    network = build(config.model, 10, 10, 0)
    checkpoint, hacked = tmp_path / "checkpoints" / "update-00000001", tmp_path / "hacked"
    checkpoint.mkdir(parents=True)
    for name in (WEIGHTS, OPTIMIZER):
        (checkpoint / name).write_bytes(pickle.dumps(Bomb(hacked)))
    hashes = {name: sha256(checkpoint / name) for name in (WEIGHTS, OPTIMIZER)}  # right ones: its maker knew them
    write_json(checkpoint / "progress.json", {"progress": {"update": 1}, "sha256": hashes})
    progress = Checkpoints(checkpoint.parent).resume(network, make_optimizer(network, config.training.optimizer))
    assert "expected safetensors" in capsys.readouterr().err
    assert progress.update == 0 and not hacked.exists()


def test_a_model_of_an_unknown_kind_is_named(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {"model": {**config["model"], "kind": "os.system"}})
    code, output = run("translate", folder, text="w1\n")
    known = "expected a model of a kind that this installation knows (transformer, recurrent, multimodal)"
    message = f"{folder}: {known}, got kind os.system; use the installation that wrote it\n"
    assert (code, output) == (1, f"nmt: {message}")
    for read in (lambda: ModelFolder.read(folder), lambda: ensemble([model, folder], tmp_path / "out")):
        with pytest.raises(DataError, match=r"installation knows \(transformer, recurrent, multimodal\), got kind os"):
            read()


def change(folder: Path, part: str, **values: Any) -> None:
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", config | {part: {**config[part], **values}})


def replace(path: Path, make: Callable[[Path], Any]) -> None:
    path.unlink()
    make(path)


ODD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a million layers": (lambda f: change(f, "model", layers=10**6), "larger than its"),
    "a million decoder layers": (lambda f: change(f, "model", decoder_layers=10**6), "larger than its"),
    "a billion positions": (lambda f: change(f, "model", max_positions=10**9), "max_positions times width must"),
    "very wide": (lambda f: change(f, "model", width=2**40, ffn=2**40), "max_positions times width must"),
    "another width": (lambda f: change(f, "model", ffn=2**30), "has shape"),
    "a large vocabulary": (lambda f: change(f, "vocabulary", source=10**12), "expected vocabularies of"),
    "a small vocabulary": (lambda f: change(f, "vocabulary", target=5), "expected vocabularies of"),
    "deep JSON": (lambda f: (f / "cleaning.json").write_text('{"cleaning":' + "[" * 100_000), "cleaning.json"),
    "no languages": (lambda f: write_json(f / "cleaning.json", {"cleaning": {}, "languages": "e"}), "e.g. en-de"),
    "odd languages": (
        lambda f: write_json(f / "cleaning.json", {"cleaning": {}, "languages": "en-\x1b[31m"}), "e.g. en-de",
    ),
    **{
        f"{name} is {what}": (lambda f, name=name, make=make: replace(f / name, make), f"{name}: expected a file")  # type: ignore[misc]
        for name in ("config.json", "cleaning.json", "source.model", "weights.safetensors", "provenance.json")
        for what, make in {"a pipe": os.mkfifo, "a device": lambda path: path.symlink_to("/dev/zero")}.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_odd_model_folders_are_one_message_at_once(model: Path, tmp_path: Path, case: str) -> None:
    folder, (damage, message) = tmp_path / "model", ODD[case]
    shutil.copytree(model, folder)
    damage(folder)
    started = time.monotonic()
    code, output = run("translate", folder, "--device", "cpu", text="w1\n")
    assert code == 1 and re.search(message, output) and str(folder) in output, output
    assert len(output.splitlines()) == 1 and "\x1b" not in output and time.monotonic() - started < 5


@pytest.mark.parametrize("name", ["nothing/exp_avg", "source_embedding.pieces.weight/exp_avg", "exp_avg"])
def test_a_checkpoint_whose_optimiser_does_not_fit_is_set_aside_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The model keeps its initial weights, because the training begins anew."""
    config = Experiment.model_validate({"model": {"layers": 1, "width": 8, "heads": 1}, "training": {"updates": 1}})
    network = build(config.model, 10, 10, 0)
    optimizer = make_optimizer(network, config.training.optimizer)
    before = {key: value.clone() for key, value in weights_of(network).items()}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Progress(update=1), network, optimizer)
    checkpoint = checkpoints.all()[0]
    write_tensors({key: value + 1 for key, value in before.items()}, checkpoint / WEIGHTS)
    write_tensors({name: torch.ones(3)}, checkpoint / OPTIMIZER)
    hashes = {file: sha256(checkpoint / file) for file in (WEIGHTS, OPTIMIZER)}
    write_json(checkpoint / "progress.json", read_json(checkpoint / "progress.json") | {"sha256": hashes})
    assert checkpoints.resume(network, optimizer).update == 0
    assert "does not fit this model; set aside" in capsys.readouterr().err
    assert all(torch.equal(value, before[key]) for key, value in weights_of(network).items())


@pytest.mark.parametrize(
    "progress",
    ["[]", "{}", '{"progress": 5}', '{"progress": {"update": "x"}}', '{"progress": {"sums": [1, 2]}}', "[" * 100_000,
     '{"sha256": []}'],
)  # fmt: skip
def test_a_checkpoint_whose_progress_is_odd_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], progress: str
) -> None:
    config = Experiment.model_validate({"model": {"layers": 1, "width": 8, "heads": 1}, "training": {"updates": 1}})
    network = build(config.model, 10, 10, 0)
    (tmp_path / "update-00000001").mkdir()
    (tmp_path / "update-00000001/progress.json").write_text(progress)
    with pytest.raises(DataError):
        Checkpoints(tmp_path).progress(tmp_path / "update-00000001")
    found = Checkpoints(tmp_path).resume(network, make_optimizer(network, config.training.optimizer))
    assert "set aside" in capsys.readouterr().err
    assert found.update == 0


def test_encoded_text_with_objects_is_refused_unopened(copy_corpus: Path, tmp_path: Path) -> None:
    folder, hacked = tmp_path / "encoded", tmp_path / "hacked"
    shutil.copytree(copy_corpus, folder)
    np.save(folder / "train.source.offsets.npy", np.array([Bomb(hacked)], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="expected encoded text"):
        Parallel(folder, "train")
    assert not hacked.exists()


def test_a_member_of_an_archive_is_read_and_never_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("../outside.txt", "x\n")
        archive.writestr("/tmp/nmt-outside.txt", "y\n")
    before = sorted(tmp_path.rglob("*"))
    assert list(Text(folder / "a.zip", "", "../outside.txt").lines()) == ["x"]
    assert list(Text(folder / "a.zip", "", "/tmp/nmt-outside.txt").lines()) == ["y"]
    assert sorted(tmp_path.rglob("*")) == before and not Path("/tmp/nmt-outside.txt").exists()


def test_yaml_makes_no_objects(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="could not determine a constructor"):
        load_yaml(f"a: !!python/object/apply:os.mkdir ['{tmp_path}/hacked']", "config.yaml")
    assert not (tmp_path / "hacked").exists()


SYSTEM = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 2}}
ROW = {"label": "x", "system": "s"}
TABLES = {
    "system": {"systems": {EVIL: SYSTEM}, "rows": [{**ROW, "system": EVIL}]},
    "corpus": {"systems": {"s": {**SYSTEM, "corpus": EVIL}}, "rows": [ROW]},
    "languages": {"systems": {"s": {**SYSTEM, "languages": f"en-{EVIL}"}}, "rows": [ROW]},
    "test": {"systems": {"s": SYSTEM}, "rows": [{**ROW, "test": EVIL}]},
    "at": {"systems": {"s": SYSTEM}, "rows": [{**ROW, "at": f"epoch 1{EVIL}"}]},
    "batch": {"systems": {"s": {**SYSTEM, "training": {"updates": 2, "batch": f"64 sentences{EVIL}"}}}, "rows": [ROW]},
}


@pytest.mark.parametrize("case", TABLES)
def test_names_in_tables_that_a_shell_would_run_are_refused(case: str) -> None:
    text = yaml.safe_dump({"caption": "c", "tests": ["test"], **TABLES[case]})
    with pytest.raises(ConfigError, match="touch hacked"):
        parse(Table, text, "t.yaml")


@pytest.mark.parametrize(
    "settings",
    [
        {"tables": [EVIL]},
        {"tables": ["one"], "results": "r;touch${IFS}hacked"},
        {"tables": ["one"], "results": "$(touch hacked)"},
        {"tables": ["one"], "mirror": "`touch${IFS}hacked`"},
        {"tables": ["one"], "corpora": {EVIL: {"train": {}, "valid": {}}}},
        {"tables": ["one"], "device": f"cpu{EVIL}"},
    ],
)
def test_settings_that_a_shell_would_run_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="hacked"):
        parse(Workflow, yaml.safe_dump(settings), "config.yaml")


@pytest.mark.integration
def test_a_table_file_whose_name_a_shell_would_run_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path, {"one": TABLE})
    project.write(f"workflow/tables/{EVIL}.yaml", TABLE)
    done = project.snakemake()
    assert done.returncode == 1 and f"expected a name of letters, digits, _ . -, got '{EVIL}'" in done.stdout
    assert not list(tmp_path.rglob("hacked"))


@pytest.mark.integration
def test_labels_captions_and_paths_of_files_are_never_run(tmp_path: Path) -> None:
    """What may hold any text reaches commands quoted."""
    odd = tmp_path / "$(touch hacked) 'x'.en"
    odd.write_text("a\n")
    pair = {"en": str(odd), "de": str(odd)}
    table = {**TABLE, "caption": EVIL, "rows": [{"label": EVIL, "system": "small", "note": "`touch hacked`"}]}
    table["systems"] = {"small": {**SYSTEM, "corpus": "mine"}}
    corpora = {"mine": {"train": pair, "valid": pair, "tests": {"test": pair}, "licence": EVIL}}
    project = Project(tmp_path, {"one": table}, corpora=corpora)
    project.snakemake("--until", "download")
    assert (tmp_path / "results/corpora/mine/en-de/raw/train.en").read_text() == "a\n"
    assert not list(tmp_path.rglob("hacked"))
