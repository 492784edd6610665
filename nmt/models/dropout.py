"""Dropout that needs only a quarter of a random number per element on the CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
