"""Optimisers: what one update does, compared with slow references; learning rates."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from test_training import KINDS, assert_same_weights, experiment, run_to_end, weights
from torch import Tensor, nn

from nmt.config.training import Optimizer, Schedule
from nmt.models.build import build
from nmt.system import machine
from nmt.training.optimizer import Float32Muon, hidden_matrices, learning_rate, make_optimizer

RATE = 0.01
Tensors = dict[str, Tensor]


def after_an_update(
    config: Optimizer, kind: str = "transformer"
) -> tuple[nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    """Return a model, and by name the gradients and movements of its parameters in one update from fixed weights."""
    torch.manual_seed(1)
    model = build(experiment(kind=kind).model, 50, 50, 0).eval()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    source, target = torch.randint(4, 50, (2, 8, 7)).unbind()
    model.projection(model(source, target)).logsumexp(-1).sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    optimizer = make_optimizer(model, config)
    for group in optimizer.param_groups:
        group["lr"] = RATE
    optimizer.step()
    return model, gradients, {name: parameter.detach() - before[name] for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_muon_moves_hidden_matrices_along_the_gradients_nearest_orthogonal_matrix(
    kind: str, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by singular values (Jordan and others 2024), as long as 0.2 a number (Liu and others 2025)."""
    monkeypatch.setattr(machine, "_capabilities", lambda: {"avx512_bf16": fast})
    model, gradients, moved = after_an_update(Optimizer(kind="muon"), kind)
    matrices = {id(parameter) for parameter in hidden_matrices(model)}
    found = [name for name, parameter in model.named_parameters() if id(parameter) in matrices and name in gradients]
    assert len(found) > 3
    for name in found:
        left, lengths, right = torch.linalg.svd(gradients[name], full_matrices=False)
        certain = lengths > lengths[0] / 20  # five steps of Newton and Schulz's leave the smallest short
        turned = -left.T @ moved[name] @ right.T / (RATE * 0.2 * max(moved[name].shape) ** 0.5)
        lengths = turned.diagonal()[certain]
        assert 0.6 < lengths.min() <= lengths.max() < 1.3, name
        assert (turned[certain][:, certain] - lengths.diag()).abs().max() < 0.2, name  # it computes in bfloat16


def test_muon_in_float32_is_pytorchs_but_for_rounding() -> None:
    """Over several updates, with momentum and weight decay, of matrices that are wide and high."""
    torch.manual_seed(1)
    gradients = [[torch.randn(shape) for shape in ((24, 10), (10, 24), (16, 16))] for _ in range(4)]
    moved = []
    for kind in (torch.optim.Muon, Float32Muon):
        weights = [nn.Parameter(torch.ones_like(gradient)) for gradient in gradients[0]]
        optimizer = kind(weights, lr=RATE, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw")
        for step in gradients:
            for weight, gradient in zip(weights, step, strict=True):
                weight.grad = gradient.clone()
            optimizer.step()  # type: ignore[no-untyped-call]
        moved.append(torch.cat([weight.flatten() - 1 for weight in weights]))
    assert (moved[0] - moved[1]).norm() < 0.02 * moved[0].norm()


def test_muon_moves_all_else_as_adamw_does() -> None:
    model, _, moved = after_an_update(Optimizer(kind="muon", weight_decay=0.1))
    _, _, expected = after_an_update(Optimizer(kind="adamw", weight_decay=0.1))
    matrices = {id(parameter) for parameter in hidden_matrices(model)}
    rest = [name for name, parameter in model.named_parameters() if id(parameter) not in matrices]
    assert {"source_embedding.pieces.weight", "encoder.0.residuals.0.norm.bias"} <= set(rest)
    assert all(torch.equal(moved[name], expected[name]) for name in rest)


@pytest.mark.parametrize("tied", ["none", "decoder", "all"])
def test_embeddings_and_the_projection_are_no_hidden_matrices(tied: str) -> None:
    config = experiment({"tied": tied, "positions": "learned"}).model
    model = build(config, 50, 50, 0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {names[id(parameter)] for parameter in hidden_matrices(model)}
    parts = ["attention.project", "attention.output", "feed_forward.inner", "feed_forward.outer"]
    source = ["source_attention.project", "source_attention.output"]
    assert found == {
        f"{side}.0.{part}.weight"
        for side, own in (("encoder", parts), ("decoder", [*parts, *source]))
        for part in own
    }  # fmt: skip


def test_a_momentum_that_nothing_would_take_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"momentum is for kind: muon only, got 0\.9 with kind: adam"):
        Optimizer(momentum=0.9)


@pytest.mark.integration
def test_muon_resumes_bit_for_bit(copy_corpus: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"optimizer": {"kind": "muon"}, "validation_bleu": False}
    run_to_end(copy_corpus, tmp_path / "undisturbed", experiment(**options))
    for updates in (20, 40):
        run_to_end(copy_corpus, tmp_path / "resumed", experiment(**options, updates=updates))
    assert_same_weights(tmp_path / "undisturbed", tmp_path / "resumed")
    run_to_end(copy_corpus, tmp_path / "adam", experiment(validation_bleu=False))
    matrix = "encoder.0.feed_forward.inner.weight"
    assert not torch.equal(weights(tmp_path / "adam", 40)[matrix], weights(tmp_path / "resumed", 40)[matrix])


@pytest.mark.parametrize(
    ("config", "update", "expected"),
    [
        (Schedule(warmup=4000), 1, 128**-0.5 * 4000**-1.5),
        (Schedule(warmup=4000), 4000, 128**-0.5 * 4000**-0.5),
        (Schedule(warmup=4000), 16000, 128**-0.5 * 16000**-0.5),
        (Schedule(peak=5e-3, warmup=2000, initial=1e-7), 1000, 1e-7 + (5e-3 - 1e-7) / 2),
        (Schedule(peak=5e-3, warmup=2000, initial=1e-7), 8000, 2.5e-3),
        (Schedule(kind="constant", peak=3e-3, warmup=0), 1, 3e-3),
        (Schedule(kind="constant", peak=3e-3, warmup=10), 5, 1.5e-3),
        (Schedule(kind="cosine", peak=1e-3, warmup=100), 600, 5e-4),
        (Schedule(kind="cosine", peak=1e-3, warmup=100), 1100, 0.0),
        (Schedule(peak=1e-3, warmup=100, cooldown=200), 900, 1e-3 / 3),
        (Schedule(peak=1e-3, warmup=100, cooldown=200), 1000, 1e-3 * 10**-0.5 / 2),
        (Schedule(kind="constant", peak=1e-3, warmup=100, cooldown=200), 1100, 0.0),
    ],
)
def test_learning_rates(config: Schedule, update: int, expected: float) -> None:
    assert learning_rate(update, config, 128, 1100) == pytest.approx(expected, abs=1e-12)
