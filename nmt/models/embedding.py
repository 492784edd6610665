"""Word embeddings with positions (Vaswani and others 2017, section 3.4 and 3.5)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import BaseTransformerConfig
from nmt.models.dropout import Dropout
from nmt.models.masked_rnn import masked_rnn


def sinusoidal(length: int, width: int) -> Tensor:
    """Positional encoding of section 3.5: sine in the even columns, cosine in the odd ones.

    Returns:
        (length, width), values in [-1, 1].
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.empty(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.float()


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Which positions (columns) each position (row) may look at: itself and those before; (length, length), bool."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Embedding(nn.Module):
    """Piece embeddings, scaled, then dropout; a piece's weights have deviation width^-0.5, the pad's are zero.

    That suits the output projection they may be tied to. Scaled by sqrt(width) they enter the layers with deviation 1,
    from which recurrent ones learn much sooner.
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
        """Embed ids (B, T); gives (B, T, D)."""
        return self.dropout(self.placed(self.pieces(ids) * self.scale))

    def of_few(self, ids: Tensor) -> Tensor:
        """As `forward`, with a sparse gradient: one of the whole vocabulary costs more than a few ids do."""
        found = F.embedding(ids, self.pieces.weight, self.pieces.padding_idx, sparse=True)
        return self.dropout(self.placed(found * self.scale))

    def placed(self, x: Tensor) -> Tensor:
        """Embeddings (B, T, D) that know their positions; here they do not."""
        return x


class PositionalEmbedding(Embedding):
    """Piece embeddings, scaled by sqrt(width) if asked, plus positions, then dropout."""

    positions: Tensor

    def __init__(self, vocabulary: int, config: BaseTransformerConfig, pad: int) -> None:
        scale = math.sqrt(config.width) if config.scale_embeddings else 1.0
        super().__init__(vocabulary, config.width, pad, scale, config.dropout.embedding)
        if config.positions == "learned":
            self.positions = nn.Parameter(torch.randn(config.max_positions, config.width) * config.width**-0.5)
        else:
            self.register_buffer("positions", sinusoidal(config.max_positions, config.width), persistent=False)

    def placed(self, x: Tensor) -> Tensor:
        """Embeddings (B, T, D) plus those of positions 0 to T - 1."""
        return x + self.positions[: x.shape[1]]

    def at(self, ids: Tensor, position: int) -> Tensor:
        """Embed ids (R,) at one position, without dropout; gives (R, D)."""
        return F.embedding(ids, self.pieces.weight) * self.scale + self.positions[position]


class Context(nn.Module):
    """Embeddings that know their neighbours: a bidirectional GRU over them (Wang, Cho and Gu 2019, section 3.2).

    A piece of byte-level BPE may be part of a character, and says little alone. For the encoder only: a decoder must
    not read ahead.
    """

    def __init__(self, config: BaseTransformerConfig) -> None:
        super().__init__()
        self.layer = nn.GRU(config.width, config.width // 2, batch_first=True, bidirectional=True)
        self.dropout = Dropout(config.dropout.embedding)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Embeddings (B, S, D) and where they are no padding (B, S), which comes last; gives (B, S, D)."""
        return self.dropout(masked_rnn(self.layer, x, real)[0])
