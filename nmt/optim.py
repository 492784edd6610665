"""Optimiser and learning-rate schedules."""

import math

from torch import nn, optim

from nmt.config import Optimizer, Schedule


def make(model: nn.Module, config: Optimizer) -> optim.Optimizer:
    """Adam or AdamW over all parameters; Adam's weight decay is L2 added to the gradient.

    Fused: one pass over each parameter's memory, where otherwise there is one for each operation.
    """
    kinds: dict[str, type[optim.Adam]] = {"adam": optim.Adam, "adamw": optim.AdamW}
    return kinds[config.kind](
        model.parameters(), lr=0.0, betas=config.betas, eps=config.epsilon, weight_decay=config.weight_decay, fused=True
    )


def learning_rate(update: int, config: Schedule, width: int, total: int) -> float:
    """Rate of an update, counted from 1: linear warm-up to the peak, the schedule's decay, linear cool-down to 0.

    Args:
        update: which update.
        config: the schedule; its peak defaults to (width * warmup)^-0.5, so that with initial 0 the rate is equation 3
            of Vaswani and others 2017.
        width: the model's.
        total: updates of the whole training, for what ends at 0 with them: the cosine (Loshchilov and Hutter 2017) and
            the cool-down (Hägele and others 2024).
    """
    rate = _decayed(update, config, width, total)
    if config.cooldown:
        rate *= min(1.0, max(0, total - update) / config.cooldown)
    return rate


def _decayed(update: int, config: Schedule, width: int, total: int) -> float:
    warmup = max(config.warmup, 1)
    peak = config.peak or (width * warmup) ** -0.5
    if update < warmup:
        return config.initial + (peak - config.initial) * update / warmup
    if config.kind == "inverse-sqrt":
        return peak * math.sqrt(warmup / update)
    if config.kind == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (update - warmup) / max(1, total - warmup))))
    return peak
