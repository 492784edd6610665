"""Whether what makes training fast changes what is learnt: losses of 200 updates, each part replaced by the plain one.

    python -m benchmarks.equality [--threads 2] [--updates 200]

The small recipe of `benchmarks.training` in fp32, without dropout (other masks are other trainings), on the same
batches from the same weights. Replaced are the loss in chunks (by `F.cross_entropy` on all scores), attention by parts
(by `F.scaled_dot_product_attention`), and oneDNN's matrix kernels (by PyTorch's default ones); then all at once.
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
from torch import Tensor

from benchmarks.measure import machine, table
from benchmarks.training import RECIPES, prepare
from nmt import runtime
from nmt.models.attention import Attention, KeysValues
from nmt.training import Experiment, Trainer

Losses = list[float]


def plain_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, consistency: float = 0.0
) -> tuple[Tensor, ...]:
    """What `nmt.models.loss.cross_entropy` computes of one pass, by PyTorch's own function."""
    assert not consistency
    scores = hidden @ weight.t()
    loss = F.cross_entropy(scores, targets, label_smoothing=smoothing, reduction="sum")
    nll = F.cross_entropy(scores.detach(), targets, reduction="sum")
    return loss, nll, (scores.argmax(-1) == targets).sum()


def fused(layer: Attention, queries: Tensor, keys_values: KeysValues, mask: Tensor) -> Tensor:
    """What `Attention.forward` computes without dropout, by PyTorch's fused kernel."""
    return layer.output(F.scaled_dot_product_attention(queries, *keys_values, mask).transpose(1, 2).flatten(2))


@contextmanager
def default_kernels() -> Iterator[None]:
    """PyTorch's own matrix kernels while this lasts."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(chosen)


PLAIN: dict[str, Callable[[], Any]] = {
    "loss in chunks": lambda: patch("nmt.training.cross_entropy", plain_loss),
    "attention by parts": lambda: patch.object(Attention, "forward", fused),
    "oneDNN's kernels": default_kernels,
}


def losses(encoded: Path, updates: int, device: torch.device, *replaced: str) -> Losses:
    """The loss of each update, nats a target piece."""
    recipe = RECIPES["small"]
    training = {"batch": recipe["batch"], "updates": updates}
    settings = Experiment.model_validate({"model": recipe["model"] | {"dropout": 0.0}, "training": training})
    found = []
    with tempfile.TemporaryDirectory() as state, ExitStack() as stack:
        for name in replaced:
            stack.enter_context(PLAIN[name]())
        trainer = Trainer(encoded, Path(state), settings, 1, device)
        trainer.model.train()
        for step in trainer._steps():
            trainer._update(step)
            nll, _, pieces = trainer._sums.tolist()
            trainer._sums.zero_()
            found.append(nll / pieces)
    return found


def farthest(ours: Losses, plain: Losses) -> tuple[float, float]:
    """The greatest relative difference of two curves, and that of their ends."""
    apart = [abs(a - b) / b for a, b in zip(ours, plain, strict=True)]
    return max(apart), apart[-1]


@click.command()
@click.option("--threads", default=2)
@click.option("--updates", default=200)
def main(threads: int, updates: int) -> None:
    """Print one table: how far the losses are apart."""
    device, lines = runtime.prepare("cpu", threads), []
    with tempfile.TemporaryDirectory() as folder:
        encoded = prepare(Path(folder), words=False)
        ours = losses(encoded, updates, device)
        for title, names in (*((name, [name]) for name in PLAIN), ("all of them", [*PLAIN])):
            plain = losses(encoded, updates, device, *names)
            lines.append([title, *(f"{value:.1e}" for value in farthest(ours, plain))])
    print(table(("replaced by the plain one", "farthest apart, relative", "at the end"), lines))
    print(f"\n{updates} updates, loss from {ours[0]:.4f} to {ours[-1]:.4f}. {machine(threads)}")


if __name__ == "__main__":
    main()
