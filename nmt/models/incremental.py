"""A decoder layer of a Transformer for search: one more position of every hypothesis.

For few rows a step's arithmetic takes less time than calling modules and finding their weights. So here the weights are
gathered once a batch, and what `DecoderLayer` computes for all positions is written out for one.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.attention import KeysValues

if TYPE_CHECKING:
    from nmt.models.transformer import DecoderLayer

Weights = tuple[Tensor, Tensor]  # of a linear layer or a normalisation, and its bias


class IncrementalLayer:
    """A `DecoderLayer` without dropout; of R rows, B sentences times beam."""

    def __init__(self, layer: "DecoderLayer") -> None:
        attention, source, feed_forward = layer.attention, layer.source_attention, layer.feed_forward
        self.heads = attention.heads
        self.project, self.output = _weights(attention.project), _weights(attention.output)
        self.source_queries, self.source_output = source.query_weights(), _weights(source.output)
        self.inner, self.outer = _weights(feed_forward.inner), _weights(feed_forward.outer)
        self.activation = feed_forward.activation
        self.pre = layer.residuals[0].pre
        self.norms = [(*_weights(residual.norm), residual.norm.eps) for residual in layer.residuals]

    def __call__(self, x: Tensor, past: Tensor | None, source: KeysValues, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Run the layer.

        Args:
            x: the position (R, D).
            past: keys and values of the positions before, (R, 2, H, t, D/H), or None.
            source: keys and values of the source sentences, each (B, H, S, D/H).
            mask: additive, (B, 1, 1, S).

        Returns:
            (R, D), and the keys and values of all positions so far.
        """
        mixed, past = self._attend(self._enter(0, x), past)
        x = self._leave(0, x, mixed)
        x = self._leave(1, x, self._look_at_source(self._enter(1, x), source, mask))
        return self._leave(2, x, self._feed_forward(self._enter(2, x))), past

    def _enter(self, sublayer: int, x: Tensor) -> Tensor:
        return self._norm(sublayer, x) if self.pre else x

    def _leave(self, sublayer: int, x: Tensor, output: Tensor) -> Tensor:
        return x + output if self.pre else self._norm(sublayer, x + output)

    def _norm(self, sublayer: int, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], *self.norms[sublayer])

    def _attend(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        projected = F.linear(x, *self.project).view(len(x), 3, self.heads, 1, -1)
        queries, now = projected[:, 0], projected[:, 1:]
        past = now if past is None else torch.cat([past, now], 3)
        mixed = F.scaled_dot_product_attention(queries, past[:, 0], past[:, 1])  # (R, H, 1, D/H)
        return F.linear(mixed.flatten(1), *self.output), past

    def _look_at_source(self, x: Tensor, source: KeysValues, mask: Tensor) -> Tensor:
        """Hypotheses of one sentence ask as so many queries, so its keys and values are never copied."""
        keys, values = source
        queries = F.linear(x, *self.source_queries).view(len(keys), -1, self.heads, keys.shape[-1]).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(queries, keys, values, mask)  # (B, H, R/B, D/H)
        return F.linear(mixed.transpose(1, 2).reshape(x.shape), *self.source_output)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return F.linear(self.activation(F.linear(x, *self.inner)), *self.outer)


def _weights(layer: nn.Linear | nn.LayerNorm) -> Weights:
    return layer.weight, layer.bias
