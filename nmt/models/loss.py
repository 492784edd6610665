"""Cross-entropy of a linear output layer, in chunks of rows: the (positions x vocabulary) scores never exist whole."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 4 * 2**20  # of scores at a time: about what a core's cache holds
CHUNK_ROWS = 512  # at least: with fewer, adding up the weight's gradient costs more than a cache that overflows


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
                sums += _chunk(hidden[part], narrow, targets[part], hidden_grad[part], weight_grad)
            nll, uniform, correct = sums.unbind()  # uniform: the loss against the uniform distribution
            if smoothing:
                uniform -= hidden.double().sum(0) @ weight.double().mean(0)  # the scores' means, without the scores
            loss = ((1 - smoothing) * nll + smoothing * uniform).to(weight.dtype)
            _finish(hidden, weight, targets, smoothing, hidden_grad, weight_grad)
        ctx.save_for_backward(hidden_grad, weight_grad)
        nll, correct = nll.to(weight.dtype), correct.to(weight.dtype)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None


def _chunk(hidden: Tensor, weight: Tensor, targets: Tensor, hidden_grad: Tensor, weight_grad: Tensor) -> Tensor:
    """Add the softmax's part of some rows' gradients; gives sums of nll, log of the softmax's total, hits; float64."""
    narrow = hidden.to(weight.dtype)
    scores = narrow @ weight.t()  # (n, V)
    top, gold = scores.amax(-1), scores.gather(1, targets[:, None])[:, 0]
    probabilities = torch.softmax(scores, -1)  # its exponential takes half the time of torch.exp
    hidden_grad.copy_(probabilities @ weight)
    weight_grad += probabilities.t() @ narrow
    log_total = top.double() - probabilities.amax(-1).double().log()  # the greatest is exp(top) / total
    return torch.stack([(log_total - gold).sum(), log_total.sum(), (gold == top).double().sum()])


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
