"""Check that optimised parts of the training do not change the losses: replace each by a plain one.

    python -m benchmarks.equality [--recipe small] [--threads 2] [--updates 200]

Each training follows a recipe of `benchmarks.training` in fp32, with the same batches and the same first weights, and
without dropout, whose random masks would differ. The replacements are:

- the loss in chunks: `F.cross_entropy` on all scores;
- attention by parts: `F.scaled_dot_product_attention`;
- oneDNN's matrix kernels: PyTorch's default kernels;
- Adam's fused kernel: one operation after the other;
- in the LSTM, the gates held at padding: packed sequences;
- in the LSTM, the sparse gradients of words fed back: dense gradients. The decoder is fed a quarter of its own words.

The last line of the table replaces all parts at once.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import environment, table
from benchmarks.training import RECIPES, prepare
from nmt.config.training import Optimizer
from nmt.models.attention import Attention, KeysValues
from nmt.models.embedding import Embedding
from nmt.models.masked_rnn import packed
from nmt.system import machine
from nmt.training.experiment import Experiment
from nmt.training.optimizer import make_optimizer
from nmt.training.trainer import Trainer

Losses = list[float]


def plain_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, consistency: float = 0.0
) -> tuple[Tensor, ...]:
    """Compute the same as `nmt.models.loss.cross_entropy` for one pass, with PyTorch's own function."""
    assert not consistency
    scores = hidden @ weight.t()
    loss = F.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="sum")
    nll = F.cross_entropy(scores.detach(), targets, reduction="sum")
    return loss, nll, (scores.argmax(-1) == targets).sum()


def fused(layer: Attention, queries: Tensor, keys_values: KeysValues, mask: Tensor) -> Tensor:
    """Compute the same as `Attention.forward` without dropout, with PyTorch's fused kernel."""
    return layer.output(F.scaled_dot_product_attention(queries, *keys_values, mask).transpose(1, 2).flatten(2))


@contextmanager
def default_kernels() -> Iterator[None]:
    """Use PyTorch's own matrix kernels within the context."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(chosen)


def unfused(model: nn.Module, config: Optimizer) -> torch.optim.Optimizer:
    """Make the optimiser of `nmt.training.optimizer` without fused kernels."""
    optimizer = make_optimizer(model, config)
    for group in optimizer.param_groups:
        group.update(fused=False, foreach=False)
    return optimizer


PLAIN: dict[str, Callable[[], Any]] = {
    "loss in chunks": lambda: patch("nmt.training.gradients.cross_entropy", plain_loss),
    "attention by parts": lambda: patch.object(Attention, "forward", fused),
    "oneDNN's kernels": default_kernels,
    "fused Adam": lambda: patch("nmt.training.gradients.make_optimizer", unfused),
    "gates held at padding": lambda: patch("nmt.models.recurrent.masked_rnn", packed),
    "sparse gradients of words fed back": lambda: patch.object(Embedding, "forward_sparse", Embedding.forward),
}
PARTS = {"small": list(PLAIN)[:4], "lstm": list(PLAIN)[3:]}
CHANGES: dict[str, dict[str, float]] = {"small": {"dropout": 0.0}, "lstm": {"dropout": 0.0, "teacher_forcing": 0.75}}


def losses(encoded: Path, recipe: str, updates: int, device: torch.device, *replaced: str) -> Losses:
    """Return the loss of each update, nats per target piece."""
    model, batch = RECIPES[recipe]["model"] | CHANGES[recipe], RECIPES[recipe]["batch"]
    settings = Experiment.model_validate({"model": model, "training": {"batch": batch, "updates": updates}})
    values = []
    with tempfile.TemporaryDirectory() as state, ExitStack() as stack:
        for name in replaced:
            stack.enter_context(PLAIN[name]())
        trainer = Trainer(encoded, Path(state), settings, 1, device)
        trainer.model.train()
        for update in trainer.updates.after(trainer.progress):
            trainer.train_on(update)
            nll, _, pieces = trainer.sums.tolist()
            trainer.sums.zero_()
            values.append(nll / pieces)
    return values


def farthest(ours: Losses, plain: Losses) -> tuple[float, float]:
    """Return the greatest relative difference of two curves, and the relative difference at their ends."""
    differences = [abs(a - b) / b for a, b in zip(ours, plain, strict=True)]
    return max(differences), differences[-1]


@click.command()
@click.option("--recipe", type=click.Choice([*PARTS]), default="small")
@click.option("--threads", default=2)
@click.option("--updates", default=200)
def main(recipe: str, threads: int, updates: int) -> None:
    """Print one table: the relative differences of the losses."""
    device, lines = machine.prepare("cpu", threads), []
    with tempfile.TemporaryDirectory() as folder:
        encoded = prepare(Path(folder), words="kind" in RECIPES[recipe]["model"])
        ours = losses(encoded, recipe, updates, device)
        for title, names in (*((name, [name]) for name in PARTS[recipe]), ("all of them", PARTS[recipe])):
            plain = losses(encoded, recipe, updates, device, *names)
            lines.append([title, *(f"{value:.1e}" for value in farthest(ours, plain))])
    print(table(("replaced by the plain one", "farthest apart, relative", "at the end"), lines))
    print(f"\n{updates} updates, loss from {ours[0]:.4f} to {ours[-1]:.4f}. {environment(threads)}")


if __name__ == "__main__":
    main()
