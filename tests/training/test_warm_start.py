"""Trainings that start from a trained model: what they take, what stays frozen, and what identifies the parent."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import run
from copytask import copy_lines, write_clean
from safetensors.torch import load_file, save_file

from nmt.config.data import Subwords
from nmt.config.models import ModelConfig, MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.config.training import Optimizer, Training
from nmt.data.encode import encode_corpus
from nmt.models.base import TranslationModel
from nmt.models.build import build
from nmt.models.transformer import Transformer
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256, write_json
from nmt.text.subwords import Vocabulary, learn
from nmt.training.checkpoint import weights_of
from nmt.training.experiment import Experiment
from nmt.training.optimizer import make_optimizer
from nmt.training.trainer import Trainer
from nmt.training.warm_start.freeze import freeze, part_of
from nmt.training.warm_start.parent import read_parent

SMALL = {"layers": 2, "width": 8, "ffn": 8, "heads": 2}
TRANSFORMER = TransformerConfig(**SMALL)
RECURRENT = RecurrentConfig(kind="recurrent", layers=2, width=8, bidirectional=True)
MULTIMODAL = MultimodalConfig(kind="multimodal", **SMALL, fusion="gated", regions=2, channels=3)


def write_folder(folder: Path, config: ModelConfig, encoded: Path, seed: int = 7) -> Path:
    """A model directory with random weights, for the vocabularies of encoded text."""
    folder.mkdir()
    vocabularies = {side: Vocabulary(encoded / f"{side}.model") for side in ("source", "target")}
    torch.manual_seed(seed)
    sizes = {side: len(vocabulary) for side, vocabulary in vocabularies.items()}
    save_file(weights_of(build(config, *sizes.values(), 0)), folder / "weights.safetensors")
    for side in vocabularies:
        shutil.copyfile(encoded / f"{side}.model", folder / f"{side}.model")
    meta = read_json(encoded / "meta.json")
    write_json(folder / "config.json", {"model": config.model_dump(mode="json"), "vocabulary": sizes})
    write_json(folder / "cleaning.json", {"cleaning": {}, "languages": "en-de"})
    made = {"subwords": meta["subwords"], "weights_sha256": sha256(folder / "weights.safetensors")}
    write_json(folder / "provenance.json", made)
    return folder


def started(
    folder: Path, encoded: Path, config: ModelConfig
) -> tuple[dict[str, Any], TranslationModel, dict[str, Any]]:
    """The facts of a start, the model that was filled, and what its random values were."""
    experiment = Experiment(model=config, training=Training(updates=1))
    _, parent = read_parent(folder, encoded, experiment, folder / "state")
    meta = read_json(encoded / "meta.json")
    model = build(config, meta["vocabulary"]["source"], meta["vocabulary"]["target"], 0)
    before = {name: weight.clone() for name, weight in weights_of(model).items()}
    random = torch.get_rng_state()
    parent.fill(model)
    assert torch.equal(torch.get_rng_state(), random)
    return dict(parent.facts), model, before


@pytest.mark.parametrize(
    "config", [TRANSFORMER, TransformerConfig(**SMALL, tied="all", positions="learned"), RECURRENT, MULTIMODAL]
)
def test_the_same_model_starts_with_every_tensor_of_its_parent(
    small_corpus: Path, tmp_path: Path, config: ModelConfig
) -> None:
    folder = write_folder(tmp_path / "model", config, small_corpus)
    facts, model, _ = started(folder, small_corpus, config)
    expected = load_file(folder / "weights.safetensors")
    assert weights_of(model).keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in weights_of(model).items())
    assert facts["parameters"] == {"taken": sum(weight.numel() for weight in expected.values()), "new": 0}
    assert facts["weights_sha256"] == sha256(folder / "weights.safetensors")


def test_a_single_number_is_taken(small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tempered(Transformer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.temperature = torch.nn.Parameter(torch.randn(()))

    monkeypatch.setattr("nmt.models.build.Transformer", Tempered)
    folder = write_folder(tmp_path / "model", TRANSFORMER, small_corpus)
    facts, model, before = started(folder, small_corpus, TRANSFORMER)
    assert weights_of(model)["temperature"] == load_file(folder / "weights.safetensors")["temperature"]
    assert weights_of(model)["temperature"] != before["temperature"] and facts["parameters"]["new"] == 0


@pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT])
@pytest.mark.parametrize("layers", [1, 3])
def test_lower_layers_are_taken_and_others_new_or_left_out(
    small_corpus: Path, tmp_path: Path, config: ModelConfig, layers: int
) -> None:
    folder = write_folder(tmp_path / "model", config, small_corpus)
    changed = config.model_copy(update={"layers": layers})
    facts, model, before = started(folder, small_corpus, changed)
    theirs, ours = load_file(folder / "weights.safetensors"), weights_of(model)
    assert ours.keys() <= theirs.keys() if layers == 1 else ours.keys() > theirs.keys()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name] if name in theirs else before[name]), name
    expected = {"taken": min(layers, 2), "new": max(0, layers - 2), "left_out": max(0, 2 - layers)}
    assert facts["encoder_layers"] == facts["decoder_layers"] == expected
    new = sum(weight.numel() for name, weight in ours.items() if name not in theirs)
    assert facts["parameters"]["new"] == new


def test_positions_that_both_have_are_taken(small_corpus: Path, tmp_path: Path) -> None:
    parent, child = (TransformerConfig(**SMALL, positions="learned", max_positions=length) for length in (20, 30))
    folder = write_folder(tmp_path / "model", parent, small_corpus)
    facts, model, before = started(folder, small_corpus, child)
    name = "source_embedding.positions"
    theirs = load_file(folder / "weights.safetensors")[name]
    assert torch.equal(weights_of(model)[name], torch.cat([theirs, before[name][20:]]))
    assert facts["parameters"]["new"] == 2 * 10 * 8


@pytest.fixture(scope="module")
def other_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text with other words, some of which the copy task has; its special pieces have other ids."""
    folder = tmp_path_factory.mktemp("other")
    lines = [line.replace("w1", "x1").replace("w2", "x2").replace("w3", "x3") for line in copy_lines(200, 3)]
    clean = write_clean(folder / "clean", {"train": [f"{line} x4" for line in lines], "valid": lines[:20]})
    ids = {"pad": 1, "unk": 0, "bos": 2, "eos": 3}
    learn(clean, folder / "subwords", "en-de", Subwords(kind="words", size=100, ids=ids, joint=False))
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


@pytest.mark.parametrize("tied", ["none", "decoder"])
def test_pieces_that_both_vocabularies_have_keep_their_embeddings(
    small_corpus: Path, other_corpus: Path, tmp_path: Path, tied: Any
) -> None:
    config = TransformerConfig(**SMALL, tied=tied)
    folder = write_folder(tmp_path / "model", config, small_corpus)
    facts, model, before = started(folder, other_corpus, config)
    theirs, ours = load_file(folder / "weights.safetensors"), weights_of(model)
    vocabularies = (Vocabulary(corpus / "source.model") for corpus in (other_corpus, small_corpus))
    here, there = (vocabulary.pieces(range(len(vocabulary))) for vocabulary in vocabularies)
    shared = set(here) & set(there)
    assert shared == {"<pad>", "<unk>", "<s>", "</s>", *(f"▁w{n}" for n in (0, 4, 5, 6, 7, 8, 9))}
    tables = [name for name in ours if "pieces" in name or "projection" in name]
    assert len(tables) == (3 if tied == "none" else 2)
    for name in tables:
        for i, piece in enumerate(here):
            expected = theirs[name][there.index(piece)] if piece in shared else before[name][i]
            assert torch.equal(ours[name][i], expected), (name, piece)
    assert facts["source_pieces"] == facts["target_pieces"] == {"taken": 11, "new": 4, "left_out": 3}
    assert facts["parameters"]["new"] == len(tables) * 4 * 8


def test_weights_that_a_parent_shares_may_become_separate(small_corpus: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", TransformerConfig(**SMALL, tied="all"), small_corpus)
    _, model, _ = started(folder, small_corpus, TransformerConfig(**SMALL, tied="none"))
    shared = load_file(folder / "weights.safetensors")["source_embedding.pieces.weight"]
    tables = [weight for name, weight in weights_of(model).items() if "pieces" in name or "projection" in name]
    assert len(tables) == 3 and all(torch.equal(table, shared) for table in tables)


def test_parents_that_do_not_fit_or_are_damaged_are_refused(small_corpus: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model", TRANSFORMER, small_corpus)

    def start(config: Any = TRANSFORMER, **fields: Any) -> None:
        experiment = Experiment(model=config, training=Training(updates=1), **fields)
        read_parent(folder, small_corpus, experiment, tmp_path / "state")

    with pytest.raises(ConfigError, match=r"model: expected model.width: 8, as the parent has it, got 512"):
        start(TransformerConfig())
    with pytest.raises(ConfigError, match=r"expected a parent of kind recurrent, got transformer"):
        start(RECURRENT)
    with pytest.raises(DataError, match=r"weights.safetensors: expected weights with the checksum aaaaaaaaaaaa…"):
        start(initialise="a" * 64)
    with (folder / "weights.safetensors").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(DataError, match=r"weights.safetensors: expected weights with the checksum"):
        start()
    shutil.rmtree(folder)
    with pytest.raises(ConfigError, match=r"model: expected a model directory, got no such folder"):
        start()
    folder = write_folder(tmp_path / "model", TRANSFORMER, small_corpus)
    larger = TRANSFORMER.model_copy(update={"layers": 10**9})
    write_json(folder / "config.json", {"model": larger.model_dump(mode="json"), "vocabulary": {}})
    with pytest.raises(DataError, match=r"config.json describes a model larger than its \d+ weights"):
        start()
    write_json(folder / "config.json", {"model": {"layers": "many"}, "vocabulary": {}})
    with pytest.raises(DataError, match=r"model: expected a model directory, got one whose files do not fit"):
        start()


@pytest.mark.parametrize(
    ("config", "tied", "decoder"),
    [
        (TRANSFORMER, {"projection.weight"}, set()),
        (TransformerConfig(**SMALL, tied="none"), set(), {"projection.weight"}),
        (RECURRENT, {"projection.weight"}, {"bridge.0.weight", "combine.bias"}),
        (MULTIMODAL, {"projection.weight"}, set()),
    ],
)
def test_each_parameter_is_of_one_part(config: ModelConfig, tied: set[str], decoder: set[str]) -> None:
    model = build(config, 9, 9, 0)
    parts = {name: part_of(name) for name, _ in model.named_parameters()}
    assert not tied & parts.keys()  # it has the name of the embedding that it shares
    assert {parts[name] for name in decoder} <= {"decoder"}
    for part in ("encoder", "decoder"):
        assert {found for name, found in parts.items() if name.startswith(f"{part}.")} == {part}
    assert {parts[name] for name in parts if name.startswith(("regions.", "gate."))} <= {"encoder"}
    assert {parts[name] for name in parts if "_embedding." in name} == {"embeddings"}


@pytest.mark.integration
@pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT])
@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("parts", [["embeddings"], ["encoder", "embeddings"], ["encoder", "decoder"]])
def test_frozen_parameters_stay_and_have_no_state(
    small_corpus: Path, tmp_path: Path, config: ModelConfig, kind: Any, parts: list[Any]
) -> None:
    optimizer = Optimizer(kind=kind, weight_decay=0.1)
    training = Training(
        updates=3, batch="200 tokens", freeze=parts, optimizer=optimizer, clip=1.0, validation_bleu=False
    )
    trainer = Trainer(small_corpus, tmp_path, Experiment(model=config, training=training), 1, torch.device("cpu"))
    before = {name: weight.clone() for name, weight in weights_of(trainer.model).items()}
    trainer.run()
    changed = {name for name, weight in weights_of(trainer.model).items() if not torch.equal(weight, before[name])}
    free = {name for name in before if part_of(name) not in parts}
    assert changed == free
    names = {id(parameter): name for name, parameter in trainer.model.named_parameters()}
    assert {names[id(parameter)] for parameter in trainer.gradients.optimizer.state} == free


def test_optimisers_know_only_what_is_trained() -> None:
    model = build(TRANSFORMER, 9, 9, 0)
    freeze(model, ["decoder"])
    groups = make_optimizer(model, Optimizer(kind="muon")).param_groups
    known = {id(parameter) for group in groups for parameter in group["params"]}
    assert known == {id(p) for name, p in model.named_parameters() if part_of(name) != "decoder"}


SETTINGS = "{training: {batch: 500 tokens, updates: %d, validate_every: 4 updates, validation_bleu: false}}"


def train(
    encoded: Path, folder: Path, parent: Path, updates: int = 8
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Train by the command; returns what it reports, and the last weights."""
    options = ["--config", SETTINGS % updates, "--device", "cpu", "--threads", 1, "--initialise", parent]
    code, output = run("train", encoded, folder, *options)
    assert code == 0, output
    checkpoint = max((folder / "state" / "checkpoints").glob("update-*"))
    return read_json(folder / "training.json"), load_file(checkpoint / "weights.safetensors")


@pytest.mark.integration
def test_a_parent_is_its_checksum_wherever_it_lies(small_corpus: Path, tmp_path: Path) -> None:
    parent = write_folder(tmp_path / "model", TRANSFORMER, small_corpus)
    once, weights = train(small_corpus, tmp_path / "run", parent)
    assert once["config"]["model"] == TRANSFORMER.model_dump(mode="json")  # no model was stated
    assert once["initialise"]["weights_sha256"] == sha256(parent / "weights.safetensors")
    assert str(tmp_path) not in json.dumps(once)
    written = (tmp_path / "run" / "training.json").stat().st_mtime_ns
    moved = parent.rename(tmp_path / "moved")
    train(small_corpus, tmp_path / "run", moved)
    assert (tmp_path / "run" / "training.json").stat().st_mtime_ns == written
    other = write_folder(tmp_path / "model", TRANSFORMER, small_corpus, seed=8)
    again, others = train(small_corpus, tmp_path / "run", other)
    assert again["identity"] != once["identity"] and len(list((tmp_path / "run").glob("state*"))) == 2
    assert any(not torch.equal(weight, others[name]) for name, weight in weights.items())
    options = ["--at", "last", "--encoded", small_corpus]
    assert run("average", tmp_path / "run", tmp_path / "made", *options)[0] == 0
    assert read_json(tmp_path / "made" / "provenance.json")["initialise"] == again["initialise"]
    options = ["--at", "last and start", "--encoded", small_corpus]
    assert run("average", tmp_path / "run", tmp_path / "half", *options, "--start", other)[0] == 0
    half, started = load_file(tmp_path / "half" / "weights.safetensors"), load_file(other / "weights.safetensors")
    assert all(torch.allclose(weight, (others[name] + started[name]) / 2) for name, weight in half.items())
    made = read_json(tmp_path / "half" / "provenance.json")
    assert made["checkpoints"] == ["update-00000008", "start"] and made["valid_loss"] is None
    options[1] = "start"
    assert run("average", tmp_path / "run", tmp_path / "first", *options, "--start", other)[0] == 0
    first = load_file(tmp_path / "first" / "weights.safetensors")
    assert all(torch.equal(weight, started[name]) for name, weight in first.items())
    assert read_json(tmp_path / "first" / "provenance.json")["update"] == 0
    for start, expected in [
        ([], "expected the model that the training started from, got none (--start); choose another --at"),
        (["--start", moved], "moved: expected the weights that the training started from, "),
    ]:
        code, output = run("average", tmp_path / "run", tmp_path / "none", *options, *start)
        assert code == 1 and expected in output and not (tmp_path / "none").exists()


@pytest.mark.integration
def test_a_resumed_training_is_the_same_and_does_without_its_parent(small_corpus: Path, tmp_path: Path) -> None:
    parent = write_folder(tmp_path / "model", TRANSFORMER, small_corpus)
    whole, expected = train(small_corpus, tmp_path / "whole", parent)
    train(small_corpus, tmp_path / "parts", parent, updates=4)
    shutil.rmtree(parent)
    resumed, weights = train(small_corpus, tmp_path / "parts", parent)
    assert all(torch.equal(weight, expected[name]) for name, weight in weights.items())
    assert {key: resumed[key] for key in ("identity", "initialise", "updates")} == {
        key: whole[key] for key in ("identity", "initialise", "updates")
    }
    shutil.rmtree(tmp_path / "parts" / "state" / "checkpoints")
    options = ["--config", SETTINGS % 8, "--device", "cpu", "--threads", 1, "--initialise", parent]
    code, output = run("train", small_corpus, tmp_path / "parts", *options)
    assert code == 1 and "got no such folder and no checkpoint; put the folder back" in output
