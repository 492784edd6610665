"""Configuration of models: Transformer, multimodal Transformer, recurrent model."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from nmt.config.choices import Network
from nmt.config.problems.shapes import is_tag
from nmt.config.types import Number, Positive, Probability, Strict
from nmt.system.errors import SHOWN, DataError, fitting
from nmt.system.files import read_json

TABLE = 2**25
"""Most numbers in a table of positions, or in the features of a picture, as configurations may be somebody else's."""
Backbone = Network | Literal["descriptions"]
#: Columns of the features: channels of a network's last convolution, or the width of the vectors of descriptions.
BACKBONES: dict[Backbone, int] = {"resnet50": 2048, "efficientnet-lite0": 1280, "descriptions": 256}
Shown = Annotated[
    Literal["right", "blank", "random", "swapped"],
    Field(
        description="right: the sentence's own picture; blank: zeros; random: another sentence's, drawn once; "
        "swapped: the neighbour's (lines 1 and 2 exchanged, 3 and 4, …)"
    ),
]


def _expand_number(value: Any, places: Iterable[str]) -> Any:
    """Expand one number to a mapping with that number at every place; leave other values to pydantic.

    The range is checked here, so that the message shows what the user wrote.
    """
    if isinstance(value, dict | BaseModel):
        return value
    if not isinstance(value, int | float):
        got = json.dumps(value, default=str)[:SHOWN]
        raise ValueError(f"expected a number, without a comma, or keys and their values, got {got}")
    if not 0 <= value < 1:
        raise ValueError(f"expected a number from 0 to below 1, got {value}")
    return dict.fromkeys(places, value)


class DropoutConfig(Strict):
    """Dropout probabilities of a Transformer by place."""

    embedding: Probability = Field(0.1, description="on the sum of embeddings and positions")
    residual: Probability = Field(0.1, description="on each sub-layer's output, before it is added")
    attention: Probability = Field(0.0, description="on the attention weights")
    activation: Probability = Field(0.0, description="after the feed-forward activation")


def _one_number(value: Any) -> Any:
    return _expand_number(value, ("embedding", "residual"))


def _room_for_words(positions: int) -> int:
    if positions < 3:
        raise ValueError(f"max_positions must be 3 or more, for BOS, one piece and EOS, got {positions}")
    return positions


Positions = Annotated[Positive, AfterValidator(_room_for_words)]
Tied = Annotated[
    Literal["none", "decoder", "all"],
    Field(description="shared weights; decoder: output projection = target embedding; all: the source embedding too"),
]
Dropouts = Annotated[
    DropoutConfig,
    BeforeValidator(_one_number, json_schema_input_type=Probability | DropoutConfig),
    Field(description="dropout by place; one number sets embedding and residual dropout"),
]


class BaseTransformerConfig(Strict):
    """The fields that all Transformers share."""

    kind: str
    layers: Positive = Field(6, description="encoder layers")
    decoder_layers: Positive | None = Field(None, description="decoder layers; null: as many as encoder layers")
    width: Positive = Field(512, description="width of embeddings and layers; a multiple of heads")
    ffn: Positive = Field(2048, description="inner width of the feed-forward sub-layers")
    heads: Positive = Field(8, description="attention heads")
    norm: Literal["post", "pre"] = Field("post", description="layer normalisation after or before each sub-layer")
    normalisation: Literal["layer", "rms"] = Field(
        "layer",
        description="kind of normalisation; rms: by the root mean square, without biases (Zhang and Sennrich 2019)",
    )
    activation: Literal["relu", "gelu", "swish", "geglu", "swiglu"] = Field(
        "relu",
        description="activation of the feed-forward sub-layers; swish: x · sigmoid(x); geglu, swiglu: gelu or swish of "
        "one linear layer times another one, which makes three matrices of two (Shazeer 2020)",
    )
    key_value_heads: Positive | None = Field(
        None,
        description="heads of keys and values, a divisor of heads: so many query heads share each of them (Ainslie and "
        "others 2023; 1: Shazeer 2019); null: as many as heads",
    )
    attention_output: bool = Field(
        True, description="a linear layer follows the heads of each attention; false: the heads side by side"
    )
    attention_bias: bool = Field(True, description="the linear layers of each attention have biases")
    output_bias: bool = Field(False, description="the output projection has a bias")
    tied: Tied = "decoder"
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="positional encoding; rotary: nothing is added to the embeddings, but the queries and keys of "
        "self-attention are rotated by their positions (Su and others 2021)",
    )
    max_positions: Positions = Field(512, description="longest sentence, in pieces with BOS and EOS")
    scale_embeddings: bool = Field(True, description="multiply embeddings by sqrt(width)")
    context: Literal["none", "gru"] = Field(
        "none", description="gru: put a bidirectional GRU over the encoder's embeddings (Wang, Cho and Gu 2019)"
    )
    dropout: Dropouts = DropoutConfig()

    @model_validator(mode="after")
    def _width_fits(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")
        if self.width % 2 and self.context == "gru":
            raise ValueError(f"context: gru needs an even width, half of it for each direction, got {self.width}")
        if self.width % 2 and self.positions == "sinusoidal":
            raise ValueError(f"sinusoidal positions need an even width, got {self.width}")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions need an even width of each head, got width {self.width} and {self.heads} heads"
            )
        if self.heads % self.groups:
            raise ValueError(f"key_value_heads must divide heads, got {self.groups} and {self.heads}")
        return self

    @model_validator(mode="after")
    def _tables_fit(self) -> Self:
        for key in ("max_positions", "regions"):
            if (rows := getattr(self, key, 0)) * self.width > TABLE:
                raise ValueError(
                    f"{key} times width must be at most {TABLE:,}, got {rows} times {self.width}; lower one of them"
                )
        return self

    @property
    def groups(self) -> int:
        """Number of heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def source_attentions(self) -> tuple[int, int]:
        """Number of layers that attend to the source, and of heads in each."""
        return self.decoder_layers or self.layers, self.heads


class TransformerConfig(BaseTransformerConfig):
    """Encoder-decoder Transformer (Vaswani and others 2017)."""

    kind: Literal["transformer"] = Field("transformer", description="architecture")
    source_bos: bool = Field(
        True, description="the encoder sees BOS before the sentence; false: it sees pieces and EOS only, as in Marian"
    )


class MultimodalConfig(BaseTransformerConfig):
    """Transformer that sees the sentence's picture too (Yao and Wan 2020)."""

    kind: Literal["multimodal"] = Field(description="architecture")
    fusion: Literal["queries", "concatenation", "gated"] = Field(
        "queries",
        description="how words and picture meet; queries: words and regions are queries, only words are keys and "
        "values (Yao and Wan 2020); concatenation: self-attention over words and regions; gated: a gate adds the mean "
        "region to the words (Wu and others 2021)",
    )
    keys: Literal["layer", "embeddings"] = Field(
        "layer",
        description="with fusion: queries, what keys and values come from in every encoder layer; layer: the words' "
        "rows in that layer (Yao and Wan 2020, eq. 3 and 4); embeddings: the words' rows below the first layer (their "
        "code)",
    )
    backbone: Backbone = Field(
        "resnet50",
        description="network that the image features come from; descriptions: no network, but pseudo-regions from "
        "other descriptions of the picture",
    )
    regions: Positive = Field(49, description="rows of a picture's features")
    channels: Positive | None = Field(None, description="columns of a picture's features; null: the backbone's")
    images: Shown = Field(
        "right",
        description="pictures shown in training; right: the sentence's own; blank: zeros; random: another sentence's, "
        "drawn once; swapped: the neighbour's (lines 1 and 2 exchanged, 3 and 4, …)",
    )
    image_dropout: Probability = Field(
        0.0, description="probability that a training sentence is shown a blank picture instead"
    )

    @model_validator(mode="after")
    def _fusion_fits(self) -> Self:
        if self.keys != "layer" and self.fusion != "queries":
            raise ValueError(f"keys: {self.keys} is for fusion: queries only, got fusion: {self.fusion}; leave it out")
        if self.positions == "rotary" and self.fusion != "gated":
            raise ValueError(
                f"positions: rotary needs fusion: gated, got {self.fusion}: regions of a picture have no positions"
            )
        return self


class AttentionConfig(Strict):
    """Attention of a recurrent decoder over the source."""

    kind: Literal["none", "global", "local-p", "local-m"] = Field(
        "global",
        description="none: feed the encoder's last output at every step; global: the whole sentence; local-p: a window "
        "around a predicted centre; local-m: a window around the step's number (Luong and others 2015, section 3.2)",
    )
    score: Literal["dot", "general", "additive"] = Field(
        "general",
        description="dot: d·h; general: d·Wh (Luong and others 2015, eq. 8); additive: v·tanh(Wd + Uh) (Bahdanau and "
        "others 2015)",
    )
    window: Positive = Field(7, description="local attention: positions on either side of the centre")
    centre_width: Positive | None = Field(
        None,
        description="local-p: inner width of the network that predicts the centre, which then has biases; null: the "
        "model's width, without biases (Luong and others 2015, eq. 9)",
    )
    pad_source: bool = Field(
        False,
        description="local-p: the encoder reads as much padding before the sentence as the window has on one side, and "
        "one piece more after it. The window lies around the rounded centre. Its places outside the sentence see the "
        "padding's encodings, with a score of 0. So the decoder's first states hardly know the sentence",
    )

    @model_validator(mode="after")
    def _needs_local_p(self) -> Self:
        keys = [key for key in ("centre_width", "pad_source") if key in self.non_defaults()]
        if keys and self.kind != "local-p":
            raise ValueError(f"{keys[0]} is for kind: local-p only, got kind: {self.kind}; leave it out")
        return self


class RecurrentDropoutConfig(Strict):
    """Dropout probabilities of a recurrent model by place."""

    embedding: Probability = Field(0.1, description="on the embeddings")
    layers: Probability = Field(0.1, description="between layers")
    output: Probability = Field(0.1, description="before the output projection")


def _one_for_all(value: Any) -> Any:
    return _expand_number(value, RecurrentDropoutConfig.model_fields)


class RecurrentConfig(Strict):
    """Recurrent encoder-decoder with attention (Luong and others 2015)."""

    kind: Literal["recurrent"] = Field(description="architecture")
    cell: Literal["lstm", "gru"] = Field("lstm", description="recurrent cell")
    layers: Positive = Field(2, description="layers of the encoder, and of the decoder")
    width: Positive = Field(256, description="units per layer and direction, and width of the embeddings")
    bidirectional: bool = Field(False, description="the encoder reads in both directions")
    residual: bool = Field(False, description="add each layer's input to its output, from the second layer on")
    attention: AttentionConfig = Field(AttentionConfig(), description="attention over the source")
    input_feeding: bool = Field(
        False, description="feed the attentional state of a step to the next step (Luong and others 2015, section 3.3)"
    )
    context_feeding: bool = Field(
        False,
        description="feed the context vector of a step to the next step, without its gradient; the first step gets the "
        "encoder's last output",
    )
    activation: Literal["tanh", "relu"] = Field("tanh", description="activation of the attentional state")
    scale_embeddings: bool = Field(
        True,
        description="multiply embeddings by sqrt(width); false: draw them from N(0, 1) instead, so they learn more "
        "slowly",
    )
    output_bias: bool = Field(
        False, description="the output projection has a bias; without tied weights both start as PyTorch's default"
    )
    teacher_forcing: Annotated[float, Field(ge=0, le=1), Number] = Field(
        1.0, description="probability that a training step is fed the reference's last word, not the model's own"
    )
    teacher_forcing_draw: Literal["sentence", "batch"] = Field(
        "sentence", description="what shares the draw of teacher_forcing at each step"
    )
    tied: Tied = "decoder"
    max_positions: Positions = Field(512, description="longest sentence, in pieces with BOS and EOS")
    dropout: Annotated[
        RecurrentDropoutConfig,
        BeforeValidator(_one_for_all, json_schema_input_type=Probability | RecurrentDropoutConfig),
    ] = Field(RecurrentDropoutConfig(), description="dropout by place; one number sets all three")

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.bidirectional and self.attention.kind != "none" and self.attention.score == "dot":
            raise ValueError(
                "score: dot needs an encoder and a decoder of the same width, got bidirectional: true; use general"
            )
        for key in ("input_feeding", "context_feeding"):
            if getattr(self, key) and self.attention.kind == "none":
                raise ValueError(
                    f"{key}: true needs an attention, got kind: none; leave it out, the encoder's last output is fed "
                    "at every step already"
                )
        if self.input_feeding and self.context_feeding:
            raise ValueError("input_feeding and context_feeding exclude each other, got true for both; leave one out")
        if not self.scale_embeddings and self.tied != "none":
            raise ValueError(
                f"scale_embeddings: false needs tied: none, got {self.tied}; an output projection with weights from "
                "N(0, 1) would not learn"
            )
        if self.activation != "tanh" and self.attention.kind == "none":
            raise ValueError(
                f"activation is of the attention's output, got {self.activation} with attention kind: none"
            )
        return self

    @property
    def source_attentions(self) -> tuple[int, int]:
        """Number of layers that attend to the source, and of heads in each; 0 and 0 without attention."""
        return (0, 0) if self.attention.kind == "none" else (1, 1)


def _kind(value: Any) -> str:
    kind = value.get("kind", "transformer") if isinstance(value, dict) else getattr(value, "kind", "transformer")
    return f"<{kind}>"


ModelConfig = Annotated[
    Annotated[TransformerConfig, Tag("<transformer>")]
    | Annotated[RecurrentConfig, Tag("<recurrent>")]
    | Annotated[MultimodalConfig, Tag("<multimodal>")],
    Discriminator(_kind),
]


@contextmanager
def fitting_model(folder: Path) -> Iterator[None]:
    """Turn errors about the content of a model directory into one DataError; a newer nmt may have more settings."""
    with fitting(folder, "a model directory", "write it again with `nmt average`"):
        try:
            yield
        except ValidationError as error:
            problem = error.errors()[0]
            if problem["type"] not in ("extra_forbidden", "literal_error"):
                raise
            key = ".".join(str(part) for part in problem["loc"] if not is_tag(part))
            got = f"the unknown key {key}" if problem["type"] == "extra_forbidden" else f"{key}: {problem['input']}"
            made = read_json(file) if (file := folder / "provenance.json").exists() else {}
            raise DataError(
                f"{folder}: expected settings that this nmt knows, got {got[:SHOWN]}; if a newer nmt wrote the folder "
                f"(code {made.get('averaged_by', 'unknown')}), use that one; else correct the setting"
            ) from None


def stored_model(value: Any, folder: Path) -> ModelConfig:
    """Validate the configuration of a model directory.

    Args:
        value: as ``config.json`` has it.
        folder: the directory, for messages.

    Raises:
        DataError: it has a kind that this installation does not know.
        ValidationError: another part of it is wrong.
    """
    try:
        model: ModelConfig = TypeAdapter(ModelConfig).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] != "union_tag_invalid":
            raise
        known, got = (re.sub("[<>']", "", problem["ctx"][key])[:SHOWN] for key in ("expected_tags", "tag"))
        raise DataError(
            f"{folder}: expected a model of a kind that this installation knows ({known}), got kind {got}; use the "
            "installation that wrote it"
        ) from None
    return model


def has_attention(model: ModelConfig) -> bool:
    """Return whether a model has attention over its source."""
    return model.source_attentions != (0, 0)
