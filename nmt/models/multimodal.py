"""Transformers that see a picture beside the sentence (Yao and Wan 2020; Wu and others 2021)."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config.models import MultimodalConfig
from nmt.data.features import channels
from nmt.models.dropout import Dropout
from nmt.models.layers import EncoderLayer
from nmt.models.transformer import Transformer


class ImageQueries(EncoderLayer):
    """Multimodal self-attention (Yao and Wan 2020, section 2.2): every row asks, only words are looked at.

    So each region becomes a mixture of words, weighted by what it shows, and words stay as they are without a picture.
    """

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S + R, D), words first; additive mask of the words (B, 1, 1, S); gives (B, S + R, D)."""
        around_attention, around_feed_forward = self.residuals
        rows = around_attention.enter(x)
        words = rows[:, : mask.shape[-1]]
        output = self.attention(self.attention.queries(rows), self.attention.keys_values(words), mask)
        x = around_attention.leave(x, output)
        return around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))


class Gate(nn.Module):
    """Gated fusion (Wu and others 2021, eq. 3 and 4): encodings + gate * picture, one vector a picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * width, width)

    def forward(self, words: Tensor, regions: Tensor) -> Tensor:
        """Encodings (B, S, D) and projected regions (B, R, D) to (B, S, D)."""
        picture = regions.mean(1, keepdim=True).expand_as(words)
        return words + torch.sigmoid(self.gate(torch.cat([words, picture], -1))) * picture


class Regions(nn.Module):
    """A picture's regions as rows of the model's width; a blank picture has features of zero."""

    def __init__(self, config: MultimodalConfig) -> None:
        super().__init__()
        self.count = config.regions
        self.project = nn.Linear(channels(config), config.width)
        self.dropout, self.blank = Dropout(config.dropout.embedding), config.image_dropout

    def forward(self, images: Tensor | None, sentences: int) -> Tensor:
        """Features (B, R, C) of any precision, or None for blank pictures; gives (B, R, D)."""
        if images is None:
            return self.dropout(self.project.bias.expand(sentences, self.count, -1))
        if self.training and self.blank:
            images = images * (torch.rand(sentences, 1, 1, device=images.device) >= self.blank)
        return self.dropout(self.project(images.to(self.project.weight.dtype)))


class Multimodal(Transformer):
    """A Transformer whose encoder sees the sentence's picture; what the decoder looks at is config.fusion's choice.

    With queries and concatenation the decoder looks at S + R rows, words first; with the gate at S.
    """

    config: MultimodalConfig

    def __init__(self, config: MultimodalConfig, source_vocabulary: int, target_vocabulary: int, pad: int) -> None:
        super().__init__(config, source_vocabulary, target_vocabulary, pad)
        self.regions = Regions(config)
        if config.fusion == "queries":
            layers = (ImageQueries(config) for _ in range(config.layers))
            self.encoder = cast("Sequence[EncoderLayer]", nn.ModuleList(layers))
        if config.fusion == "gated":
            self.gate = Gate(config.width)

    def encode(self, source: Tensor, images: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Ids (B, S), padded, and features (B, R, C) to encodings and the additive mask of the padding.

        Args:
            source: ids.
            images: None for blank pictures.

        Returns:
            (B, S + R, D) and (B, 1, 1, S + R), or with the gate (B, S, D) and (B, 1, 1, S).
        """
        regions = self.regions(images, len(source))
        x, words = self.embed(source)
        everything = torch.cat([words, words.new_zeros(*words.shape[:3], regions.shape[1])], -1)
        if self.config.fusion == "gated":
            return self.gate(self.encode_rows(x, words), regions), words
        looked_at = words if self.config.fusion == "queries" else everything
        return self.encode_rows(torch.cat([x, regions], 1), looked_at), everything

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """See `TranslationModel.attentions`; with regions in the memory also ``image`` (B, L, H, T, R), the decoder.

        The words' weights are those among the words: a row of ``source`` and the same of ``image`` sum to 1 together.
        """
        found, words = super().attentions(source, target, images), source.shape[1]
        if self.config.fusion != "gated":
            found["image"] = found["source"][..., words:]
        return found | {
            "source": found["source"][..., :words],
            "encoder": found["encoder"][..., :words, :words],
        }
