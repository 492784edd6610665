"""Transformer layers for training: feed-forward, residual connection, encoder layer, decoder layer."""

from collections.abc import Callable, Sequence
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.attention import Attention
from nmt.models.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them (Vaswani and others 2017, section 3.3)."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.width, config.ffn)
        self.outer = nn.Linear(config.ffn, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = Dropout(config.dropout.activation)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, T, D) to (B, T, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """Residual connection of a sub-layer, with dropout and with normalisation before (pre) or after it (post)."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout.residual)

    def sublayer_input(self, x: Tensor) -> Tensor:
        """Return the input of the sub-layer for x; both (B, T, D)."""
        return self.norm(x) if self.pre else x

    def add_output(self, x: Tensor, output: Tensor) -> Tensor:
        """Add the output of the sub-layer to x; all (B, T, D)."""
        added = self.dropout.add(output, x)
        return added if self.pre else self.norm(added)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(config)
        self.residuals = cast("Sequence[Residual]", nn.ModuleList(Residual(config) for _ in range(2)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map x (B, S, D), with an additive mask (B, 1, 1, S), to (B, S, D)."""
        around_attention, around_feed_forward = self.residuals
        queries, keys, values = self.attention.queries_keys_values(around_attention.sublayer_input(x))
        x = around_attention.add_output(x, self.attention(queries, (keys, values), mask))
        return around_feed_forward.add_output(x, self.feed_forward(around_feed_forward.sublayer_input(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, then attention over the source, then feed-forward."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
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
        queries, keys, values = self.attention.queries_keys_values(around_attention.sublayer_input(x))
        x = around_attention.add_output(x, self.attention(queries, (keys, values), mask))
        queries = self.source_attention.queries(around_source.sublayer_input(x))
        keys_values = self.source_attention.keys_values(memory)
        x = around_source.add_output(x, self.source_attention(queries, keys_values, source_mask))
        return around_feed_forward.add_output(x, self.feed_forward(around_feed_forward.sublayer_input(x)))
