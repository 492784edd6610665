"""Optimisers and learning-rate schedules."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn, optim

from nmt.config.training import Optimizer, Schedule


def make(model: nn.Module, config: Optimizer) -> optim.Optimizer:
    """Adam or AdamW over all parameters, Adam's weight decay being L2 added to the gradient; or Muon and AdamW.

    Fused: one pass over each parameter's memory, where otherwise there is one for each operation.
    """
    matrices = hidden_matrices(model) if config.kind == "muon" else []
    taken = set(map(id, matrices))
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    on_gpu = others[0].is_cuda  # where the rate is a tensor: a graph of the step reads what it is then
    adam = (optim.Adam if config.kind == "adam" else optim.AdamW)(
        others, lr=torch.zeros((), device=others[0].device) if on_gpu else 0.0, betas=config.betas, eps=config.epsilon,
        weight_decay=config.weight_decay, fused=True, capturable=on_gpu,
    )  # fmt: skip
    if not matrices:
        return adam
    # Updates as long as Adam's, so that one rate suits both (Liu and others 2025, section 2.2).
    muon = optim.Muon(
        matrices,
        lr=0.0,
        weight_decay=config.weight_decay,
        momentum=config.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
    return Together([adam, muon])


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices that take hidden units to hidden units: no table of vectors, and not the output projection."""
    inner = (module for name, module in model.named_modules() if name != "projection")
    layers = (module for module in inner if isinstance(module, nn.Linear | nn.RNNBase))
    return [parameter for layer in layers for parameter in layer.parameters() if parameter.ndim == 2]


def set_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Give all parameters a learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def recordable(optimizer: optim.Optimizer) -> bool:
    """Whether its steps differ by tensors alone, so that one can be done again by a CUDA graph; Muon's do not."""
    return all(isinstance(group["lr"], torch.Tensor) for group in optimizer.param_groups)


class Together(optim.Optimizer):
    """Several optimisers, each of some of a model's parameters, as one."""

    def __init__(self, parts: Sequence[optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.param_groups = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of each."""
        assert closure is None
        for part in self.parts:
            part.step()


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
