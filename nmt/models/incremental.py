"""Transformer decoder for search: it computes one step of every hypothesis.

For few rows, calling modules and operators takes longer than the arithmetic. So this module looks up the weights once,
repeats the computation of `DecoderLayer` for a single position, and multiplies matrices in advance where that leaves
fewer operators to each step.

In shapes, B is the number of sentences, R that of hypotheses or rows (B times the beam size), S that of source
positions, D the width, H the number of heads, and K that of heads of keys and values. t is the number of positions for
which there is memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.attention import VECTOR, Attention, Weights, attend
from nmt.models.base import log_probabilities
from nmt.models.embedding import PositionalEmbedding
from nmt.models.layers import DecoderLayer
from nmt.system.machine import pytorch_kernels

MANY = 256  # from this number of encoder positions, or rows of a step, shape-specific matrix kernels pay off


class Source(NamedTuple):
    """What attention over the source sentences needs of them."""

    keys: Tensor  # (B, K, S, D/H)
    values: Tensor  # (B, K, S, D/H)
    mask: Tensor  # (B, 1, 1, S) additive

    def keep(self, sentences: Tensor) -> "Source":
        """Return only the sentences of these indices."""
        return Source(*(part.index_select(0, sentences) for part in self))


class FoldedSource(NamedTuple):
    """One sentence whose keys and values are already multiplied by the projections of queries and output.

    Attention from x (R, D) is then ``softmax(x @ scores + offsets) @ outputs``, with the softmax over each head.
    """

    offsets: Tensor  # (H * S,) -inf at padding, else the part of the scores from the queries' bias
    scores: Tensor  # (D, H * S)
    outputs: Tensor  # (H * S, D) with the output's bias

    def keep(self, _: Tensor) -> "FoldedSource":
        """Return the sentence, which all rows share even if it is repeated."""
        return self


class Past(NamedTuple):
    """Keys and values of the pieces written so far, for self-attention: a buffer, and views of it for fast access."""

    buffer: Tensor  # (2, R, K, t, D/H) keys, then values
    slots: Tensor  # (R, 2, K, t, D/H) to write a position
    keys: Tensor  # (R * K, D/H, t) to read all
    values: Tensor  # (R * K, t, D/H) to read all

    @classmethod
    def of(cls, buffer: Tensor) -> "Past":
        """Return the views of a buffer."""
        joined = buffer.flatten(1, 2)  # (2, R * K, t, D/H)
        return cls(buffer, buffer.transpose(0, 1), joined[0].transpose(1, 2), joined[1])


class State(NamedTuple):
    """State of the decoder between steps; `IncrementalDecoder.step` changes it in place, so use each only once."""

    decoder: "IncrementalDecoder"  # that makes the steps
    position: int  # number of the next step, from 0
    past: Sequence[Past]  # of each layer; unused from ``position`` on
    mask: Tensor  # (1, 1, t) additive: 0 before ``position``, -inf from there on
    sources: Sequence[Source | FoldedSource]  # of each layer


class IncrementalDecoder:
    """The decoder of a Transformer without dropout."""

    def __init__(
        self, embedding: PositionalEmbedding, layers: Sequence[DecoderLayer], norm: Any, projection: nn.Linear
    ) -> None:
        self.layers = [IncrementalLayer(layer) for layer in layers]
        self.pieces, self.positions, self.scale = embedding.pieces.weight, embedding.positions, embedding.scale
        self.norm = None if isinstance(norm, nn.Identity) else _norm_arguments(norm)
        self.projection = *_weights(projection), projection.out_features

    def start(self, memory: Tensor, mask: Tensor) -> State:
        """Start a search from encodings (B, S, D) and the additive mask of their padding (B, 1, 1, S)."""
        groups, size = self.layers[0].groups, self.layers[0].size
        empty = Past.of(memory.new_empty(2, len(memory), groups, 0, size))
        sources = [layer.start(memory, mask) for layer in self.layers]
        return State(self, 0, [empty] * len(self.layers), memory.new_empty(1, 1, 0), sources)

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """See `nmt.models.base.TranslationModel.step`."""
        position, past, mask = state.position, state.past, state.mask
        if position == mask.shape[2]:  # the memory is full: grow it
            past = [Past.of(F.pad(layer.buffer, (0, 0, 0, VECTOR))) for layer in past]
            mask = F.pad(mask, (0, VECTOR), value=-torch.inf)
        mask.select(2, position).zero_()
        x = self._embed(last, position)  # (R, D)
        with pytorch_kernels(last.shape[0] < MANY):
            for layer, layer_past, source in zip(self.layers, past, state.sources, strict=True):
                x = layer(x, layer_past, position, mask, source)
        if self.norm:
            x = self.layers[0].normalise(x, *self.norm)
        return log_probabilities(x, *self.projection), State(self, position + 1, past, mask, state.sources)

    def _embed(self, ids: Tensor, position: int) -> Tensor:
        """Embed ids (R,) at one position as (R, D)."""
        x = self.pieces.index_select(0, ids)
        if self.positions is None:
            return x * self.scale
        return torch.add(self.positions[position], x, alpha=self.scale)


class IncrementalLayer:
    """`DecoderLayer` without dropout."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention, source, feed_forward = layer.attention, layer.source_attention, layer.feed_forward
        self.heads, self.groups, self.rotary = attention.heads, attention.groups, attention.rotary
        self.size = attention.project.in_features // attention.heads  # D/H
        self.scale = self.size**-0.5  # of the scores
        self.project, self.output = _weights(attention.project), _output(attention)
        self.source_attention, self.source_queries, self.source_output = source, source.query_weights(), _output(source)
        self.inner, self.outer = _weights(feed_forward.inner), _weights(feed_forward.outer)
        self.activation = torch.relu_ if feed_forward.activation is F.relu else feed_forward.activation
        norms = [residual.norm for residual in layer.residuals]
        self.pre, self.norms = layer.residuals[0].pre, [_norm_arguments(norm) for norm in norms]
        self.normalise: Any = torch.layer_norm if isinstance(norms[0], nn.LayerNorm) else torch.rms_norm

    def start(self, memory: Tensor, mask: Tensor) -> Source | FoldedSource:
        """Prepare the attention over encoded sentences (B, S, D), with their additive mask (B, 1, 1, S).

        Folding pays for one sentence on the CPU, as long as it makes no matrix larger than the projections.
        """
        if len(memory) == 1 and memory.shape[1] <= self.size and not memory.is_cuda:
            return self._fold(memory, mask)
        missing = max(0, VECTOR - memory.shape[1])  # pad once, because the softmax of short rows is slow
        memory, mask = F.pad(memory, (0, 0, 0, missing)), F.pad(mask, (0, missing), value=-torch.inf)
        keys, values = self.source_attention.keys_values(memory)
        return Source(keys.contiguous(), values.contiguous(), mask)

    def _fold(self, memory: Tensor, mask: Tensor) -> FoldedSource:
        """Fold one sentence (1, S, D), with its mask (1, 1, 1, S), into the projections."""
        keys, values = (part[0] for part in self.source_attention.keys_values(memory))  # each (K, S, D/H)
        if self.groups < self.heads:
            keys, values = (part.repeat_interleave(self.heads // self.groups, 0) for part in (keys, values))
        keys = keys * self.scale  # (H, S, D/H)
        weight, bias = self.source_queries
        scores = (keys @ weight.view(self.heads, self.size, -1)).flatten(0, 1).t()  # (D, H * S)
        offsets = mask[0, 0].expand(self.heads, -1)  # (H, S)
        if bias is not None:
            offsets = offsets + (keys @ bias.view(self.heads, -1, 1))[..., 0]
        if not self.source_output:
            outputs = torch.block_diag(*values)  # type: ignore[no-untyped-call]  # (H * S, D)
            return FoldedSource(offsets.flatten(), scores, outputs)
        weight, bias = self.source_output
        outputs = (values @ weight.t().view(self.heads, self.size, -1)).flatten(0, 1)  # (H * S, D)
        if bias is not None:
            outputs += bias / self.heads  # the weights of each head sum to 1
        return FoldedSource(offsets.flatten(), scores, outputs)

    def __call__(self, x: Tensor, past: Past, position: int, mask: Tensor, source: Source | FoldedSource) -> Tensor:
        """Run the layer on one position.

        Args:
            x: input (R, D).
            past: keys and values, filled before this position; this call adds its own.
            position: number of this position, from 0.
            mask: additive mask (1, 1, t) that hides the positions after this one.
            source: the source sentences, from `start`.

        Returns:
            Output (R, D).
        """
        normalise, (first, second, third) = self.normalise, self.norms
        if self.pre:
            x = x + self._attend(normalise(x, *first), past, position, mask)
            x = self._add_source(x, normalise(x, *second), source)
            return x + self._feed_forward(normalise(x, *third))
        x = normalise(x + self._attend(x, past, position, mask), *first)
        x = normalise(self._add_source(x, x, source), *second)
        return normalise(x + self._feed_forward(x), *third)

    def _attend(self, x: Tensor, past: Past, position: int, mask: Tensor) -> Tensor:
        """Write the keys and values of x (R, D) to the past, and attend over it; return (R, D)."""
        heads, groups, size = self.heads, self.groups, self.size
        projected = F.linear(x, *self.project).view(-1, heads + 2 * groups, size)  # (R, H + 2K, D/H)
        if self.rotary:
            rotated = self.rotary.at(projected[:, : heads + groups], position)
            projected = torch.cat([rotated, projected[:, heads + groups :]], 1)
        past.slots.select(3, position).copy_(projected.narrow(1, heads, 2 * groups).view(-1, 2, groups, size))
        queries = projected.narrow(1, 0, heads)  # (R, H, D/H)
        if x.is_cuda:
            mixed = attend(queries.unsqueeze(2), past.buffer[0], past.buffer[1], mask[None])
        else:
            with pytorch_kernels(len(x) >= MANY):  # with fewer rows, `IncrementalDecoder.step` has chosen them
                grouped = queries.reshape(past.keys.shape[0], -1, size)  # (R * K, H/K, D/H)
                scores = torch.baddbmm(mask, grouped, past.keys, alpha=self.scale)  # (R * K, H/K, t)
                mixed = torch.bmm(torch.softmax(scores, -1), past.values)  # (R * K, H/K, D/H)
        return _linear(mixed.view(x.shape), self.output)

    def _add_source(self, residual: Tensor, x: Tensor, source: Source | FoldedSource) -> Tensor:
        """Add the attention over the source to the residual; both and x (R, D).

        The hypotheses of a sentence are queries of one attention, so its keys and values are not copied.
        """
        if isinstance(source, FoldedSource):
            products = torch.addmm(source.offsets, x, source.scores)  # (R, H * S)
            weights = torch.softmax(products.view(x.shape[0], self.heads, -1), -1)
            return torch.addmm(residual, weights.view_as(products), source.outputs)
        keys, values, mask = source
        queries = F.linear(x, *self.source_queries).view(keys.shape[0], -1, self.heads, self.size).transpose(1, 2)
        mixed = attend(queries, keys, values, mask)  # (B, H, R/B, D/H)
        return residual + _linear(mixed.transpose(1, 2).reshape(x.shape), self.source_output)

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
