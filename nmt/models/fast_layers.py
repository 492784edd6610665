"""Dropout and linear layers of PyTorch, made faster on the CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.system.machine import has_amx

PARTS = 4  # numbers of rows from one power of two to the next


class Dropout(nn.Module):
    """Zero each element with probability p and scale the rest by 1/(1-p), in training only (Srivastava 2014).

    Random numbers dominate the cost of small models. So on the CPU one 64-bit random number serves four elements with
    16 bits each; p is then exact to 2^-16.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to a tensor of any shape; return a tensor of the same shape."""
        if not self.training or self.p == 0:
            return x
        return F.dropout(x, self.p) if x.is_cuda else x * self._mask(x)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """Compute ``residual + dropout(x)`` in one pass; both have the same shape."""
        if not self.training or self.p == 0:
            return residual + x
        return residual + F.dropout(x, self.p) if x.is_cuda else torch.addcmul(residual, x, self._mask(residual))

    def _mask(self, x: Tensor) -> Tensor:
        """Draw 0 or 1/(1-p) for each element of x."""
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        uniform = draws.view(torch.int16)[: x.numel()].view(x.shape)  # -2^15 to 2^15-1
        threshold = round(self.p * 2**16)
        mask = torch.ge(uniform, threshold - 2**15, out=torch.empty_like(x))
        return mask.mul_(2**16 / (2**16 - threshold))


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (…, D) to (…, F)."""
        return linear(x, self.weight, self.bias)


def compiles_slowly(x: Tensor) -> bool:
    """Whether a kernel is compiled for each new shape of bfloat16 matrices on the device of x, as with AMX."""
    return x.device.type == "cpu" and has_amx()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute ``x @ weight.T + bias`` (…, F) for x (…, D).

    oneDNN compiles a kernel for each number of rows, and almost every batch has its own. With AMX, compiling takes 1 to
    5 ms and the product about 1 ms. So zeros fill the rows up to one of a few numbers. Results change by rounding only.
    """
    if torch.is_grad_enabled() and torch.is_autocast_enabled("cpu") and compiles_slowly(x):
        filled = filled_rows(x.numel() // x.shape[-1])
        with torch.autocast("cpu", enabled=False):
            rows: Tensor = _FilledLinear.apply(x, weight, bias, filled)  # type: ignore[no-untyped-call]
        return rows
    return F.linear(x, weight, bias)


def filled_rows(rows: int) -> int:
    """Round a number of rows up to one of `PARTS` numbers in each doubling, so by at most a quarter."""
    unit = max(1, (1 << (rows - 1).bit_length()) // (2 * PARTS))
    return -(-rows // unit) * unit


class _FilledLinear(torch.autograd.Function):
    """A linear layer in bfloat16, with rows of zeros after those of the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, filled: int) -> Tensor:
        inputs, weights = fill(x, filled), weight.to(torch.bfloat16)
        ctx.save_for_backward(inputs, weights)
        ctx.shape = x.shape
        outputs = F.linear(inputs, weights, None if bias is None else bias.to(torch.bfloat16))
        return outputs[: x.numel() // x.shape[-1]].view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors
        grads = fill(grad, len(inputs))
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        return (
            (grads @ weights)[: ctx.shape[:-1].numel()].view(ctx.shape) if of_x else None,
            grads.t() @ inputs if of_weight else None,
            grads.sum(0) if of_bias else None,
            None,
        )


def fill(x: Tensor, filled: int) -> Tensor:
    """Return x (…, D) as rows (filled, D) in bfloat16, with zeros after its own."""
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == filled:
        return rows.to(torch.bfloat16)
    full = rows.new_empty(filled, rows.shape[1], dtype=torch.bfloat16)
    full[: len(rows)] = rows
    full[len(rows) :] = 0
    return full
