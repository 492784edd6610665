"""Dropout whose masks cost a quarter of a random number an element on the CPU."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zero each element with probability p and scale the rest by 1/(1-p), in training only (Srivastava 2014).

    On the CPU one 64-bit draw gives four elements their 16-bit thresholds, since drawing dominates the cost of
    small models; p is then exact to 2^-16.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of a tensor of any shape; the shape stays."""
        if not self.training or self.p == 0:
            return x
        return F.dropout(x, self.p) if x.is_cuda else x * self._mask(x)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """``residual + dropout(x)`` in one pass; both of one shape."""
        if not self.training or self.p == 0:
            return residual + x
        return residual + F.dropout(x, self.p) if x.is_cuda else torch.addcmul(residual, x, self._mask(residual))

    def _mask(self, x: Tensor) -> Tensor:
        """0 or 1/(1-p) for each element of x."""
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        uniform = draws.view(torch.int16)[: x.numel()].view(x.shape)  # -2^15 to 2^15-1
        dropped = round(self.p * 2**16)
        kept = torch.ge(uniform, dropped - 2**15, out=torch.empty_like(x))
        return kept.mul_(2**16 / (2**16 - dropped))
