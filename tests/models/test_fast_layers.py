"""Linear layers beside those of PyTorch."""

import copy

import pytest
import torch
from torch import Tensor, nn

from nmt.models import fast_layers
from nmt.models.fast_layers import Linear, filled_rows
from nmt.models.loss import cross_entropy


def trained(layer: nn.Linear, x: Tensor) -> list[Tensor]:
    """The output of a layer in bfloat16, and the gradients of input, weights and biases."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(x)
    (output.float() ** 2).sum().backward()  # type: ignore[no-untyped-call]
    return [output, *[tensor.grad for tensor in (x, *layer.parameters()) if tensor.grad is not None]]


@pytest.mark.parametrize("rows", [1, 7, 32, 33, 421])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_filled_rows_change_no_result(
    rows: int, biases: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_layers, "has_amx", lambda: True)
    torch.manual_seed(1)
    ours = Linear(24, 40, biases)
    plain = nn.Linear(24, 40, biases)
    plain.load_state_dict(copy.deepcopy(ours.state_dict()))
    x = torch.randn(rows, 3, 24).to(dtype)
    found, expected = trained(ours, x), trained(plain, x)
    assert len(found) == len(expected) == 3 + biases
    for ours_, theirs in zip(found, expected, strict=True):
        assert (ours_.shape, ours_.dtype) == (theirs.shape, theirs.dtype)
        assert (ours_ - theirs).norm() <= 0.005 * theirs.norm()  # bfloat16 has 8 significant bits


def test_frozen_weights_get_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_layers, "has_amx", lambda: True)
    layer = Linear(4, 4).requires_grad_(False)
    assert len(trained(layer, torch.ones(5, 4))) == 2 and layer.weight.grad is None


def test_kernels_see_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    plain = torch.nn.functional.linear

    def watched(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        seen.add(len(x))
        return plain(x, weight, bias)

    monkeypatch.setattr(fast_layers, "has_amx", lambda: True)
    monkeypatch.setattr(torch.nn.functional, "linear", watched)
    layer = Linear(4, 4)
    for rows in range(1025, 2049):
        trained(layer, torch.zeros(rows, 4))
    assert seen == {1280, 1536, 1792, 2048}


@pytest.mark.parametrize("positions", [1, 300, 512, 700])
def test_filled_chunks_of_scores_change_no_loss(positions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    weight, targets = torch.randn(90, 16, requires_grad=True), torch.randint(0, 90, (positions,))
    hidden, results = torch.randn(positions, 16, requires_grad=True), []
    for filled in (True, False):
        monkeypatch.setattr(fast_layers, "has_amx", lambda filled=filled: filled)
        with torch.autocast("cpu", torch.bfloat16):
            sums = cross_entropy(hidden, weight, targets, smoothing=0.1)
        results.append([*sums, *torch.autograd.grad(sums[0], (hidden, weight))])
    for ours, plain in zip(*results, strict=True):
        assert (ours - plain).norm() <= 1e-5 * plain.norm()


def test_the_filling_is_at_most_a_quarter() -> None:
    for rows in range(1, 5000):
        assert rows <= filled_rows(rows) <= 1.25 * rows


def test_other_precisions_and_searches_are_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_layers, "filled_rows", lambda rows: pytest.fail("filled"))
    monkeypatch.setattr(fast_layers, "has_amx", lambda: True)
    layer, x = Linear(4, 4), torch.zeros(5, 4)
    layer(x)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        layer(x)
