"""Encoder-decoder Transformer (Vaswani and others 2017), post-norm or pre-norm (Xiong and others 2020)."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.config.models import MultimodalConfig, TransformerConfig
from nmt.models.attention import VECTOR, KeysValues, Rotary, watch
from nmt.models.base import TranslationModel
from nmt.models.embedding import Context, PositionalEmbedding, causal_mask
from nmt.models.incremental import IncrementalLayer
from nmt.models.layers import DecoderLayer, EncoderLayer, make_norm
from nmt.system.machine import pytorch_kernels

MANY = 256  # from this number of encoder positions, or rows of a step, shape-specific matrix kernels pay off


@dataclass(frozen=True)
class State:
    """State of the decoder between steps; `Transformer.step` changes it in place, so use each state only once."""

    position: int  # number of the next step, from 0
    layers: Sequence[IncrementalLayer]
    past: Sequence[Tensor]  # per layer, keys and values (2, R, K, t, D/H); unused from ``position`` on
    source: Sequence[KeysValues]  # per layer, keys and values, each (B, K, S, D/H)
    source_mask: Tensor  # (B, 1, 1, S) additive


class Transformer(TranslationModel):
    """Transformer encoder and decoder, and output projection."""

    config: TransformerConfig | MultimodalConfig

    def __init__(
        self, config: TransformerConfig | MultimodalConfig, source_vocabulary: int, target_vocabulary: int, pad: int
    ) -> None:
        super().__init__()
        self.config, self.pad = config, pad
        self.source_embedding = PositionalEmbedding(source_vocabulary, config, pad)
        self.target_embedding = PositionalEmbedding(target_vocabulary, config, pad)
        if config.tied == "all":
            self.target_embedding.pieces = self.source_embedding.pieces
        self.context = Context(config) if config.context == "gru" else None
        self.waits_for_gpu = self.context is not None
        size = config.width // config.heads
        rotary = Rotary(config.max_positions, size) if config.positions == "rotary" else None
        encoder = (EncoderLayer(config, rotary) for _ in range(config.layers))
        decoder = (DecoderLayer(config, rotary) for _ in range(config.decoder_layers or config.layers))
        self.encoder = cast("Sequence[EncoderLayer]", nn.ModuleList(encoder))
        self.decoder = cast("Sequence[DecoderLayer]", nn.ModuleList(decoder))
        last = [make_norm(config) if config.norm == "pre" else nn.Identity() for _ in range(2)]
        self.encoder_norm, self.decoder_norm = last
        self.unseen = int(isinstance(config, TransformerConfig) and not config.source_bos)
        self.projection = nn.Linear(config.width, target_vocabulary, bias=config.output_bias)
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)
        if config.tied == "none":
            nn.init.normal_(self.projection.weight, std=config.width**-0.5)
        else:
            self.projection.weight = self.target_embedding.pieces.weight

    def embed(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Embed padded ids (B, S); return embeddings (B, S, D) and the additive mask of the padding (B, 1, 1, S).

        Without source_bos, the encoder sees S - 1 ids, here and below.
        """
        source = source[:, self.unseen :]
        x = self.source_embedding(source)
        if self.context:
            x = self.context(x, source != self.pad)
        mask = torch.zeros_like(source, dtype=x.dtype).masked_fill_(source == self.pad, -torch.inf)[:, None, None]
        return x, mask

    def encode_rows(self, x: Tensor, mask: Tensor, *more: Tensor) -> Tensor:
        """Run the encoder's layers on x (B, S, D), with an additive mask (B, 1, 1, S) and what else layers take.

        Returns:
            Encodings (B, S, D).
        """
        for layer in self.encoder:
            x = self._through(layer, x, mask, *more)
        return self.encoder_norm(x)

    def _through(self, layer: nn.Module, *inputs: Tensor) -> Tensor:
        """Run a layer; with activation checkpointing keep only its inputs (Chen and others 2016, section 4).

        A layer whose attention is watched keeps all, because nothing watches it in the backward pass.
        """
        watched = any(module._forward_hooks for module in layer.modules())
        if self.activation_checkpointing and torch.is_grad_enabled() and not watched:
            return cast("Tensor", checkpoint(layer, *inputs, use_reentrant=False))
        return cast("Tensor", layer(*inputs))

    def encode(self, source: Tensor, images: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode padded ids (B, S); return encodings (B, S, D) and the additive mask of the padding (B, 1, 1, S)."""
        x, mask = self.embed(source)
        return self.encode_rows(x, mask), mask

    def forward(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> Tensor:
        """See `TranslationModel.forward`."""
        memory, source_mask = self.encode(source, images)
        x = self.target_embedding(target)
        length = target.shape[1]
        causal = x.new_zeros(length, length).masked_fill_(~causal_mask(length, x.device), -torch.inf)
        for layer in self.decoder:
            x = self._through(layer, x, causal, memory, source_mask)
        return self.decoder_norm(x)

    def forward_watched(
        self, source: Tensor, target: Tensor, images: Tensor | None, layer: int
    ) -> tuple[Tensor, Tensor]:
        """See `TranslationModel.forward_watched`."""
        with watch(self.decoder[layer].source_attention) as weights:
            outputs = self(source, target, images)
        return outputs, F.pad(weights[0], (self.unseen, 0))[..., : source.shape[1]]  # words before regions

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """See `TranslationModel.attentions`."""
        parts = {
            "encoder": [layer.attention for layer in self.encoder],
            "decoder": [layer.attention for layer in self.decoder],
            "source": [layer.source_attention for layer in self.decoder],
        }
        with ExitStack() as stack:
            watched = {part: [stack.enter_context(watch(layer)) for layer in layers] for part, layers in parts.items()}
            self(source, target, images)
        found = {part: torch.stack([weights for (weights,) in layers], 1) for part, layers in watched.items()}
        if self.unseen:  # nothing looks at BOS, and it looks at nothing
            found |= {"source": F.pad(found["source"], (1, 0)), "encoder": F.pad(found["encoder"], (1, 0, 1, 0))}
        return found

    def start(self, source: Tensor, images: Tensor | None = None) -> State:
        """See `TranslationModel.start`."""
        with pytorch_kernels(source.numel() < MANY):
            memory, mask = self.encode(source, images)
            missing = max(0, VECTOR - memory.shape[1])  # pad once, because the softmax of short rows is slow
            memory, mask = F.pad(memory, (0, 0, 0, missing)), F.pad(mask, (0, missing), value=-torch.inf)
            projected = [layer.source_attention.keys_values(memory) for layer in self.decoder]
        source_keys_values = [(keys.contiguous(), values.contiguous()) for keys, values in projected]
        layers = [IncrementalLayer(layer) for layer in self.decoder]
        empty = memory.new_empty(2, len(source), self.config.groups, 0, self.config.width // self.config.heads)
        return State(0, layers, [empty] * len(layers), source_keys_values, mask)

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """See `TranslationModel.step`."""
        position, past = state.position, state.past
        x = self.target_embedding.at(last, position)  # (R, D)
        if position == past[0].shape[3]:
            past = [F.pad(layer, (0, 0, 0, VECTOR)) for layer in past]
        written = x.new_zeros(1, 1, 1, past[0].shape[3])
        written[..., position + 1 :] = -torch.inf
        with pytorch_kernels(last.shape[0] < MANY):
            for layer, layer_past, source in zip(state.layers, past, state.source, strict=True):
                x = layer(x, layer_past, position, written, source, state.source_mask)
        log_probs = self.log_probabilities(self.decoder_norm(x))
        return log_probs, replace(state, position=position + 1, past=past)

    def reorder(self, state: State, rows: Tensor) -> State:
        """See `TranslationModel.reorder`."""
        # On the CPU, `index_select` copies whole rows, while indexing copies number by number.
        return replace(state, past=[layer.index_select(1, rows) for layer in state.past])

    def keep(self, state: State, sentences: Tensor) -> State:
        """See `TranslationModel.keep`."""
        source = [(keys.index_select(0, sentences), values.index_select(0, sentences)) for keys, values in state.source]
        return replace(state, source=source, source_mask=state.source_mask.index_select(0, sentences))
