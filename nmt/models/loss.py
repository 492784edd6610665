"""Cross-entropy of a linear output layer, in chunks of rows: the (positions x vocabulary) scores never exist whole."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 4 * 2**20  # of scores at a time: about what a core's cache holds
CHUNK_ROWS = 192  # at least: with fewer, adding up the weight's gradient costs more than a cache that overflows


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, ...]:
    """Label-smoothed cross-entropy of ``softmax(hidden @ weight.T)`` (Szegedy and others 2016, section 7).

    Args:
        hidden: (N, D), decoder outputs at the N positions that count.
        weight: (V, D), output projection.
        targets: (N,), ids.
        smoothing: mass spread evenly over the vocabulary.

    Returns:
        The smoothed loss to minimise, the plain negative log-likelihood in nats (both summed over N; only the first
        carries gradients), and how many targets got the highest score.
    """
    loss, nll, correct = _LinearCrossEntropy.apply(hidden, weight, targets, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll, correct


class _LinearCrossEntropy(torch.autograd.Function):
    """Forward computes the gradients too, while each chunk of scores is still in the cache."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, ...]:
        compute = hidden.dtype
        if torch.is_autocast_enabled(hidden.device.type):
            compute = torch.get_autocast_dtype(hidden.device.type)
        with torch.autocast(hidden.device.type, enabled=False):
            narrow = weight.to(compute)
            sums = torch.zeros(3, dtype=torch.float64, device=hidden.device)
            hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
            rows = max(CHUNK_ROWS, CHUNK_BYTES // (4 * weight.shape[0])) if hidden.device.type == "cpu" else 4096
            for start in range(0, len(hidden), rows):
                part = slice(start, start + rows)
                sums += _chunk(hidden[part], narrow, targets[part], smoothing, hidden_grad[part], weight_grad)
            _finish(hidden, weight, targets, smoothing, hidden_grad, weight_grad)
        ctx.save_for_backward(hidden_grad, weight_grad)
        loss, nll, correct = sums.to(weight.dtype).unbind()
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None


def _chunk(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    hidden_grad: Tensor,
    weight_grad: Tensor,
) -> Tensor:
    """Losses of some rows, and the softmax's part of their gradients; gives (loss, nll, correct) sums, float64."""
    narrow = hidden.to(weight.dtype)
    scores = (narrow @ weight.t()).to(hidden.dtype)  # (n, V)
    top = scores.amax(-1, keepdim=True)
    gold = scores.gather(1, targets[:, None])
    mean = scores.mean(-1) if smoothing else None
    total = scores.sub_(top).exp_().sum(-1, keepdim=True)  # scores now hold exp(score - top)
    log_total = total.log() + top
    exponentials = scores.to(weight.dtype)
    hidden_grad.copy_((exponentials @ weight).to(hidden.dtype) / total)
    weight_grad += (exponentials.t() @ (hidden / total).to(weight.dtype)).to(weight_grad.dtype)
    nll = (log_total - gold).double().sum()
    loss = nll if mean is None else (1 - smoothing) * nll + smoothing * (log_total[:, 0] - mean).double().sum()
    return torch.stack([loss, nll, (gold == top).double().sum()])


def _finish(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    hidden_grad: Tensor,
    weight_grad: Tensor,
) -> None:
    """Subtract the smoothed one-hot targets' part of the gradients, which needs no scores."""
    hidden_grad -= (1 - smoothing) * weight[targets]
    weight_grad.index_add_(0, targets, hidden, alpha=-(1 - smoothing))
    if smoothing:
        hidden_grad -= smoothing * weight.mean(0)
        weight_grad -= smoothing / len(weight) * hidden.sum(0)
