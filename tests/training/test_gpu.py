"""CUDA graphs of a batch's gradients and of the optimiser. Skipped without a GPU."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from copytask import copy_lines, write_links
from torch import Tensor

from nmt.data.alignments import load_alignments
from nmt.data.batches import Batch
from nmt.training.cuda_graphs import BatchFunction, GraphPerShape, RecordedCall
from nmt.training.experiment import Experiment
from nmt.training.optimizer import set_learning_rate
from nmt.training.train import train
from nmt.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
TRANSFORMER = {"layers": 2, "width": 64, "ffn": 128, "heads": 4}
OPTIONS = TRANSFORMER | {
    "normalisation": "rms", "activation": "swiglu", "positions": "rotary", "key_value_heads": 2, "norm": "pre",
}  # fmt: skip
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 32, "tied": "none", "teacher_forcing": 1.0}
CHANGES: list[dict[str, Any]] = [
    {},
    {"guided_alignment": {"head": 1}},
    {"precision": "bf16"},
    {"consistency": {"weight": 1.0}},
    {"label_smoothing": 0.1},
]


def trainer(encoded: Path, folder: Path, model: dict[str, Any], device: str, **training: Any) -> Trainer:
    asked = {"batch": "2000 tokens", "updates": 200, "schedule": {"peak": 0.0003, "warmup": 50}, "clip": 1.0} | training
    config = Experiment.model_validate({"model": model, "training": asked})
    links = None
    if config.training.guided_alignment:
        folder.mkdir(exist_ok=True)
        links = load_alignments(write_links(folder / "links", copy_lines(6000, 1)), encoded)
    made = Trainer(encoded, folder, config, 1, torch.device(device), alignments=links)
    made.model.train()
    return made


def gradients(of: Trainer, batch: Batch, by: BatchFunction) -> tuple[Tensor, Tensor]:
    """Return sums of a batch and its flat gradients, added twice with the same two dropout seeds in each call."""
    for seed in (7, 8):
        torch.manual_seed(seed)
        sums = by(batch.to(of.device), of.config.consistency_of(1, of.updates.total)).clone()
    flat = torch.cat([gradient.flatten() for gradient in of.gradients.tensors()])
    of.gradients.clear()
    return sums, flat


@pytest.mark.parametrize("model", [TRANSFORMER, OPTIONS])
@pytest.mark.parametrize("training", CHANGES)
def test_a_graph_adds_the_gradients_that_calls_add(
    copy_corpus: Path, tmp_path: Path, training: dict[str, Any], model: dict[str, Any]
) -> None:
    ours = trainer(copy_corpus, tmp_path, model | {"dropout": 0.1}, "cuda", **training)
    by_graph = ours.gradients._accumulate
    assert isinstance(by_graph, GraphPerShape)
    batches = [batch for update in islice(ours.updates.after(ours.progress), 8) for batch in update.batches]
    for batch in batches:
        gradients(ours, batch, by_graph)  # the second time by a graph
    assert len(by_graph._graphs) > 1
    for batch in batches:
        sums, found = gradients(ours, batch, by_graph)
        expected_sums, expected = gradients(ours, batch, ours.gradients._forward_backward)
        assert expected.norm() > 0 and sums[2] == batch.pieces
        assert (found - expected).norm() < (1e-2 if "precision" in training else 1e-5) * expected.norm()
        torch.testing.assert_close(sums, expected_sums, rtol=1e-5, atol=0)


def test_a_graph_of_the_optimiser_moves_the_weights_as_a_call(copy_corpus: Path, tmp_path: Path) -> None:
    names = ("graph", "call")
    by_graph, by_call = (trainer(copy_corpus, tmp_path / name, TRANSFORMER, "cuda").gradients for name in names)
    by_call._optimize = by_call._clip_and_optimize
    for update, norm in enumerate((0.5, 5.0, 50.0, 0.1, 7.0), 1):  # of gradients that are clipped to 1
        for each in (by_graph, by_call):
            torch.manual_seed(update)
            for parameter in each._parameters:
                drawn = torch.randn_like(parameter)
                parameter.grad = drawn if parameter.grad is None else parameter.grad.copy_(drawn)
            set_learning_rate(each.optimizer, 0.01 * update)
            each.apply(torch.tensor(norm, device="cuda"))
        for ours, theirs in zip(by_graph._parameters, by_call._parameters, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    assert isinstance(by_graph._optimize, RecordedCall) and by_graph._optimize._graph
    assert not torch.stack([gradient.abs().sum() for gradient in by_graph.tensors()]).any()


def test_a_training_that_is_stopped_goes_on_where_it_was(copy_corpus: Path, tmp_path: Path) -> None:
    asked = {"batch": "2000 tokens", "updates": 240, "schedule": {"peak": 0.0003, "warmup": 50}, "accumulate": 2}
    asked |= {"checkpoint_every": "40 updates", "validate_every": "80 updates"}
    logs = {}
    for name, ends in (("whole", [240]), ("parts", [100, 240])):
        for end in ends:
            config = Experiment.model_validate(
                {"model": TRANSFORMER | {"dropout": 0.1}, "training": asked | {"updates": end}}
            )
            train(copy_corpus, tmp_path / name, config, 1, "cuda", 1, "copy/small")
        lines = [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        logs[name] = [line["loss"] for line in lines if line["event"] == "train" and line["update"] % 50 == 0]
    assert len(logs["whole"]) == 4 and logs["parts"] == pytest.approx(logs["whole"], rel=1e-2)
    assert logs["whole"][-1] < 0.9 * logs["whole"][0]


def losses(of: Trainer) -> list[float]:
    """Return the loss of each update, nats per piece."""
    values = []
    for update in of.updates.after(of.progress):
        of.train_on(update)
        nll, _, pieces = of.sums.tolist()
        of.sums.zero_()
        values.append(nll / pieces)
    return values


@pytest.mark.parametrize("model", [TRANSFORMER, OPTIONS, RECURRENT])
def test_losses_are_those_of_the_cpu(copy_corpus: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    model = model | {"dropout": 0.0}
    on_gpu, on_cpu = (losses(trainer(copy_corpus, tmp_path / each, model, each)) for each in ("cuda", "cpu"))
    assert on_gpu[:50] == pytest.approx(on_cpu[:50], rel=1e-4)  # rounding grows: each update starts from the last one's
    assert on_gpu == pytest.approx(on_cpu, rel=2e-2) and on_gpu[-1] < 0.95 * on_gpu[0]
