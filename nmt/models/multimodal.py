"""Multimodal Transformers: they translate a sentence with its picture (Yao and Wan 2020; Wu and others 2021)."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config.models import MultimodalConfig
from nmt.data.features import channels
from nmt.models.fast_layers import Dropout
from nmt.models.layers import EncoderLayer
from nmt.models.transformer import Transformer


class ImageQueries(EncoderLayer):
    """Encoder layer with multimodal self-attention (Yao and Wan 2020, section 2.2).

    All rows are queries, but only words are keys and values. So each region becomes a weighted mean of words, and the
    words are encoded as if there were no picture.
    """

    def forward(self, x: Tensor, mask: Tensor, words: Tensor | None = None) -> Tensor:
        """Run the layer on words and regions.

        Args:
            x: rows (B, S + R, D), words first.
            mask: additive mask of the words (B, 1, 1, S).
            words: rows (B, S, D) that keys and values come from, before this layer's norm; None for those of x.

        Returns:
            Rows (B, S + R, D).
        """
        around_attention, around_feed_forward = self.residuals

        def attend(rows: Tensor) -> Tensor:
            seen = rows[:, : mask.shape[-1]] if words is None else around_attention.sublayer_input(words)
            return self.attention(self.attention.queries(rows), self.attention.keys_values(seen), mask)

        return around_feed_forward(around_attention(x, attend), self.feed_forward)


class Gate(nn.Module):
    """Gated fusion (Wu and others 2021, eq. 3 and 4): encodings + gate * picture, with one vector per picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(2 * width, width)

    def forward(self, words: Tensor, regions: Tensor) -> Tensor:
        """Fuse encodings (B, S, D) with projected regions (B, R, D); return (B, S, D)."""
        picture = regions.mean(1, keepdim=True).expand_as(words)
        return words + torch.sigmoid(self.gate(torch.cat([words, picture], -1))) * picture


class Regions(nn.Module):
    """Projection of a picture's regions to the width of the model; a blank picture has zero features."""

    def __init__(self, config: MultimodalConfig) -> None:
        super().__init__()
        self.count = config.regions
        self.project = nn.Linear(channels(config), config.width)
        self.dropout, self.image_dropout = Dropout(config.dropout.embedding), config.image_dropout

    def forward(self, images: Tensor | None, sentences: int) -> Tensor:
        """Project features (B, R, C) of any precision, or None for blank pictures, to (B, R, D)."""
        if images is None:
            return self.dropout(self.project.bias.expand(sentences, self.count, -1))
        if self.training and self.image_dropout:
            images = images * (torch.rand(sentences, 1, 1, device=images.device) >= self.image_dropout)
        return self.dropout(self.project(images.to(self.project.weight.dtype)))


class Multimodal(Transformer):
    """Transformer whose encoder sees the picture of the sentence.

    With the fusions ``queries`` and ``concatenation``, the decoder attends to S + R rows, words first. With ``gated``,
    it attends to S rows.
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
        """Encode sentences and their pictures.

        Args:
            source: padded ids (B, S).
            images: features (B, R, C); None for blank pictures.

        Returns:
            Encodings (B, S + R, D) and the additive mask of their padding (B, 1, 1, S + R); with gated fusion (B, S, D)
            and (B, 1, 1, S).
        """
        regions = self.regions(images, len(source))
        x, word_mask = self.embed(source)
        full_mask = torch.cat([word_mask, word_mask.new_zeros(*word_mask.shape[:3], regions.shape[1])], -1)
        if self.config.fusion == "gated":
            return self.gate(self.encode_rows(x, word_mask), regions), word_mask
        encoder_mask = word_mask if self.config.fusion == "queries" else full_mask
        words = (x,) if self.config.keys == "embeddings" else ()
        return self.encode_rows(torch.cat([x, regions], 1), encoder_mask, *words), full_mask

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """See `TranslationModel.attentions`; without gated fusion also ``image`` (B, L, H, T, R).

        ``image`` is the decoder's attention over the regions. A row of ``source`` and the same row of ``image``
        together sum to 1.
        """
        weights, words = super().attentions(source, target, images), source.shape[1]
        if self.config.fusion != "gated":
            weights["image"] = weights["source"][..., words:]
        return weights | {"source": weights["source"][..., :words], "encoder": weights["encoder"][..., :words, :words]}
