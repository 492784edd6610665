"""What a GPU does otherwise: graphs of a batch's work. Skipped where there is none."""

from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.graphs import Graphs
from nmt.training import Experiment, Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
TRANSFORMER = {"layers": 2, "width": 64, "ffn": 128, "heads": 4}
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 32, "tied": "none", "teacher_forcing": 0.75}


def losses(
    encoded: Path, folder: Path, model: dict[str, Any], device: str, graphs: bool = True, **training: Any
) -> list[float]:
    """The loss of each of 200 updates, nats a piece."""
    asked = {"batch": "2000 tokens", "updates": 200, "schedule": {"peak": 0.003, "warmup": 50}, "clip": 1.0} | training
    config = Experiment.model_validate({"model": model, "training": asked})
    trainer = Trainer(encoded, folder, config, 1, torch.device(device))
    if not graphs:
        trainer._work = trainer._accumulate_gradients
    trainer.model.train()
    found = []
    for step in trainer._steps():
        trainer._update(step)
        nll, _, pieces = trainer._sums.tolist()
        trainer._sums.zero_()
        found.append(nll / pieces)
    recorded = isinstance(trainer._work, Graphs) and len(trainer._work._graphs)
    assert recorded or not graphs or device == "cpu" or "kind" in model
    return found


@pytest.mark.parametrize(
    "training",
    [{}, {"precision": "bf16"}, {"consistency": {"weight": 1.0}}, {"accumulate": 2}, {"label_smoothing": 0.1}],
)
def test_graphs_do_what_calls_do(copy_corpus: Path, tmp_path: Path, training: dict[str, Any]) -> None:
    model = TRANSFORMER | {"dropout": 0.1}  # whose masks are the same too
    by_graphs = losses(copy_corpus, tmp_path / "graphs", model, "cuda", **training)
    by_calls = losses(copy_corpus, tmp_path / "calls", model, "cuda", graphs=False, **training)
    rounding = 0.02 if "precision" in training else 1e-3
    assert by_graphs == pytest.approx(by_calls, rel=rounding)
    assert by_graphs[:50] == pytest.approx(by_calls[:50], rel=rounding / 10)


@pytest.mark.parametrize("model", [TRANSFORMER, RECURRENT | {"teacher_forcing": 1.0}])
def test_losses_are_those_of_the_cpu(copy_corpus: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    model = model | {"dropout": 0.0}
    on_gpu, on_cpu = (losses(copy_corpus, tmp_path / device, model, device) for device in ("cuda", "cpu"))
    assert on_gpu[:100] == pytest.approx(on_cpu[:100], rel=1e-4)
    assert on_gpu == pytest.approx(on_cpu, rel=1e-2)
