"""Guided alignment: links between pieces and their loss against loops, trainings, and files that do not fit."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import run
from copytask import copy_lines, write_clean, write_links
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import load_file

from nmt.config.data import Subwords
from nmt.config.models import ModelConfig
from nmt.config.system import System
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.data.alignments import load_alignments
from nmt.data.batches import Parallel
from nmt.data.encode import encode_corpus
from nmt.models.build import build
from nmt.models.loss import guided_alignment
from nmt.plan.checks import check_alignments, check_table_files
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import DROPPED, read_json, write_text
from nmt.text.subwords import Vocabulary, learn
from nmt.training.experiment import Experiment
from nmt.training.gradients import Gradients
from nmt.training.train import train

TEXT = {
    "en": ["the greatest house", "▁ here", "a", "green houses here"],
    "de": ["das größte haus", "hier", "ein ▁ ein", "x"],
}
LINKS = ["0-0 1-1 2-2 2-1", "1-0", "", "0-0 1-0 2-0"]
RAW = [LINKS[0], "not read", *LINKS[1:3], "99-99", LINKS[3]]  # cleaning dropped the lines 2 and 5
GUIDED = {"weight": 2.0}  # of layer 1, the last but one
LAST = "state/checkpoints/update-00000040/weights.safetensors"
TRAINING = {
    "batch": "256 tokens", "checkpoint_every": "30 updates", "validate_every": "60 updates", "updates": 60,
    "validation_bleu": False, "schedule": {"peak": 0.005, "warmup": 10}, "accumulate": 2, "guided_alignment": GUIDED,
}  # fmt: skip
MODEL = {"layers": 2, "width": 32, "ffn": 64, "heads": 2, "dropout": 0.1}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four pairs, each with three random segmentations."""
    folder = tmp_path_factory.mktemp("guided")
    clean = write_clean(folder / "clean", {"train": ["a b"], "valid": ["a b"]})
    for language, lines in TEXT.items():
        (clean / f"train.{language}").write_text("".join(f"{line}\n" for line in lines))
    (clean / DROPPED).write_text("2\n5\n")
    learn(clean, folder / "subwords", "en-de", Subwords(size=40, dropout=0.3, segmentations=3))
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_links(tmp_path_factory.mktemp("links") / "links", copy_lines(6000, 1))


def word_of_pieces(pieces: list[str]) -> list[int]:
    """The number of the word of each piece, by a loop."""
    words: list[int] = []
    for piece in pieces:
        words.append(len(words) and words[-1] + piece.startswith("▁"))
    return words


@pytest.mark.parametrize("lines", [LINKS, RAW])
def test_links_are_carried_to_the_pieces_of_each_segmentation(encoded: Path, tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    pairs, splits = Parallel(encoded, "train"), set()
    pairs.links = load_alignments(tmp_path / "links", encoded)
    batch = pairs.batch(np.arange(12))
    assert batch.links is not None and batch.links.shape == (12, batch.target.shape[1] - 1, batch.source.shape[1])
    sides = [(Vocabulary(encoded / f"{side}.model"), getattr(pairs, side)) for side in ("source", "target")]
    for n in range(12):
        pieces = [vocabulary.pieces(side.pieces(n)) for vocabulary, side in sides]
        splits.add(tuple(map(tuple, pieces)))
        source, target = map(word_of_pieces, pieces)
        linked = {tuple(map(int, link.split("-"))) for link in LINKS[n % 4].split()}
        expected = torch.zeros_like(batch.links[n])
        for t, j in enumerate(target):
            places = [s for s, i in enumerate(source) if (i, j) in linked]
            for s in places:
                expected[t, s + 1] = 1 / len(places)
        assert torch.equal(batch.links[n], expected)
    assert len(splits) > 6  # the segmentations differ


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINKS[:3], r"links: expected 4 lines, .* cleaned training text, or 6 lines, .* raw text, got 3 lines"),
        (["3-0", *LINKS[1:]], r"links, line 1: expected words below 3-3 \(source-target\), got 3-0"),
        ([*RAW[:5], "0-1"], r"links, line 6: expected words below 3-1"),
        (["0-0 1:1", *LINKS[1:]], r"links, line 1: expected links i-j between words counted from 0, got '1:1'"),
        (["0-0 -1-1", *LINKS[1:]], r"links, line 1: expected links i-j .* got '-1-1'"),
        (["0-" + "9" * 5000, *LINKS[1:]], r"links, line 1: expected links i-j"),
        ([""] * 4, r"links: expected links, got only blank lines"),
        ([], r"got 0 lines"),
    ],
)
def test_files_that_do_not_fit_are_refused(encoded: Path, tmp_path: Path, lines: list[str], message: str) -> None:
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DataError, match=message):
        load_alignments(tmp_path / "links", encoded)
    with pytest.raises(DataError, match="no such file"):
        load_alignments(tmp_path / "missing", encoded)


MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 2, "width": 8, "ffn": 8, "heads": 2, "dropout": 0.0},
    "without bos": {"layers": 1, "width": 8, "ffn": 8, "heads": 2, "dropout": 0.0, "source_bos": False},
    "recurrent": {"kind": "recurrent", "layers": 1, "width": 8, "dropout": 0.0, "input_feeding": True},
}


@pytest.mark.parametrize("head", [None, 1])
@pytest.mark.parametrize("kind", MODELS)
def test_the_loss_and_its_gradient_equal_a_loop(kind: str, head: int | None) -> None:
    torch.manual_seed(3)
    config = TypeAdapter(ModelConfig).validate_python(MODELS[kind])
    model = build(config, 9, 9, 0).double().train()
    source, target = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]]), torch.tensor([[2, 4, 8, 3], [2, 5, 3, 0]])
    given = torch.zeros(2, 3, 4, dtype=torch.float64)
    given[0, 0, 1:3], given[0, 1, 2], given[1, 0, 1] = 0.5, 1, 1
    outputs, weights = model.forward_watched(source, target[:, :-1], None, 0)
    assert torch.equal(outputs, model(source, target[:, :-1]))
    chosen = weights[:, head - 1] if head else weights.mean(1)
    total = torch.zeros((), dtype=torch.float64)
    maps = model.attentions(source, target[:, :-1])["source"][:, 0]  # (B, H, T, S)
    for b in range(2):
        for t in range(3):
            for s in range(4):
                if given[b, t, s]:
                    heads = [maps[b, h, t, s] for h in ([head - 1] if head else range(maps.shape[1]))]
                    total = total - given[b, t, s] * torch.log(sum(heads, torch.zeros_like(total)) / len(heads))
    loss = guided_alignment(chosen, given)
    assert not loss[0, 2] and loss.sum().item() == pytest.approx(total.item(), abs=1e-12)
    parameters = [p for p in model.parameters() if p.requires_grad]
    ours, theirs = (torch.autograd.grad(each, parameters, allow_unused=True) for each in (loss.sum(), total))
    assert sum(gradient is not None for gradient in ours) >= 6
    for found, expected in zip(ours, theirs, strict=True):
        if found is not None and expected is not None:
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


def gradient(config: Experiment, pairs: Parallel, indices: list[int]) -> torch.Tensor:
    torch.manual_seed(1)
    gradients = Gradients(build(config.model, 16, 16, 0).train(), config.training, torch.device("cpu"), 1)
    gradients.add(pairs.batch(np.array(indices)), 1.0 if config.training.consistency else 0.0)
    return torch.cat([tensor.flatten() for tensor in gradients.tensors()])


@pytest.mark.parametrize("change", [{}, {"loss_mean": "sentences"}, {"consistency": {"weight": 1.0}}])
def test_the_loss_is_added_with_its_weight(copy_corpus: Path, links: Path, change: dict[str, Any]) -> None:
    pairs, found = Parallel(copy_corpus, "train"), []
    pairs.links = load_alignments(links, copy_corpus)
    for guided in (None, {"weight": 1.0}, {"weight": 3.0}):
        training = TRAINING | change | {"guided_alignment": guided}
        model = MODEL | {"dropout": {"embedding": 0.0, "residual": 1e-9}}
        config = Experiment.model_validate({"model": model, "training": training})
        found.append(gradient(config, pairs, [0, 5, 9]))
    plain, once, thrice = found
    assert (once - plain).norm() > 1e-3 * plain.norm()
    torch.testing.assert_close(thrice - plain, 3 * (once - plain), rtol=1e-3, atol=1e-4)
    if change == {"consistency": {"weight": 1.0}}:  # two equal passes count like one
        asked = TRAINING | {"guided_alignment": {"weight": 1.0}}
        without = Experiment.model_validate({"model": MODEL | {"dropout": 0.0}, "training": asked})
        torch.testing.assert_close(once, gradient(without, pairs, [0, 5, 9]), rtol=1e-3, atol=1e-4)


@pytest.mark.integration
def test_a_training_learns_the_links_and_resumes_bit_identical(small_corpus: Path, tmp_path: Path) -> None:
    links = write_links(tmp_path / "links", copy_lines(600, 1))

    def training(name: str, updates: int, guided: dict[str, Any] | None = GUIDED) -> None:
        asked = TRAINING | {"updates": updates, "guided_alignment": guided}
        config = Experiment.model_validate({"model": MODEL, "training": asked})
        train(small_corpus, tmp_path / name, config, 1, "cpu", 1, "copy/small", alignments=links if guided else None)

    runs = [("whole", 40, GUIDED), ("parts", 20, GUIDED), ("parts", 40, GUIDED), ("free", 40, None)]
    for name, updates, guided in runs:
        training(name, updates, guided)
    whole, parts, free = (load_file(tmp_path / name / LAST) for name in ("whole", "parts", "free"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert read_json(tmp_path / "whole/training.json")["alignments"]["links"] > 2000
    assert looks(whole, small_corpus) > 2.5 * looks(free, small_corpus) > 0.1
    links.write_text(links.read_text().replace("1-1", "1-0", 1))
    training("parts", 1)
    assert len(list((tmp_path / "parts").glob("state*"))) == 2  # another file is another training


def looks(weights: dict[str, torch.Tensor], encoded: Path) -> float:
    """The mean attention of layer 1 on word n of the source while the model writes word n."""
    config = TypeAdapter(ModelConfig).validate_python(MODEL)
    model = build(config, *(len(Vocabulary(encoded / f"{side}.model")) for side in ("source", "target")), 0)
    model.load_state_dict(weights, strict=False)  # the output projection is tied
    batch = Parallel(encoded, "valid").batch(np.arange(100))
    maps = model.eval().attentions(batch.source, batch.target[:, :-1])["source"][:, 0].mean(1)  # (B, T, S)
    words = (batch.target[:, 1:-1] > 3).nonzero().tolist()
    return math.fsum(maps[b, t, t + 1].item() for b, t in words) / len(words)


def test_the_command_needs_both_the_loss_and_the_file(copy_corpus: Path, links: Path, tmp_path: Path) -> None:
    where = [copy_corpus, tmp_path / "run", "--device", "cpu", "--config"]
    model, ends = "model: {layers: 1, width: 4, ffn: 8, heads: 2}", "updates: 2, validation_bleu: false"
    for config, options in (
        (f"{{{model}, training: {{{ends}, guided_alignment: {{}}}}}}", []),
        (f"{{{model}, training: {{{ends}}}}}", ["--alignments", links]),
    ):
        code, output = run("train", *where, config, *options)
        assert code == 1 and "expected both training.guided_alignment and --alignments FILE" in output
    assert not (tmp_path / "run").exists()
    code, output = run("train", *where, f"{{{model}, training: {{{ends}, guided_alignment: {{layer: 2}}}}}}")
    assert code == 1 and "training.guided_alignment.layer: expected 1 to 1, got 2" in output


SYSTEM: dict[str, Any] = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 1, "guided_alignment": {}}}


def test_tables_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError, match="need each other"):
        System.model_validate(SYSTEM)
    with pytest.raises(ValidationError, match="needs a model with attention"):
        System.model_validate(SYSTEM | {"model": {"kind": "recurrent", "attention": {"kind": "none"}}})
    rows = [{"label": "r", "system": "one"}]
    systems = {"one": SYSTEM | {"alignments": str(tmp_path / "links")}}
    table = Table.model_validate({"caption": "c", "tests": ["test"], "systems": systems, "rows": rows})
    monkeypatch.chdir(tmp_path)
    for place, yaml in (
        ("line 2: systems.one.alignments", "systems:\n  one: {alignments: links}\n"),
        ("line 3: defaults.alignments", "systems: {one: {}}\ndefaults:\n  alignments: links\n"),
    ):
        write_text(Path("workflow/tables/one.yaml"), yaml)
        with pytest.raises(ConfigError, match=rf"one\.yaml, {place}: .*links: expected a file, got no such"):
            check_table_files("one", table)
    (tmp_path / "links").touch()
    check_table_files("one", table)
    assert str(tmp_path / "links") in Plan(Workflow(tables=["one"]), {"one": table}).inputs("one")
    with pytest.raises(ConfigError, match="limit: 10 cuts the text, but not its alignments"):
        check_alignments("one", table, Workflow.model_validate({"tables": ["one"], "limit": 10}))
