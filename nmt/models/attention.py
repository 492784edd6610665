"""Multi-head scaled dot-product attention (Vaswani and others 2017, section 3.2)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.dropout import Dropout
from nmt.system.machine import pytorch_kernels

VECTOR = 16  # fp32 numbers per AVX-512 instruction
MANY = 4  # on the CPU, plain matrix products are faster for at least MANY sentences
SHORT = 1024  # of at most SHORT query-key pairs each
KeysValues = tuple[Tensor, Tensor]  # each (B, H, S, D/H)
Weights = tuple[Tensor, Tensor | None]  # weight and bias of a linear layer


class Attention(nn.Module):
    """Multi-head attention with H heads: projections of queries, keys and values, and of the output.

    Self-attention computes all three projections in one product. Attention over an encoder's output projects keys and
    values once per sentence (`keys_values`). Without ``attention_output``, the heads side by side are the output.
    """

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        width, biases = config.width, config.attention_bias
        self.heads = config.heads
        self.project = nn.Linear(width, 3 * width, biases)  # rows: queries, keys, values
        self.output = nn.Linear(width, width, biases) if config.attention_output else nn.Identity()
        self.dropout = Dropout(config.dropout.attention)
        for part in self.project.weight.chunk(3):
            nn.init.xavier_uniform_(part, gain=2**-0.5)
        if isinstance(self.output, nn.Linear):
            nn.init.xavier_uniform_(self.output.weight)
        for name, bias in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(bias)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x (B, T, D) to queries, keys and values, each (B, H, T, D/H)."""
        queries, keys, values = self._split(self.project(x), 3)
        return queries, keys, values

    def queries(self, x: Tensor) -> Tensor:
        """Project x (B, T, D) to queries (B, H, T, D/H)."""
        return self._split(F.linear(x, *self.query_weights()), 1)[0]

    def query_weights(self) -> Weights:
        """Return the part of the projection that computes queries: weights (D, D) and biases (D,), if any."""
        return self._rows(slice(self.project.in_features))

    def keys_values(self, memory: Tensor) -> KeysValues:
        """Project an encoder's output (B, S, D) to keys and values, each (B, H, S, D/H)."""
        keys, values = self._split(F.linear(memory, *self._rows(slice(memory.shape[-1], None))), 2)
        return keys, values

    def _rows(self, rows: slice) -> Weights:
        bias = self.project.bias
        return self.project.weight[rows], None if bias is None else bias[rows]

    def _split(self, x: Tensor, parts: int) -> list[Tensor]:
        # Splitting off the parts before transposing the heads saves one copy of the gradients.
        split = x.view(*x.shape[:2], parts, self.heads, -1).unbind(2)  # each (B, T, H, D/H)
        return [part.transpose(1, 2) for part in split]

    def forward(self, queries: Tensor, keys_values: KeysValues, mask: Tensor) -> Tensor:
        """Attend from queries (B, H, T, D/H) over keys and values (B, H, S, D/H).

        Args:
            queries: projected queries (B, H, T, D/H).
            keys_values: projected keys and values, each (B, H, S, D/H).
            mask: additive mask, 0 or -inf, broadcast to (B, H, T, S).

        Returns:
            Output (B, T, D).
        """
        keys, values = keys_values
        if not self.training:
            mixed = attend(queries, keys, values, mask)
        elif queries.is_cuda:
            mixed = F.scaled_dot_product_attention(queries, keys, values, mask, self.dropout.p)
        else:  # on the CPU, the backward pass of the fused kernel can be slow
            mixed = self.dropout(attention_weights(queries, keys, mask)) @ values
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Compute attention without dropout.

    PyTorch's fused CPU kernel processes sentences and heads one by one. For many short sentences, one product over all
    of them is up to 2.6 times as fast.

    Args:
        queries: (B, H, T, D/H).
        keys: (B, H, S, D/H).
        values: (B, H, S, D/H).
        mask: additive mask, broadcast to (B, H, T, S).

    Returns:
        Weighted means of the values (B, H, T, D/H).
    """
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
        weights.append(attention_weights(queries, keys, mask))

    handle = attention.register_forward_hook(hook)
    try:
        yield weights
    finally:
        handle.remove()
