"""Optimisers and learning-rate schedules."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn, optim

from nmt.config.training import Optimizer, Schedule
from nmt.system.machine import has_bfloat16


def make_optimizer(model: nn.Module, config: Optimizer) -> optim.Optimizer:
    """Make Adam or AdamW for all parameters, or Muon for the hidden matrices and AdamW for the rest.

    Parameters that need no gradient are left out: they have no state, and no weight decay reaches them.
    Adam's weight decay is L2, added to the gradient. Adam is fused: it passes over each parameter's memory once instead
    of once per operation.
    """
    matrices = hidden_matrices(model) if config.kind == "muon" else []
    hidden = set(map(id, matrices))
    others = [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) not in hidden]
    on_gpu = others[0].is_cuda  # the rate is a tensor there, because a CUDA graph reads its value at each replay
    adam = (optim.Adam if config.kind == "adam" else optim.AdamW)(
        others, lr=torch.zeros((), device=others[0].device) if on_gpu else 0.0, betas=config.betas, eps=config.epsilon,
        weight_decay=config.weight_decay, fused=True, capturable=on_gpu,
    )  # fmt: skip
    if not matrices:
        return adam
    # Updates as long as Adam's, so that one rate suits both (Liu and others 2025, section 2.2).
    muon = (optim.Muon if has_bfloat16(others[0].device) else Float32Muon)(
        matrices, lr=0.0, weight_decay=config.weight_decay, momentum=config.momentum, adjust_lr_fn="match_rms_adamw"
    )
    return CombinedOptimizer([adam, muon])


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the matrices from hidden units to hidden units that need gradients: no embeddings or output projection."""
    inner = (module for name, module in model.named_modules() if name != "projection")
    layers = (module for module in inner if isinstance(module, nn.Linear | nn.RNNBase))
    return [
        parameter
        for layer in layers
        for parameter in layer.parameters()
        if parameter.ndim == 2 and parameter.requires_grad
    ]


def set_learning_rate(optimizer: optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def recordable(optimizer: optim.Optimizer) -> bool:
    """Return whether a CUDA graph can repeat the optimiser: all that changes is in tensors. Not so for Muon."""
    return all(isinstance(group["lr"], Tensor) for group in optimizer.param_groups)


class Float32Muon(optim.Muon):
    """Muon with matrix products in float32, for devices without instructions for bfloat16.

    PyTorch's computes them in bfloat16; its state is the same. Of its options, this one has Nesterov's momentum and
    ``match_rms_adamw`` alone.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move each matrix against the nearest orthogonal matrix of its momentum."""
        assert closure is None
        for group in self.param_groups:
            for weight in (parameter for parameter in group["params"] if parameter.grad is not None):
                state = self.state[weight]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(weight)
                average = state["momentum_buffer"]
                average.lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(average, group["momentum"])  # Nesterov's momentum
                direction = _nearest_orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(direction, alpha=-0.2 * group["lr"] * math.sqrt(max(weight.shape)))


def _nearest_orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Return about the orthogonal matrix nearest to a matrix (N, M), by Newton-Schulz iterations (Jordan 2024).

    Its singular values are between 0.7 and 1.2 where those of the matrix are not tiny.
    """
    a, b, c = coefficients
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide


class CombinedOptimizer(optim.Optimizer):
    """Several optimisers as one, each for some of the parameters."""

    def __init__(self, parts: Sequence[optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.param_groups = [group for part in parts for group in part.param_groups]
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Call each optimiser."""
        assert closure is None
        for part in self.parts:
            part.step()


def learning_rate(update: int, config: Schedule, width: int, total: int) -> float:
    """Return the rate of an update: linear warm-up to the peak, the schedule's decay, linear cool-down to 0.

    Args:
        update: its number, counted from 1.
        config: the schedule; its peak defaults to (width * warmup)^-0.5, so that with initial 0 the rate is equation 3
            of Vaswani and others 2017.
        width: of the model.
        total: updates of the whole training; the cosine (Loshchilov and Hutter 2017) and the cool-down (Hägele and
            others 2024) reach 0 there.
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
