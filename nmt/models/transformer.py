"""Encoder-decoder Transformer (Vaswani and others 2017), post-norm or pre-norm (Xiong and others 2020)."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nmt.config.models import MultimodalConfig, TransformerConfig
from nmt.models.attention import Rotary, watch
from nmt.models.base import TranslationModel
from nmt.models.embedding import Context, PositionalEmbedding, causal_mask
from nmt.models.incremental import MANY, IncrementalDecoder, Past, State
from nmt.models.layers import DecoderLayer, EncoderLayer, make_norm
from nmt.system.machine import pytorch_kernels


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
        #: Pieces at the start of a source that the encoder does not see: 1, which is BOS, without source_bos; else 0.
        self.skipped_bos = int(isinstance(config, TransformerConfig) and not config.source_bos)
        self.projection = nn.Linear(config.width, target_vocabulary, bias=config.output_bias)
        if config.output_bias:
            nn.init.zeros_(self.projection.bias)
        self.incremental: IncrementalDecoder | None = None
        if config.tied == "none":
            nn.init.normal_(self.projection.weight, std=config.width**-0.5)
        else:
            self.projection.weight = self.target_embedding.pieces.weight

    def embed(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Embed padded ids (B, S); return embeddings (B, S, D) and the additive mask of the padding (B, 1, 1, S).

        Without source_bos, the encoder sees S - 1 ids, here and below.
        """
        source = source[:, self.skipped_bos :]
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
        if self.activation_checkpointing and torch.is_grad_enabled():
            watched = any(module._forward_hooks for module in layer.modules())
            if not watched:
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
        return outputs, F.pad(weights[0], (self.skipped_bos, 0))[..., : source.shape[1]]  # words before regions

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
        if self.skipped_bos:  # nothing looks at BOS, and it looks at nothing
            found |= {"source": F.pad(found["source"], (1, 0)), "encoder": F.pad(found["encoder"], (1, 0, 1, 0))}
        return found

    def start(self, source: Tensor, images: Tensor | None = None) -> State:
        """See `TranslationModel.start`."""
        decoder = self.incremental or self._make_incremental()
        with pytorch_kernels(source.numel() < MANY):
            return decoder.start(*self.encode(source, images))

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """See `TranslationModel.step`."""
        return state.decoder.step(state, last)

    def reorder(self, state: State, rows: Tensor) -> State:
        """See `TranslationModel.reorder`."""
        # On the CPU, `index_select` copies whole rows, while indexing copies number by number.
        return state._replace(past=[Past.of(layer.buffer.index_select(1, rows)) for layer in state.past])

    def keep(self, state: State, sentences: Tensor) -> State:
        """See `TranslationModel.keep`."""
        return state._replace(sources=[source.keep(sentences) for source in state.sources])

    def lay_out_for_search(self) -> Self:
        """See `TranslationModel.lay_out_for_search`; also look the decoder's weights up once for all searches."""
        super().lay_out_for_search()
        self.incremental = self._make_incremental()
        return self

    def _make_incremental(self) -> IncrementalDecoder:
        return IncrementalDecoder(self.target_embedding, self.decoder, self.decoder_norm, self.projection)
