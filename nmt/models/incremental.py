"""A decoder layer of a Transformer for search: one more position of every hypothesis.

For few rows a step's arithmetic takes less time than calling modules and finding their weights. So here the weights are
gathered once a batch, and what `DecoderLayer` computes for all positions is written out for one.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.attention import KeysValues, attend
from nmt.models.layers import DecoderLayer

Weights = tuple[Tensor, Tensor]  # of a linear layer or a normalisation, and its bias


class IncrementalLayer:
    """A `DecoderLayer` without dropout; of R rows, B sentences times beam."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention, source, feed_forward = layer.attention, layer.source_attention, layer.feed_forward
        self.heads = attention.heads
        self.project, self.output = _weights(attention.project), _weights(attention.output)
        self.source_queries, self.source_output = source.query_weights(), _weights(source.output)
        self.inner, self.outer = _weights(feed_forward.inner), _weights(feed_forward.outer)
        self.activation = feed_forward.activation
        self.pre = layer.residuals[0].pre
        norms = [residual.norm for residual in layer.residuals]
        self.norms = [(norm.normalized_shape, *_weights(norm), norm.eps) for norm in norms]

    def __call__(
        self, x: Tensor, past: Tensor, position: int, written: Tensor, source: KeysValues, mask: Tensor
    ) -> Tensor:
        """Run the layer.

        Args:
            x: the position (R, D).
            past: keys and values of the positions before, and room for more, (2, R, H, t, D/H); gets this one's.
            position: which it is, from 0.
            written: additive mask (1, 1, 1, t) that lets the positions up to this one through.
            source: keys and values of the source sentences, each (B, H, S, D/H).
            mask: additive, (B, 1, 1, S).

        Returns:
            (R, D).
        """
        x = self._leave(0, x, self._attend(self._enter(0, x), past, position, written))
        x = self._leave(1, x, self._look_at_source(self._enter(1, x), source, mask))
        return self._leave(2, x, self._feed_forward(self._enter(2, x)))

    def _enter(self, sublayer: int, x: Tensor) -> Tensor:
        return self._norm(sublayer, x) if self.pre else x

    def _leave(self, sublayer: int, x: Tensor, output: Tensor) -> Tensor:
        return x + output if self.pre else self._norm(sublayer, x + output)

    def _norm(self, sublayer: int, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.norms[sublayer])

    def _attend(self, x: Tensor, past: Tensor, position: int, written: Tensor) -> Tensor:
        projected = F.linear(x, *self.project).view(x.shape[0], 3, self.heads, -1).transpose(0, 1)
        past.select(3, position).copy_(projected[1:])
        keys, values = past.unbind(0)
        mixed = attend(projected[0].unsqueeze(2), keys, values, written)  # (R, H, 1, D/H)
        return F.linear(mixed.flatten(1), *self.output)

    def _look_at_source(self, x: Tensor, source: KeysValues, mask: Tensor) -> Tensor:
        """Hypotheses of one sentence ask as so many queries, so its keys and values are never copied."""
        keys, values = source
        queries = F.linear(x, *self.source_queries).view(keys.shape[0], -1, self.heads, keys.shape[-1]).transpose(1, 2)
        mixed = attend(queries, keys, values, mask)  # (B, H, R/B, D/H)
        return F.linear(mixed.transpose(1, 2).reshape(x.shape), *self.source_output)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return F.linear(self.activation(F.linear(x, *self.inner)), *self.outer)


def _weights(layer: nn.Linear | nn.LayerNorm) -> Weights:
    return layer.weight, layer.bias
