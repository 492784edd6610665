"""Linear layers; trained in bfloat16 on a CPU with AMX, they have few different numbers of rows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.system.machine import has_amx

PARTS = 4  # numbers of rows from one power of two to the next


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x (…, D) to (…, F)."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute ``x @ weight.T + bias`` (…, F) for x (…, D).

    oneDNN compiles a kernel for each number of rows, and almost every batch has its own. With AMX, compiling takes 2 to
    5 ms and the product about 1 ms. So zeros fill the rows up to one of a few numbers; this changes no result.
    """
    if x.device.type == "cpu" and torch.is_grad_enabled() and torch.is_autocast_enabled("cpu") and has_amx():
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
        inputs, weights = _fill(x, filled), weight.to(torch.bfloat16)
        ctx.save_for_backward(inputs, weights)
        ctx.shape, ctx.dtype, ctx.has_bias = x.shape, x.dtype, bias is not None
        outputs = F.linear(inputs, weights, None if bias is None else bias.to(torch.bfloat16))
        return outputs[: x.numel() // x.shape[-1]].view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors
        grads = _fill(grad, len(inputs))
        x_grad = (grads @ weights)[: ctx.shape[:-1].numel()].view(ctx.shape).to(ctx.dtype)
        bias_grad = grads.sum(0, dtype=torch.float32) if ctx.has_bias else None
        return x_grad, (grads.t() @ inputs).float(), bias_grad, None


def _fill(x: Tensor, filled: int) -> Tensor:
    """Return x (…, D) as rows (filled, D) in bfloat16, with zeros after its own."""
    rows = x.reshape(-1, x.shape[-1])
    if len(rows) == filled:
        return rows.to(torch.bfloat16)
    full = rows.new_empty(filled, rows.shape[1], dtype=torch.bfloat16)
    full[: len(rows)] = rows
    full[len(rows) :] = 0
    return full
