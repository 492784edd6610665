"""Layers of a Transformer for training: feed-forward, residual connection, encoder layer, decoder layer."""

from collections.abc import Sequence
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.attention import Attention
from nmt.models.dropout import Dropout


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between (section 3.3)."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.width, config.ffn)
        self.outer = nn.Linear(config.ffn, config.width)
        self.activation = F.relu if config.activation == "relu" else F.gelu
        self.dropout = Dropout(config.dropout.activation)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """What surrounds a sub-layer: dropout, residual and normalisation, after it (post) or before it (pre)."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout.residual)

    def enter(self, x: Tensor) -> Tensor:
        """The sub-layer's input; (B, T, D)."""
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, output: Tensor) -> Tensor:
        """The layer's stream after the sub-layer; (B, T, D)."""
        added = self.dropout.add(output, x)
        return added if self.pre else self.norm(added)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout.attention)
        self.feed_forward = FeedForward(config)
        self.residuals = cast("Sequence[Residual]", nn.ModuleList(Residual(config) for _ in range(2)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D), additive mask (B, 1, 1, S); gives (B, S, D)."""
        around_attention, around_feed_forward = self.residuals
        queries, keys, values = self.attention.queries_keys_values(around_attention.enter(x))
        x = around_attention.leave(x, self.attention(queries, (keys, values), mask))
        return around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the source, feed-forward."""

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout.attention)
        self.source_attention = Attention(config.width, config.heads, config.dropout.attention)
        self.feed_forward = FeedForward(config)
        self.residuals = cast("Sequence[Residual]", nn.ModuleList(Residual(config) for _ in range(3)))

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Run the layer on all target positions; for one more of them there is `IncrementalLayer`.

        Args:
            x: (B, T, D).
            mask: additive causal mask (T, T).
            memory: the source's encodings (B, S, D).
            source_mask: additive, (B, 1, 1, S).

        Returns:
            (B, T, D).
        """
        around_attention, around_source, around_feed_forward = self.residuals
        queries, keys, values = self.attention.queries_keys_values(around_attention.enter(x))
        x = around_attention.leave(x, self.attention(queries, (keys, values), mask))
        queries = self.source_attention.queries(around_source.enter(x))
        x = around_source.leave(
            x, self.source_attention(queries, self.source_attention.keys_values(memory), source_mask)
        )
        return around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))
