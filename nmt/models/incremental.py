"""Transformer decoder layer for search: it computes one step of every hypothesis.

For few rows, the arithmetic of a step takes less time than calling modules and looking up their weights. So this module
looks up the weights once per batch, and repeats the computation of `DecoderLayer` for a single position.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.attention import Attention, KeysValues, Weights, attend
from nmt.models.layers import DecoderLayer


class IncrementalLayer:
    """`DecoderLayer` without dropout, for R rows: B sentences times the beam size."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention, source, feed_forward = layer.attention, layer.source_attention, layer.feed_forward
        self.heads = attention.heads
        self.project, self.output = _weights(attention.project), _output(attention)
        self.source_queries, self.source_output = source.query_weights(), _output(source)
        self.inner, self.outer = _weights(feed_forward.inner), _weights(feed_forward.outer)
        self.activation = feed_forward.activation
        self.pre = layer.residuals[0].pre
        self.groups, self.rotary = attention.groups, attention.rotary
        norms = [residual.norm for residual in layer.residuals]
        self.normalise: Any = torch.layer_norm if isinstance(norms[0], nn.LayerNorm) else torch.rms_norm
        self.norms = [_norm_arguments(norm) for norm in norms]

    def __call__(
        self, x: Tensor, past: Tensor, position: int, written: Tensor, source: KeysValues, mask: Tensor
    ) -> Tensor:
        """Run the layer on one position.

        Args:
            x: input (R, D).
            past: buffer for keys and values (2, R, K, t, D/H), filled before this position; this call adds its own.
            position: number of this position, from 0.
            written: additive mask (1, 1, 1, t) that hides the positions after this one.
            source: keys and values of the source sentences, each (B, K, S, D/H).
            mask: additive mask of the source (B, 1, 1, S).

        Returns:
            Output (R, D).
        """
        x = self._add_output(0, x, self._attend(self._sublayer_input(0, x), past, position, written))
        x = self._add_output(1, x, self._attend_to_source(self._sublayer_input(1, x), source, mask))
        return self._add_output(2, x, self._feed_forward(self._sublayer_input(2, x)))

    def _sublayer_input(self, sublayer: int, x: Tensor) -> Tensor:
        return self._norm(sublayer, x) if self.pre else x

    def _add_output(self, sublayer: int, x: Tensor, output: Tensor) -> Tensor:
        return x + output if self.pre else self._norm(sublayer, x + output)

    def _norm(self, sublayer: int, x: Tensor) -> Tensor:
        normalised: Tensor = self.normalise(x, *self.norms[sublayer])
        return normalised

    def _attend(self, x: Tensor, past: Tensor, position: int, written: Tensor) -> Tensor:
        heads, groups = self.heads, self.groups
        projected = F.linear(x, *self.project).view(x.shape[0], heads + 2 * groups, -1)
        if self.rotary:
            rotated = self.rotary.at(projected[:, : heads + groups], position)
            projected = torch.cat([rotated, projected[:, heads + groups :]], 1)
        keys_values = projected.narrow(1, heads, 2 * groups).view(x.shape[0], 2, groups, -1)
        past.select(3, position).copy_(keys_values.transpose(0, 1))
        keys, values = past.unbind(0)
        mixed = attend(projected.narrow(1, 0, heads).unsqueeze(2), keys, values, written)  # (R, H, 1, D/H)
        return _linear(mixed.flatten(1), self.output)

    def _attend_to_source(self, x: Tensor, source: KeysValues, mask: Tensor) -> Tensor:
        """Treat the hypotheses of a sentence as queries of one attention, so its keys and values are not copied."""
        keys, values = source
        queries = F.linear(x, *self.source_queries).view(keys.shape[0], -1, self.heads, keys.shape[-1]).transpose(1, 2)
        mixed = attend(queries, keys, values, mask)  # (B, H, R/B, D/H)
        return _linear(mixed.transpose(1, 2).reshape(x.shape), self.source_output)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return F.linear(self.activation(F.linear(x, *self.inner)), *self.outer)


def _weights(layer: nn.Linear) -> Weights:
    return layer.weight, layer.bias


def _norm_arguments(norm: nn.LayerNorm | nn.RMSNorm) -> tuple[Any, ...]:
    weights = (norm.weight, norm.bias) if isinstance(norm, nn.LayerNorm) else (norm.weight,)
    return norm.normalized_shape, *weights, norm.eps


def _output(attention: Attention) -> Weights | None:
    return _weights(attention.output) if isinstance(attention.output, nn.Linear) else None


def _linear(x: Tensor, weights: Weights | None) -> Tensor:
    return F.linear(x, *weights) if weights else x
