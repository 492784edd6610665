"""Cross-entropy of a linear output layer, in chunks that avoid storing all scores (positions x vocabulary) at once."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmt.models.fast_layers import compiles_slowly, fill, filled_rows

CHUNK_BYTES = 4 * 2**20  # size of a chunk of scores: about the cache of one core
CHUNK_ROWS = 512  # minimum; with fewer rows, summing the weight's gradient costs more than exceeding the cache


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
    consistency: float = 0.0,
    bias: Tensor | None = None,
    shares: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Compute the label-smoothed cross-entropy of ``softmax(hidden @ weight.T + bias)``.

    Label smoothing is that of Szegedy and others (2016, section 7).

    With consistency, the loss is the mean over two passes plus the divergence of their predictions (R-Drop, Liang and
    others 2021, section 2). This is half of the paper's loss.

    Args:
        hidden: decoder outputs at the N positions to predict (N, D); with consistency (2N, D), first pass first.
        weight: output projection (V, D).
        targets: ids (N,).
        smoothing: probability mass that is distributed evenly over the vocabulary.
        consistency: weight of the mean of both Kullback-Leibler divergences, relative to the sum of both
            cross-entropies; 0 for a single pass.
        bias: bias of the output projection (V,).
        shares: weight of each target in the loss (N,), only for a single pass; None for 1.

    Returns:
        The loss, the negative log-likelihood in nats, and the number of targets with the highest score. All three are
        sums over N, and means over the passes. Only the loss has gradients.
    """
    if bias is not None:  # the weight of one more input, which is always 1
        hidden = torch.cat([hidden, hidden.new_ones(len(hidden), 1)], 1)
        weight = torch.cat([weight, bias[:, None]], 1)
    sums = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, smoothing, consistency, shares
    )
    loss, nll, correct = (total / (2 if consistency else 1) for total in sums)
    return loss, nll, correct


def guided_alignment(weights: Tensor, links: Tensor) -> Tensor:
    """Compute the cross-entropy of attention against a given alignment (Chen and others 2016, section 3).

    Args:
        weights: attention weights (B, T, S).
        links: for each of the T pieces a distribution over the source, or zeros for a piece without links (B, T, S).

    Returns:
        Nats for each piece (B, T); 0 for a piece without links.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    return -(links * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).sum(-1)


class _LinearCrossEntropy(torch.autograd.Function):
    """Cross-entropy whose forward pass also computes the gradients, while each chunk of scores is in the cache.

    For one position with scores z over V pieces, target y and smoothing e, the loss is
    (1 - e) * (log sum exp z - z[y]) + e * (log sum exp z - mean z), and its gradient by z is
    softmax(z) - (1 - e) * onehot(y) - e / V. `_chunk` adds the part of the softmax to the gradients of hidden and
    weight; `_subtract_targets` subtracts the rest, once for all chunks, as it needs no scores.

    P is the number of passes, 2 with consistency, else 1. A position's share is the weight of its target.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        consistency: float,
        shares: Tensor | None,
    ) -> tuple[Tensor, ...]:
        compute = hidden.dtype
        if torch.is_autocast_enabled(hidden.device.type):
            compute = torch.get_autocast_dtype(hidden.device.type)
        with torch.autocast(hidden.device.type, enabled=False):
            cast_weight = weight.to(compute)
            hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
            passes = 2 if consistency else 1
            by_pass = passes, len(targets), hidden.shape[1]  # (P, N, D)
            outputs, grads = hidden.view(by_pass), hidden_grad.view(by_pass)
            sums = torch.zeros(5, dtype=torch.float64, device=hidden.device)
            for part in _parts(len(targets), passes, len(weight), hidden.device.type):
                share = None if shares is None else shares[part, None]  # (n, 1)
                sums += _chunk(
                    outputs[:, part], cast_weight, targets[part], grads[:, part], weight_grad, consistency, share
                )
            nll, shared_nll, shared_log_total, correct, divergence = sums.unbind()
            shared_hidden = hidden if shares is None else hidden * shares[:, None]
            uniform = shared_log_total  # becomes the cross-entropy against the uniform distribution
            if smoothing:
                uniform -= shared_hidden.double().sum(0) @ weight.mean(0).double()  # sum of each row's mean score
            loss = ((1 - smoothing) * shared_nll + smoothing * uniform + consistency * divergence).to(weight.dtype)
            _subtract_targets(shared_hidden, weight, targets.repeat(passes), smoothing, hidden_grad, weight_grad)
            if shares is not None:
                hidden_grad *= shares[:, None]
        ctx.save_for_backward(hidden_grad, weight_grad)
        nll, correct = nll.to(weight.dtype), correct.to(weight.dtype)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None, None, None


def _parts(positions: int, passes: int, vocabulary: int, device: str) -> Iterator[slice]:
    """Yield the slices of positions whose scores, in all passes, form one chunk."""
    rows = max(CHUNK_ROWS, CHUNK_BYTES // (4 * vocabulary)) if device == "cpu" else 4096
    return (slice(start, start + rows // passes) for start in range(0, positions, rows // passes))


def _chunk(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    hidden_grad: Tensor,
    weight_grad: Tensor,
    consistency: float,
    share: Tensor | None,
) -> Tensor:
    """Add the softmax's part of a chunk to the gradients, and with consistency that of the divergence.

    Args:
        hidden: decoder outputs of n positions (P, n, D).
        weight: output projection (V, D).
        targets: ids (n,).
        hidden_grad: gradient of ``hidden``, to be written without the share (P, n, D).
        weight_grad: gradient of ``weight``, to be added to (V, D).
        consistency: weight of the divergence of two passes; 0 for one pass.
        share: weight of each target in the loss (n, 1); None for 1.

    Returns:
        Sums (5,), float64: negative log-likelihood; the same times the share; the log of the softmax's denominator
        times the share; correct predictions; divergence.
    """
    cast_hidden = hidden.to(weight.dtype).flatten(0, 1)  # (P * n, D)
    rows = len(cast_hidden)
    if weight.dtype == torch.bfloat16 and share is None and not consistency and compiles_slowly(weight):
        cast_hidden = fill(cast_hidden, filled_rows(rows))  # the last chunk has fewer rows than the others
    scores = cast_hidden @ weight.t()  # (P * n, V)
    probabilities, log_total, gold, correct = _predict(scores, targets.repeat(len(hidden)), in_place=not consistency)
    nll = log_total - gold  # (P * n,)
    if consistency:
        scale = consistency / 2
        score_grad, divergence = _divergence(scores, log_total, probabilities, scale)
    else:
        scale, score_grad, divergence = 1.0, probabilities, log_total.new_zeros(())
    hidden_grad.copy_((score_grad @ weight)[:rows].view_as(hidden)).mul_(scale)
    shared_nll, shared_log_total = nll, log_total
    if share is not None:
        cast_hidden = (cast_hidden * share).to(cast_hidden.dtype)
        shared_nll, shared_log_total = nll * share[:, 0], log_total * share[:, 0]
    if score_grad.dtype == weight_grad.dtype:
        weight_grad.addmm_(score_grad.t(), cast_hidden, alpha=scale)
    else:  # products in bfloat16, their sum in float32
        weight_grad.add_(score_grad.t() @ cast_hidden, alpha=scale)
    return torch.stack([nll.sum(), shared_nll.sum(), shared_log_total.sum(), correct.double().sum(), divergence])


def _predict(scores: Tensor, targets: Tensor, in_place: bool) -> tuple[Tensor, ...]:
    """Compute probabilities from scores (N, V). Only the first n rows have targets (n,); zeros fill the others.

    Returns:
        Probabilities (N, V), written over the scores if ``in_place``; for each target the log of the softmax's
        denominator, float64 (n,), the score (n,), and whether no score is greater (n,).
    """
    rows = len(targets)
    top, gold = _greatest(scores)[:rows], scores.gather(1, targets[:, None])[:, 0]
    # The exponential inside softmax takes half the time of torch.exp.
    probabilities = torch.softmax(scores, -1, out=scores if in_place else None)
    log_total = top.double() - _greatest(probabilities)[:rows].double().log()  # the greatest is exp(top) / total
    return probabilities, log_total, gold, gold == top


def _greatest(rows: Tensor) -> Tensor:
    """Return each row's greatest number like ``rows.amax(-1)``, but ten times as fast for bfloat16 on the CPU.

    Non-negative bfloat16 numbers have the same order as their bits read as integers. If a row has only negative
    numbers, the result is negative, and ``amax`` is used instead.
    """
    if rows.device.type == "cpu" and rows.dtype == torch.bfloat16:
        maxima = rows.view(torch.int16).amax(-1).view(torch.bfloat16)
        if (maxima >= 0).all():
            return maxima
    return rows.amax(-1)


def _divergence(scores: Tensor, log_total: Tensor, probabilities: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Compute the gradients of a chunk with consistency, and the divergence of two passes' predictions p and q.

    Args:
        scores: scores of the first pass, then of the second (2n, V); overwritten.
        log_total: log of each row's sum of exponentials (2n,).
        probabilities: softmax of the scores (2n, V), which is the gradient without consistency.
        scale: weight of the sum of both divergences, half of the consistency.

    Returns:
        The gradients of the scores divided by the scale (2n, V), and the sum over n of (KL(p||q) + KL(q||p)) / 2 in
        nats, float64.
    """
    (a, b), (p, q), (total_p, total_q) = scores.chunk(2), probabilities.chunk(2), log_total.chunk(2)
    gap = a.sub_(b).sub_((total_p - total_q).to(a.dtype)[:, None])  # log p - log q
    p_to_q, q_to_p = (p * gap).sum(-1, keepdim=True), (q * gap).sum(-1, keepdim=True).neg()
    # Subtracting multiples of p and q instead would leave only rounding errors in bfloat16.
    difference, score_grad = p - q, torch.empty_like(probabilities)
    torch.addcmul(difference, p, gap + (1 / scale - p_to_q), out=score_grad[: len(p)])
    torch.addcmul(difference.neg_(), q, (1 / scale - q_to_p) - gap, out=score_grad[len(p) :])
    return score_grad, (p_to_q + q_to_p).double().sum() / 2


def _subtract_targets(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, hidden_grad: Tensor, weight_grad: Tensor
) -> None:
    """Subtract the part of the smoothed one-hot targets from the gradients, which needs no scores."""
    hidden_grad -= (1 - smoothing) * weight[targets]
    weight_grad.index_add_(0, targets, hidden, alpha=-(1 - smoothing))
    if smoothing:
        hidden_grad -= smoothing * weight.mean(0)
        weight_grad -= smoothing / len(weight) * hidden.sum(0)
