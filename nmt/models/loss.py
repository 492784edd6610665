"""Cross-entropy of a linear output layer, in chunks of rows: the (positions x vocabulary) scores never exist whole."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 4 * 2**20  # of scores at a time: about what a core's cache holds
CHUNK_ROWS = 512  # at least: with fewer, adding up the weight's gradient costs more than a cache that overflows


def cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, consistency: float = 0.0
) -> tuple[Tensor, ...]:
    """Label-smoothed cross-entropy of ``softmax(hidden @ weight.T)`` (Szegedy and others 2016, section 7).

    With consistency it is the mean of two passes, and how far their predictions diverge is added (R-Drop, Liang and
    others 2021, section 2): half of that paper's loss.

    Args:
        hidden: (N, D), decoder outputs at the N positions that count; with consistency (2N, D), all of the first pass
            before all of the second.
        weight: (V, D), output projection.
        targets: (N,), ids.
        smoothing: mass spread evenly over the vocabulary.
        consistency: weight of the mean of both Kullback-Leibler divergences, beside the sum of the cross-entropies.

    Returns:
        The loss to minimise, the plain negative log-likelihood in nats (both summed over N; only the first carries
        gradients), and how many targets got the highest score; the mean of both passes where there are two.
    """
    sums = _LinearCrossEntropy.apply(hidden, weight, targets, smoothing, consistency)  # type: ignore[no-untyped-call]
    loss, nll, correct = (each / (2 if consistency else 1) for each in sums)
    return loss, nll, correct


class _LinearCrossEntropy(torch.autograd.Function):
    """Forward computes the gradients too, while each chunk of scores is still in the cache."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, consistency: float
    ) -> tuple[Tensor, ...]:
        compute = hidden.dtype
        if torch.is_autocast_enabled(hidden.device.type):
            compute = torch.get_autocast_dtype(hidden.device.type)
        with torch.autocast(hidden.device.type, enabled=False):
            narrow = weight.to(compute)
            sums = torch.zeros(4, dtype=torch.float64, device=hidden.device)
            hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
            passes = 2 if consistency else 1
            outputs, slopes = (rows.view(passes, len(targets), hidden.shape[1]) for rows in (hidden, hidden_grad))
            for part in _parts(len(targets), passes, len(weight), hidden.device.type):
                sums += _chunk(outputs[:, part], narrow, targets[part], slopes[:, part], weight_grad, consistency)
            nll, uniform, correct, divergence = sums.unbind()  # uniform: the loss against the uniform distribution
            if smoothing:
                uniform -= hidden.double().sum(0) @ weight.double().mean(0)  # the scores' means, without the scores
            loss = ((1 - smoothing) * nll + smoothing * uniform + consistency * divergence).to(weight.dtype)
            _finish(hidden, weight, targets.repeat(passes), smoothing, hidden_grad, weight_grad)
        ctx.save_for_backward(hidden_grad, weight_grad)
        nll, correct = nll.to(weight.dtype), correct.to(weight.dtype)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None, None


def _parts(positions: int, passes: int, vocabulary: int, device: str) -> Iterator[slice]:
    """Positions whose scores, of all passes, are one chunk."""
    rows = max(CHUNK_ROWS, CHUNK_BYTES // (4 * vocabulary)) if device == "cpu" else 4096
    return (slice(start, start + rows // passes) for start in range(0, positions, rows // passes))


def _chunk(
    hidden: Tensor, weight: Tensor, targets: Tensor, hidden_grad: Tensor, weight_grad: Tensor, consistency: float
) -> Tensor:
    """Add what some positions' scores give to the gradients, all but their targets' part (`_finish`).

    Args:
        hidden: (P, n, D), by pass; `hidden_grad` alike.
        weight: (V, D); `weight_grad` alike.
        targets: (n,).
        consistency: of two passes; 0 of one.

    Returns:
        Sums over all passes of nll, log of the softmax's total, and hits, and of the divergence; float64.
    """
    narrow = hidden.to(weight.dtype).flatten(0, 1)
    scores = narrow @ weight.t()  # (P * n, V)
    top, gold = _greatest(scores), scores.gather(1, targets.repeat(len(hidden))[:, None])[:, 0]
    # Its exponential takes half the time of torch.exp; in place, where the scores are not needed again.
    probabilities = torch.softmax(scores, -1, out=None if consistency else scores)
    log_total = top.double() - _greatest(probabilities).double().log()  # the greatest is exp(top) / total
    slope, scale, divergence = probabilities, 1.0, log_total.new_zeros(())
    if consistency:
        scale = consistency / 2
        slope, divergence = _diverge(scores, log_total, probabilities, scale)
    hidden_grad.copy_((slope @ weight).view_as(hidden)).mul_(scale)
    if slope.dtype == weight_grad.dtype:
        weight_grad.addmm_(slope.t(), narrow, alpha=scale)
    else:  # products in bfloat16, whose sum stays in float32
        weight_grad.add_(slope.t() @ narrow, alpha=scale)
    return torch.stack([(log_total - gold).sum(), log_total.sum(), (gold == top).double().sum(), divergence])


def _greatest(rows: Tensor) -> Tensor:
    """Each row's greatest number, as ``rows.amax(-1)``, which takes PyTorch ten times as long in bfloat16 on the CPU.

    The bits of numbers from 0 on are in the order of integers; a row without one is told by what they give.
    """
    if rows.device.type == "cpu" and rows.dtype == torch.bfloat16:
        found = rows.view(torch.int16).amax(-1).view(torch.bfloat16)
        if (found >= 0).all():
            return found
    return rows.amax(-1)


def _diverge(scores: Tensor, log_total: Tensor, probabilities: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Mean of both divergences of two passes' predictions p and q, in nats, and what it makes of the scores' gradients.

    Args:
        scores: (2n, V), the first pass's before the second's; overwritten.
        log_total: (2n,), log of each row's sum of exponentials.
        probabilities: (2n, V), without consistency the gradients.
        scale: weight of the sum of both divergences: half the consistency.

    Returns:
        The gradients (2n, V) divided by the scale, and the sum over n of (KL(p||q) + KL(q||p)) / 2, float64.
    """
    (a, b), (p, q), (total_p, total_q) = scores.chunk(2), probabilities.chunk(2), log_total.chunk(2)
    gap = a.sub_(b).sub_((total_p - total_q).to(a.dtype)[:, None])  # log p - log q
    p_to_q, q_to_p = (p * gap).sum(-1, keepdim=True), (q * gap).sum(-1, keepdim=True).neg()
    apart, slope = p - q, torch.empty_like(probabilities)  # the difference of multiples would be rounding in bfloat16
    torch.addcmul(apart, p, gap + (1 / scale - p_to_q), out=slope[: len(p)])
    torch.addcmul(apart.neg_(), q, (1 / scale - q_to_p) - gap, out=slope[len(p) :])
    return slope, (p_to_q + q_to_p).double().sum() / 2


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
