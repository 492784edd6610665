"""Configuration of models: Transformer, multimodal Transformer, recurrent model."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from nmt.config.choices import Network
from nmt.config.types import Number, Positive, Probability, Strict

Backbone = Network | Literal["descriptions"]
#: Channels of an image network's last convolution, and of the vectors of descriptions, which are of no image.
BACKBONES: dict[Backbone, int] = {"resnet50": 2048, "efficientnet-lite0": 1280, "descriptions": 256}
Shown = Annotated[
    Literal["right", "blank", "random", "swapped"],
    Field(
        description="the sentence's own picture; none (zeros); another sentence's, drawn once; its neighbour's, lines "
        "1 and 2, 3 and 4 exchanged"
    ),
]


def _everywhere(value: Any, places: Iterable[str]) -> Any:
    """One number for some places, refused here if it is no probability, as the message then names what was written."""
    if not isinstance(value, int | float):
        return value
    if not 0 <= value < 1:
        raise ValueError(f"expected a number from 0 to below 1, got {value}")
    return dict.fromkeys(places, value)


class DropoutConfig(Strict):
    """Dropout probabilities by place."""

    embedding: Probability = 0.1
    residual: Probability = Field(0.1, description="on each sub-layer's output, before it is added")
    attention: Probability = Field(0.0, description="on the attention weights")
    activation: Probability = Field(0.0, description="after the feed-forward activation")


def _one_number(value: Any) -> Any:
    return _everywhere(value, ("embedding", "residual"))


Tied = Annotated[
    Literal["none", "decoder", "all"],
    Field(description="decoder: output projection = target embedding; all: the source embedding too"),
]
Dropouts = Annotated[
    DropoutConfig,
    BeforeValidator(_one_number, json_schema_input_type=Probability | DropoutConfig),
    Field(description="one number sets embedding and residual dropout"),
]


class BaseTransformerConfig(Strict):
    """What every kind of Transformer has."""

    kind: str
    layers: Positive = Field(6, description="encoder layers")
    decoder_layers: Positive | None = Field(None, description="as many as the encoder's when not given")
    width: Positive = 512
    ffn: Positive = 2048
    heads: Positive = 8
    norm: Literal["post", "pre"] = "post"
    activation: Literal["relu", "gelu"] = "relu"
    tied: Tied = "decoder"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: Positive = Field(512, description="longest sentence, in pieces with BOS and EOS")
    scale_embeddings: bool = Field(True, description="multiply embeddings by sqrt(width)")
    context: Literal["none", "gru"] = Field(
        "none", description="gru: a bidirectional GRU over the encoder's embeddings (Wang, Cho and Gu 2019)"
    )
    dropout: Dropouts = DropoutConfig()

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")
        if self.width % 2 and self.context == "gru":
            raise ValueError(f"context: gru needs an even width, half of it for each direction, got {self.width}")
        if self.width % 2 and self.positions == "sinusoidal":
            raise ValueError(f"sinusoidal positions need an even width, got {self.width}")
        return self


class TransformerConfig(BaseTransformerConfig):
    """Encoder-decoder Transformer (Vaswani and others 2017)."""

    kind: Literal["transformer"] = "transformer"


class MultimodalConfig(BaseTransformerConfig):
    """Transformer that sees the sentence's picture too (Yao and Wan 2020)."""

    kind: Literal["multimodal"]
    fusion: Literal["queries", "concatenation", "gated"] = Field(
        "queries",
        description="queries: image rows ask, only words are keys and values (Yao and Wan 2020); concatenation: plain "
        "self-attention over [words; regions]; gated: a gate adds the mean region to the words (Wu and others 2021)",
    )
    backbone: Backbone = Field(
        "resnet50",
        description="the network that the image features come from; descriptions: none, but pseudo-regions made of "
        "other descriptions of the image",
    )
    regions: Positive = Field(49, description="rows of a picture's features")
    channels: Positive | None = Field(None, description="columns of them; when not given, the backbone's")
    images: Shown = Field("right", description="the pictures that it is trained with")
    image_dropout: Probability = Field(
        0.0, description="chance that a sentence of training is shown a blank picture, to be able to do without"
    )


class AttentionConfig(Strict):
    """How a recurrent decoder looks at the source."""

    kind: Literal["none", "global", "local-p", "local-m"] = Field(
        "global",
        description="none: the encoder's last output is fed at every step; local-p: a window around a predicted "
        "centre; local-m: around the step's own number (Luong and others 2015, section 3.2)",
    )
    score: Literal["dot", "general", "additive"] = Field(
        "general", description="d·h | d·Wh (Luong and others, eq. 8) | v·tanh(Wd + Uh) (Bahdanau and others 2015)"
    )
    window: Positive = Field(7, description="local: positions either side of the centre")


class RecurrentDropoutConfig(Strict):
    """Dropout probabilities of a recurrent model by place."""

    embedding: Probability = 0.1
    layers: Probability = Field(0.1, description="on what a layer gives the next")
    output: Probability = Field(0.1, description="before the output projection")


def _one_for_all(value: Any) -> Any:
    return _everywhere(value, RecurrentDropoutConfig.model_fields)


class RecurrentConfig(Strict):
    """Recurrent encoder-decoder with attention (Luong and others 2015)."""

    kind: Literal["recurrent"]
    cell: Literal["lstm", "gru"] = "lstm"
    layers: Positive = Field(2, description="on each side")
    width: Positive = Field(256, description="units of a layer and a direction, and of the embeddings")
    bidirectional: bool = Field(False, description="the encoder reads both ways")
    residual: bool = Field(False, description="add each layer's input to its output, from the second layer on")
    attention: AttentionConfig = AttentionConfig()
    input_feeding: bool = Field(
        False, description="what the last step made of its context is fed to the next (Luong and others, section 3.3)"
    )
    teacher_forcing: Annotated[float, Field(ge=0, le=1), Number] = Field(
        1.0, description="chance that a step of training is fed the reference's last word, not its own"
    )
    tied: Tied = "decoder"
    max_positions: Positive = Field(512, description="longest sentence, in pieces with BOS and EOS")
    dropout: Annotated[
        RecurrentDropoutConfig,
        BeforeValidator(_one_for_all, json_schema_input_type=Probability | RecurrentDropoutConfig),
    ] = Field(RecurrentDropoutConfig(), description="one number sets all three")

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.bidirectional and self.attention.kind != "none" and self.attention.score == "dot":
            raise ValueError("score: dot needs encoder and decoder of one width, got bidirectional; use general")
        if self.input_feeding and self.attention.kind == "none":
            raise ValueError("input_feeding: true needs an attention, got kind: none; the context is fed anyway")
        return self


def _kind(value: Any) -> str:
    kind = value.get("kind", "transformer") if isinstance(value, dict) else getattr(value, "kind", "transformer")
    return f"<{kind}>"


ModelConfig = Annotated[
    Annotated[TransformerConfig, Tag("<transformer>")]
    | Annotated[RecurrentConfig, Tag("<recurrent>")]
    | Annotated[MultimodalConfig, Tag("<multimodal>")],
    Discriminator(_kind),
]


def has_attention(model: TransformerConfig | RecurrentConfig | MultimodalConfig) -> bool:
    """Whether a model attends to its source."""
    return model.kind != "recurrent" or model.attention.kind != "none"
