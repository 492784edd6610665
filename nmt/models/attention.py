"""Multi-head scaled dot-product attention (Vaswani and others 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.fast_layers import Dropout, Linear, linear
from nmt.system.machine import pytorch_kernels

VECTOR = 16  # fp32 numbers per AVX-512 instruction
MANY = 4  # on the CPU, plain matrix products are faster for at least MANY sentences
SHORT = 1024  # of at most SHORT query-key pairs each
KeysValues = tuple[Tensor, Tensor]  # each (B, K, S, D/H)
Weights = tuple[Tensor, Tensor | None]  # weight and bias of a linear layer


class Rotary(nn.Module):
    """Rotary positions (Su and others 2021, section 3.2), for queries and keys of width W.

    Numbers i and i + W/2 of a vector at position t are a point of the plane, rotated by the angle t · 10000^(-2i/W). So
    the product of a query and a key depends on the distance of their positions. Both halves of a vector rotate as
    blocks, while the paper has neighbouring pairs: a permutation of the projections' rows makes both equal.
    """

    table: Tensor  # (2, longest, W) cosines and sines, float64

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.arange(longest, dtype=torch.float64)[:, None] * torch.cat([rates, rates])
        self.register_buffer("table", torch.stack([angles.cos(), angles.sin()]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate the vectors (…, T, W) of positions 0 to T - 1."""
        return self._rotate(x, self.table[:, : x.shape[-2]])

    def at(self, x: Tensor, position: int) -> Tensor:
        """Rotate vectors (…, W) of one position."""
        return self._rotate(x, self.table[:, position])

    @staticmethod
    def _rotate(x: Tensor, table: Tensor) -> Tensor:
        cosines, sines = table.to(torch.promote_types(x.dtype, torch.float32))
        first, second = x.chunk(2, -1)
        return (x * cosines + torch.cat([-second, first], -1) * sines).to(x.dtype)


class Attention(nn.Module):
    """Multi-head attention with H heads: projections of queries, keys and values, and of the output.

    Self-attention computes all three projections in one product. Attention over an encoder's output projects keys and
    values once per sentence (`keys_values`). Without ``attention_output``, the heads side by side are the output. With
    ``key_value_heads``, keys and values have K heads, and H/K heads of queries in a row share each (Ainslie and others
    2023); otherwise K is H.
    """

    def __init__(self, config: BaseTransformerConfig, rotary: Rotary | None = None) -> None:
        """Make the projections; ``rotary`` is for self-attention only."""
        super().__init__()
        width, biases = config.width, config.attention_bias
        self.heads, self.groups, self.rotary = config.heads, config.groups, rotary
        self.sizes = [width, *[width // config.heads * config.groups] * 2]  # rows: queries, keys, values
        self.project = Linear(width, sum(self.sizes), biases)
        self.output = Linear(width, width, biases) if config.attention_output else nn.Identity()
        self.dropout = Dropout(config.dropout.attention)
        for part in torch.split(self.project.weight, self.sizes):
            nn.init.xavier_uniform_(part, gain=2**-0.5)
        if isinstance(self.output, nn.Linear):
            nn.init.xavier_uniform_(self.output.weight)
        for name, bias in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, KeysValues]:
        """Project x (B, T, D) to queries (B, H, T, D/H), and keys and values (B, K, T, D/H) each, with positions."""
        queries, keys, values = self._split(self.project(x), self.heads, self.groups, self.groups)
        if self.rotary:
            queries, keys = self.rotary(queries), self.rotary(keys)
        return queries, (keys, values)

    def queries(self, x: Tensor) -> Tensor:
        """Project x (B, T, D) to queries (B, H, T, D/H)."""
        return self._split(linear(x, *self.query_weights()), self.heads)[0]

    def query_weights(self) -> Weights:
        """Return the part of the projection that computes queries: weights (D, D) and biases (D,), if any."""
        return self._rows(slice(self.project.in_features))

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Project an encoder's output (B, S, D) to keys and values, each (B, K, S, D/H)."""
        projected = linear(memory, *self._rows(slice(memory.shape[-1], None)))
        keys, values = self._split(projected, self.groups, self.groups)
        return keys, values

    def _rows(self, rows: slice) -> Weights:
        bias = self.project.bias
        return self.project.weight[rows], None if bias is None else bias[rows]

    def _split(self, x: Tensor, *heads: int) -> list[Tensor]:
        # Splitting off the parts before transposing the heads saves one copy of the gradients.
        split = torch.split(x.view(*x.shape[:2], sum(heads), -1), list(heads), 2)  # each (B, T, heads, D/H)
        return [part.transpose(1, 2) for part in split]

    def forward(self, queries: Tensor, keys_values: KeysValues, mask: Tensor) -> Tensor:
        """Attend from queries (B, H, T, D/H) over keys and values (B, K, S, D/H).

        Args:
            queries: projected queries (B, H, T, D/H).
            keys_values: projected keys and values, each (B, K, S, D/H).
            mask: additive mask, 0 or -inf, broadcast to (B, H, T, S).

        Returns:
            Output (B, T, D).
        """
        keys, values = keys_values
        if not self.training:
            mixed = attend(queries, keys, values, mask)
        else:
            stacked, masks = stack_groups(queries, keys, mask)
            if queries.is_cuda:
                mixed = F.scaled_dot_product_attention(stacked, keys, values, masks, self.dropout.p)
            else:  # on the CPU, the backward pass of the fused kernel can be slow
                mixed = self.dropout(attention_weights(stacked, keys, masks)) @ values
        output: Tensor = self.output(mixed.reshape(queries.shape).transpose(1, 2).flatten(2))
        return output


def stack_groups(queries: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Put the queries of all heads that share a head of keys one below the other, so that no keys are copied.

    Args:
        queries: (B, H, T, D/H).
        keys: (B, K, S, D/H).
        mask: additive mask, broadcast to (B, H, T, S), the same for all heads.

    Returns:
        Queries (B, K, T·H/K, D/H), and their mask.
    """
    groups = keys.shape[1]
    if groups == queries.shape[1]:
        return queries, mask
    if mask.shape[-2] > 1:
        mask = mask.repeat(*[1] * (mask.dim() - 2), queries.shape[1] // groups, 1)
    return queries.reshape(queries.shape[0], groups, -1, queries.shape[-1]), mask


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Compute attention without dropout.

    PyTorch's fused CPU kernel processes sentences and heads one by one. For many short sentences, one product over all
    of them is up to 2.6 times as fast.

    Args:
        queries: (B, H, T, D/H).
        keys: (B, K, S, D/H).
        values: (B, K, S, D/H).
        mask: additive mask, broadcast to (B, H, T, S).

    Returns:
        Weighted means of the values (B, H, T, D/H).
    """
    if queries.shape[1] != keys.shape[1]:
        stacked, mask = stack_groups(queries, keys, mask)
        return attend(stacked, keys, values, mask).reshape(queries.shape)
    many = queries.shape[0] >= MANY and queries.shape[2] * keys.shape[2] <= SHORT
    with pytorch_kernels():
        if many and not queries.is_cuda:
            return attention_weights(queries, keys, mask) @ values
        return F.scaled_dot_product_attention(queries, keys, values, mask)


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    """Compute attention weights (B, H, T, S); the last dimension sums to 1."""
    scores = queries @ keys.transpose(-2, -1)
    return softmax(torch.add(mask, scores, alpha=1 / math.sqrt(queries.shape[-1])))


def softmax(scores: Tensor) -> Tensor:
    """Compute the softmax over the last dimension.

    On the CPU, PyTorch processes rows shorter than one vector instruction number by number. Padding such rows to
    `VECTOR` numbers is several times as fast.
    """
    missing = VECTOR - scores.shape[-1]
    if scores.is_cuda or missing <= 0:
        return torch.softmax(scores, -1)
    return torch.softmax(F.pad(scores, (0, missing), value=-torch.inf), -1)[..., :-missing]


@contextmanager
def watch(attention: Attention) -> Iterator[list[Tensor]]:
    """Collect the weights (B, H, T, S) of each call of a layer inside the ``with`` block."""
    weights: list[Tensor] = []

    def hook(_: nn.Module, arguments: tuple[Tensor, KeysValues, Tensor], __: Tensor) -> None:
        queries, (keys, _values), mask = arguments
        stacked, mask = stack_groups(queries, keys, mask)
        weights.append(attention_weights(stacked, keys, mask).reshape(*queries.shape[:3], -1))

    handle = attention.register_forward_hook(hook)
    try:
        yield weights
    finally:
        handle.remove()
