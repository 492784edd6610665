"""What a GPU does otherwise: graphs of a batch's work and of the optimiser's step. Skipped where there is none."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nmt.graphs import OfShapes, Repeated
from nmt.training import Experiment, Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
TRANSFORMER = {"layers": 2, "width": 64, "ffn": 128, "heads": 4}
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 32, "tied": "none", "teacher_forcing": 1.0}
CHANGES: list[dict[str, Any]] = [{}, {"precision": "bf16"}, {"consistency": {"weight": 1.0}}, {"label_smoothing": 0.1}]


def trainer(encoded: Path, folder: Path, model: dict[str, Any], device: str, **training: Any) -> Trainer:
    asked = {"batch": "2000 tokens", "updates": 200, "schedule": {"peak": 0.0003, "warmup": 50}, "clip": 1.0} | training
    config = Experiment.model_validate({"model": model, "training": asked})
    found = Trainer(encoded, folder, config, 1, torch.device(device))
    found.model.train()
    return found


def gradients(of: Trainer, batch: Any, by: Any) -> tuple[Tensor, Tensor]:
    """Sums and all gradients of a batch, whose dropout is drawn anew and alike."""
    torch.manual_seed(7)
    sums = by(batch.to(of.device), of.config.consistency_of(1, of.total)).clone()
    found = torch.cat([gradient.flatten() for gradient in of._gradients()])
    of._forget_gradients()
    return sums, found


@pytest.mark.parametrize("training", CHANGES)
def test_a_graph_gives_the_gradients_that_calls_give(
    copy_corpus: Path, tmp_path: Path, training: dict[str, Any]
) -> None:
    ours = trainer(copy_corpus, tmp_path, TRANSFORMER | {"dropout": 0.1}, "cuda", **training)
    assert isinstance(ours._work, OfShapes)
    batches = [batch for _, step in zip(range(8), ours._steps(), strict=False) for batch in step.batches]
    for _ in range(3):
        for batch in batches:
            ours._work(batch.to(ours.device), ours.config.consistency_of(1, ours.total))  # leaves others' gradients
            ours._forget_gradients()
    assert ours._work._graphs
    for batch in batches:
        sums, found = gradients(ours, batch, ours._work)
        expected_sums, expected = gradients(ours, batch, ours._accumulate_gradients)
        assert expected.norm() > 0 and sums[2] == batch.pieces
        assert (found - expected).norm() < (1e-2 if "precision" in training else 1e-5) * expected.norm()
        torch.testing.assert_close(sums, expected_sums, rtol=1e-5, atol=0)


def test_a_graph_of_the_step_moves_the_weights_as_a_call(copy_corpus: Path, tmp_path: Path) -> None:
    by_graph, by_call = (trainer(copy_corpus, tmp_path / name, TRANSFORMER, "cuda") for name in ("graph", "call"))
    by_call._move = by_call._step
    for step in (steps := list(zip(range(6), by_graph._steps(), strict=False))):
        for each in (by_graph, by_call):
            each._work = each._accumulate_gradients
            each._update(step[1])
    assert len(steps) == 6 and isinstance(by_graph._move, Repeated) and by_graph._move._graph
    for ours, theirs in zip(by_graph._parameters, by_call._parameters, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not torch.stack([gradient.abs().sum() for gradient in by_graph._gradients()]).any()


def losses(of: Trainer) -> list[float]:
    """The loss of each update, nats a piece."""
    found = []
    for step in of._steps():
        of._update(step)
        nll, _, pieces = of._sums.tolist()
        of._sums.zero_()
        found.append(nll / pieces)
    return found


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT])
def test_losses_are_those_of_the_cpu(copy_corpus: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    model = model | {"dropout": 0.0}
    on_gpu, on_cpu = (losses(trainer(copy_corpus, tmp_path / each, model, each)) for each in ("cuda", "cpu"))
    assert on_gpu[:50] == pytest.approx(on_cpu[:50], rel=1e-4)  # rounding grows: each update starts from the last one's
    assert on_gpu == pytest.approx(on_cpu, rel=2e-2) and on_gpu[-1] < 0.95 * on_gpu[0]
