"""Training on a GPU in bf16: pieces per second, share of the peak, memory and kernels, on synthetic text."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.kernels import kernels
from benchmarks.gpu.records import Measurement, Record, memory, wait
from benchmarks.growth import synthetic
from benchmarks.training import RECIPES, flops
from nmt.data.batches import Parallel
from nmt.system.arrays import Indices
from nmt.training.checkpoint import Progress
from nmt.training.cuda_graphs import GraphPerShape
from nmt.training.experiment import Experiment
from nmt.training.trainer import Trainer
from nmt.training.updates import Update

MODELS: dict[str, tuple[dict[str, Any], int, float]] = {
    "small": (RECIPES["small"]["model"], 8_192, 14),
    "tiny": (RECIPES["tiny"]["model"], 8_192, 14),
    "lstm": (RECIPES["lstm"]["model"], 10_000, 12),
    "base": (RECIPES["large"]["model"], 32_000, 26),
    "big": ({"layers": 6, "width": 1024, "ffn": 4096, "heads": 16, "dropout": 0.3}, 32_000, 26),
    "dry": ({"layers": 1, "width": 16, "ffn": 32, "heads": 2}, 60, 8),
    "dry lstm": ({"kind": "recurrent", "layers": 1, "width": 16, "bidirectional": True, "tied": "none"}, 60, 8),
}
"""For each model: its configuration, the pieces of its vocabulary, and the mean pieces of a sentence."""
CASES = (
    ("base", "25000 tokens", "graphs"), ("big", "25000 tokens", "graphs"), ("big", "100000 tokens", "graphs"),
    ("tiny", "8192 tokens", "graphs"), ("small", "4096 tokens", "graphs"), ("lstm", "128 sentences", "calls"),
    ("base", "25000 tokens", "calls"), ("big", "25000 tokens", "calls"),
)  # fmt: skip
DRY = (("dry", "100 tokens", "graphs"), ("dry lstm", "8 sentences", "calls"))
BATCHES = 6  # full ones, if sentences could be cut; the updates repeat them
PASSES = 40  # at most, over the batches
PROFILED = 2  # updates
COLUMNS = (
    "model", "batch", "kind", "parameters", "pieces/s", "ms_an_update", "tflops", "tflops_6np", "peak_share",
    "graphs", "kernels", "busy", "tensors_mib", "reserved_mib",
)  # fmt: skip


def lengths_of(batch: str, mean: float) -> tuple[Indices, Indices]:
    """Return the pieces of each sentence on either side, without BOS and EOS, enough for about `BATCHES` batches.

    Source lengths are log-normal as in real text; a target is about as long as its source.
    """
    number, unit = batch.split()
    sentences = BATCHES * int(number) if unit == "sentences" else int(BATCHES * int(number) / (1.15 * (mean + 2)))
    random = np.random.default_rng(1)
    source = mean * np.exp(random.normal(-0.125, 0.5, sentences))
    target = source * random.normal(1, 0.1, sentences)
    first, second = (side.round().clip(2, 100).astype(np.int64) for side in (source, target))
    return first, second


def measure(
    name: str, batch: str, kind: str, device: torch.device, peak: float, by_name: bool, passes: int, limit: float
) -> Record:
    """Train with `nmt.training.trainer` and return speed, arithmetic, memory and kernels.

    Two passes over the batches come first: plain calls, then the recording of graphs.

    Args:
        name: of the model.
        batch: size of a batch.
        kind: ``graphs`` as in a training of many epochs, or ``calls`` as in one of few.
        device: where to train.
        peak: speed of matrix products in TFLOP/s.
        by_name: whether to list the kernels by name.
        passes: most passes over the batches to measure.
        limit: seconds for the whole measurement.
    """
    began = time.perf_counter()
    model, vocabulary, mean = MODELS[name]
    training = {"batch": batch, "epochs": 1000 if kind == "graphs" else 7, "precision": "bf16", "label_smoothing": 0.1}
    settings = Experiment.model_validate({"model": model, "training": training | {"schedule": {"peak": 1e-4}}})
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        synthetic(folder, vocabulary, lengths_of(batch, mean))
        data = Parallel(folder, "train")
        shapes = [data.batch(indices) for indices in data.batches(batch)]
        per_piece = flops(model, vocabulary, shapes)
        trainer = Trainer(folder, folder / "state", settings, 1, device)
        trainer.model.train()
        with closing(_updates(trainer)) as updates:
            _train(trainer, updates, 2 * len(shapes), device)
            ready = time.perf_counter() - began
            pieces, seconds, count = 0, 0.0, 0
            while not count or (time.perf_counter() - began < 0.8 * limit and count < passes * len(shapes)):
                taken = _train(trainer, updates, len(shapes), device)
                pieces, seconds, count = pieces + taken[0], seconds + taken[1], count + len(shapes)
            used = memory()
            profiled = kernels(
                lambda: _train(trainer, updates, PROFILED, device), device, PROFILED, 1e3 * seconds / count, by_name
            )
    speed, parameters = pieces / seconds, sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    padded = sum(shape.target[:, 1:].numel() for shape in shapes) / sum(shape.pieces for shape in shapes)
    return {
        "parameters": parameters, "pieces/s": speed, "ms_an_update": 1e3 * seconds / count, "updates": count,
        "pieces_an_update": pieces / count, "padded": padded - 1, "mflop_a_piece": per_piece / 1e6,
        "tflops": speed * per_piece / 1e12, "tflops_6np": 6 * parameters * speed / 1e12,
        "peak_share": speed * per_piece / 1e12 / peak, "peak_share_6np": 6 * parameters * speed / 1e12 / peak,
        "warm_up_s": ready, "graphs": graphs_of(trainer),
    } | used | profiled  # fmt: skip


def graphs_of(trainer: Trainer) -> int:
    """Return the number of shapes that have a graph: fewer than batches if there was no memory for more."""
    accumulate = trainer.gradients._accumulate
    return len(accumulate._graphs) if isinstance(accumulate, GraphPerShape) else 0


def _updates(trainer: Trainer) -> Iterator[Update]:
    """Repeat the trainer's updates for ever: prepared by its thread, and in pinned memory for a GPU."""
    while True:
        with closing(trainer.updates.after(Progress())) as updates:
            yield from updates


def _train(trainer: Trainer, updates: Iterator[Update], count: int, device: torch.device) -> tuple[int, float]:
    """Make updates; return their target pieces and the seconds that they took."""
    started, pieces = wait(device), 0
    for _ in range(count):
        update = next(updates)
        trainer.train_on(update)
        pieces += update.pieces
    return pieces, wait(device) - started


def cases(device: torch.device, peak: float, dry: bool) -> list[tuple[Record, Measurement]]:
    """Return the cases; base and big models list their longest kernels."""
    return [
        (
            {"model": name, "batch": batch, "kind": kind},
            partial(measure, name, batch, kind, device, peak, name in ("base", "big", "dry"), 1 if dry else PASSES),
        )
        for name, batch, kind in (DRY if dry else CASES)
    ]
