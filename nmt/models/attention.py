"""Multi-head scaled dot-product attention (Vaswani and others 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.dropout import Dropout
from nmt.system.machine import kernels_without_shapes

VECTOR = 16  # numbers in fp32 that an instruction of AVX-512 takes
MANY = 4  # sentences, and fewer pairs of query and key than `SHORT` in each: then products are faster than one kernel
SHORT = 1024
KeysValues = tuple[Tensor, Tensor]  # each (B, H, S, D/H)


class Attention(nn.Module):
    """Projections of queries, keys and values, H heads, and the output projection.

    Self-attention projects all three by one product; attention over an encoder's output projects keys and values
    once a sentence (`keys_values`).
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)  # rows: queries, keys, values
        self.output = nn.Linear(width, width)
        self.dropout = Dropout(dropout)
        for part in self.project.weight.chunk(3):
            nn.init.xavier_uniform_(part, gain=2**-0.5)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.project.bias)
        nn.init.zeros_(self.output.bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x (B, T, D) to queries, keys and values, each (B, H, T, D/H)."""
        queries, keys, values = self._split(self.project(x), 3)
        return queries, keys, values

    def queries(self, x: Tensor) -> Tensor:
        """Project x (B, T, D) to queries (B, H, T, D/H)."""
        return self._split(F.linear(x, *self.query_weights()), 1)[0]

    def query_weights(self) -> tuple[Tensor, Tensor]:
        """The rows of the projection that make queries: weights (D, D) and biases (D,)."""
        width = self.output.in_features
        return self.project.weight[:width], self.project.bias[:width]

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Project an encoder's output (B, S, D) to keys and values, each (B, H, S, D/H)."""
        width = memory.shape[-1]
        keys, values = self._split(F.linear(memory, self.project.weight[width:], self.project.bias[width:]), 2)
        return keys, values

    def _split(self, x: Tensor, parts: int) -> list[Tensor]:
        # Parts first, heads after: so their gradients are put together once, not once more.
        found = x.view(*x.shape[:2], parts, self.heads, -1).unbind(2)  # each (B, T, H, D/H)
        return [part.transpose(1, 2) for part in found]

    def forward(self, queries: Tensor, keys_values: KeysValues, mask: Tensor) -> Tensor:
        """Attend from queries (B, H, T, D/H) over keys and values (B, H, S, D/H).

        Args:
            queries: (B, H, T, D/H).
            keys_values: keys and values.
            mask: additive, 0 or -inf, broadcast to (B, H, T, S).

        Returns:
            (B, T, D).
        """
        keys, values = keys_values
        if not self.training:
            mixed = attend(queries, keys, values, mask)
        elif queries.is_cuda:
            mixed = F.scaled_dot_product_attention(queries, keys, values, mask, self.dropout.p)
        else:  # whose gradients the fused kernel can be slow to find
            mixed = self.dropout(attention_weights(queries, keys, mask)) @ values
        return self.output(mixed.transpose(1, 2).flatten(2))


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Mix values (B, H, S, D/H) for queries (B, H, T, D/H), without dropout; gives (B, H, T, D/H).

    PyTorch's fused kernel for the CPU goes through sentences and heads one by one, which takes up to 2.6 times as long
    as products over all of them while these are many and short.
    """
    many = queries.shape[0] >= MANY and queries.shape[2] * keys.shape[2] <= SHORT
    with kernels_without_shapes():
        if many and not queries.is_cuda:
            return attention_weights(queries, keys, mask) @ values
        return F.scaled_dot_product_attention(queries, keys, values, mask)


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    """Attention weights (B, H, T, S), each row summing to 1."""
    scores = queries @ keys.transpose(-2, -1)
    return softmax(torch.add(mask, scores, alpha=1 / math.sqrt(queries.shape[-1])))


def softmax(scores: Tensor) -> Tensor:
    """Softmax of the last dimension; of short rows on the CPU several times as fast as PyTorch's.

    That takes rows of fewer numbers than one instruction does number by number. Here they are filled up.
    """
    missing = VECTOR - scores.shape[-1]
    if scores.is_cuda or missing <= 0:
        return torch.softmax(scores, -1)
    return torch.softmax(F.pad(scores, (0, missing), value=-torch.inf), -1)[..., :-missing]


@contextmanager
def watch(attention: Attention) -> Iterator[list[Tensor]]:
    """The weights (B, H, T, S) of each call of a layer while this lasts; the layer itself stays as it is."""
    seen: list[Tensor] = []

    def look(_: nn.Module, arguments: tuple[Tensor, KeysValues, Tensor], __: Tensor) -> None:
        queries, (keys, _values), mask = arguments
        seen.append(attention_weights(queries, keys, mask))

    handle = attention.register_forward_hook(look)
    try:
        yield seen
    finally:
        handle.remove()
