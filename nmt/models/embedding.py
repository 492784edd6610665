"""Piece embeddings with positions (Vaswani and others 2017, sections 3.4 and 3.5)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.fast_layers import Dropout
from nmt.models.masked_rnn import masked_rnn


def sinusoidal(length: int, width: int) -> Tensor:
    """Compute the positional encoding of section 3.5: sine in the even columns, cosine in the odd ones.

    Returns:
        Table (length, width) with values in [-1, 1].
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.empty(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.float()


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return the mask (length, length), bool, by which each position (row) sees itself and earlier ones (columns)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Embedding(nn.Module):
    """Piece embeddings times a scale, then dropout.

    The initial weights have deviation width^-0.5, which suits an output projection that is tied to them; those of
    padding are zero. With the scale sqrt(width), the embeddings have deviation 1, which makes recurrent layers learn
    much sooner.
    """

    def __init__(self, vocabulary: int, width: int, pad: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.scale = scale
        self.pieces = nn.Embedding(vocabulary, width, padding_idx=pad)
        nn.init.normal_(self.pieces.weight, std=width**-0.5)
        with torch.no_grad():
            self.pieces.weight[pad].zero_()
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids (B, T) as (B, T, D)."""
        return self.dropout(self.add_positions(self.pieces(ids) * self.scale))

    def forward_sparse(self, ids: Tensor) -> Tensor:
        """Embed ids like `forward`, but with a sparse gradient; for few ids a dense one costs much more."""
        embedded = F.embedding(ids, self.pieces.weight, self.pieces.padding_idx, sparse=True)
        return self.dropout(self.add_positions(embedded * self.scale))

    def add_positions(self, x: Tensor) -> Tensor:
        """Return embeddings (B, T, D) unchanged; subclasses add positions."""
        return x


class PositionalEmbedding(Embedding):
    """Piece embeddings, optionally times sqrt(width), plus positions unless these are rotary, then dropout."""

    positions: Tensor | None

    def __init__(self, vocabulary: int, config: BaseTransformerConfig, pad: int) -> None:
        scale = math.sqrt(config.width) if config.scale_embeddings else 1.0
        super().__init__(vocabulary, config.width, pad, scale, config.dropout.embedding)
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.randn(config.max_positions, config.width) * config.width**-0.5)
        elif config.positions == "rotary":
            self.positions = None  # self-attention has them
        else:
            self.register_buffer("positions", sinusoidal(config.max_positions, config.width), persistent=False)

    def add_positions(self, x: Tensor) -> Tensor:
        """Add the encodings of positions 0 to T - 1 to embeddings (B, T, D)."""
        return x if self.positions is None else x + self.positions[: x.shape[1]]


class Context(nn.Module):
    """Bidirectional GRU that adds context to embeddings (Wang, Cho and Gu 2019, section 3.2).

    A piece of byte-level BPE may be part of a character and mean little without its neighbours. Only the encoder uses
    this layer, because a decoder must not see later positions.
    """

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.layer = nn.GRU(config.width, config.width // 2, batch_first=True, bidirectional=True)
        self.dropout = Dropout(config.dropout.embedding)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Map embeddings (B, S, D) to (B, S, D); ``real`` (B, S) is false at padding, which comes last."""
        return self.dropout(masked_rnn(self.layer, x, real)[0])
