"""Transformer layers for training: feed-forward, residual connection, encoder layer, decoder layer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.attention import Attention, Rotary
from nmt.models.fast_layers import Dropout, Linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
GATES: dict[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "swiglu": F.silu}


def gated(gate: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Multiply one half of x (…, 2F) by the activation of the other: (…, F) (Shazeer 2020, equation 6)."""
    gates, values = x.chunk(2, -1)
    return gate(gates) * values


def make_norm(config: BaseTransformerConfig) -> nn.LayerNorm | nn.RMSNorm:
    """Make a normalisation of rows of the model's width; both kinds have the same epsilon."""
    if config.normalisation == "rms":
        return nn.RMSNorm(config.width, eps=1e-5)
    return nn.LayerNorm(config.width)


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them (Vaswani and others 2017, section 3.3).

    With a gated activation, the first one computes gates and values, twice the inner width, in one product.
    """

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        gate = GATES.get(config.activation)
        self.inner = Linear(config.width, 2 * config.ffn if gate else config.ffn)
        self.outer = Linear(config.ffn, config.width)
        self.activation = partial(gated, gate) if gate else ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout.activation)
        for weight in (*torch.split(self.inner.weight, config.ffn), self.outer.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.inner, self.outer):
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """Residual connection of a sub-layer, with dropout and with normalisation before (pre) or after it (post)."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = make_norm(config)
        self.dropout = Dropout(config.dropout.residual)

    def sublayer_input(self, x: Tensor) -> Tensor:
        """Return the input of the sub-layer for x; both (B, T, D)."""
        return self.norm(x) if self.pre else x

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the output of a sub-layer to its input x; all (B, T, D)."""
        added = self.dropout.add(sublayer(self.sublayer_input(x)), x)
        return added if self.pre else self.norm(added)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: BaseTransformerConfig, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.attention = Attention(config, rotary)
        self.feed_forward = FeedForward(config)
        self.residuals = cast("Sequence[Residual]", nn.ModuleList(Residual(config) for _ in range(2)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map x (B, S, D), with an additive mask (B, 1, 1, S), to (B, S, D)."""
        around_attention, around_feed_forward = self.residuals
        x = around_attention(x, lambda x: self.attention(*self.attention.queries_keys_values(x), mask))
        return around_feed_forward(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, then attention over the source, then feed-forward."""

    def __init__(self, config: BaseTransformerConfig, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.attention = Attention(config, rotary)
        self.source_attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = cast("Sequence[Residual]", nn.ModuleList(Residual(config) for _ in range(3)))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Run the layer on all target positions; `IncrementalLayer` runs it on one.

        Args:
            x: input (B, T, D).
            mask: additive causal mask (T, T).
            memory: encodings of the source (B, S, D).
            source_mask: additive mask of the source (B, 1, 1, S).

        Returns:
            Output (B, T, D).
        """
        around_attention, around_source, around_feed_forward = self.residuals
        source = self.source_attention
        x = around_attention(x, lambda x: self.attention(*self.attention.queries_keys_values(x), mask))
        x = around_source(x, lambda x: source(source.queries(x), source.keys_values(memory), source_mask))
        return around_feed_forward(x, self.feed_forward)
