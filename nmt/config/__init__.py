"""Configuration: typed, frozen and strict. Every default of the project is in this file, once."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from nmt.config.choices import ON_REQUEST, Network
from nmt.config.yaml import at_place, load_yaml, nearest, read_config, validate
from nmt.system.errors import ConfigError

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="letters, digits, _ . -")]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}$", description="two or three small letters, an ISO 639 code")]
BatchSize = Annotated[str, Field(pattern=r"^[1-9]\d* (sentences|tokens)$", description="64 sentences | 4096 tokens")]
Interval = Annotated[str, Field(pattern=r"^[1-9]\d* (epochs|updates)$", description="4 epochs | 500 updates")]
Selection = Annotated[
    str,
    Field(
        pattern=r"^(last|best|epoch [1-9]\d*|update [1-9]\d*|average [1-9]\d*|average best [1-9]\d*)$",
        description="last | best | epoch 16 | update 4000 | average 10 (the last ten) | average best 5",
    ),
]


def _number(value: Any) -> Any:
    """What may be a number: true is none, though Python takes it for 1."""
    if isinstance(value, bool):
        raise ValueError(f"expected a number, got {str(value).lower()}")
    return value


Number = BeforeValidator(_number)  # comes last: a bound after it would be lost to the JSON schema
Count = Annotated[int, Field(ge=0, lt=2**53), Number]
Positive = Annotated[int, Field(ge=1, lt=2**53), Number]
NonNegative = Annotated[float, Field(ge=0, le=1e30), Number]
Score = Annotated[float, Field(ge=0, le=100), Number]
AboveZero = Annotated[float, Field(gt=0, le=1e30), Number]
Probability = Annotated[float, Field(ge=0, lt=1), Number]
Seed = Annotated[int, Field(ge=0, lt=2**32), Number]
TAG = r"^[A-Za-z]+$"


def _different(values: list[Any]) -> list[Any]:
    """A list as it is, if no value is in it twice."""
    if twice := [value for i, value in enumerate(values) if value in values[:i]]:
        raise ValueError(f"expected different values, got '{twice[0]}' twice")
    return values


Different = AfterValidator(_different)
Seeds = Annotated[list[Seed], Field(min_length=1), Different]
Names = Annotated[list[Name], Field(min_length=1), Different]


#: The keys of a training that end it: unless rates or losses depend on them they are no part of what it is, so it can
#: go on when they change.
ENDS = ("epochs", "updates", "patience")
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
Figure = Literal[
    "loss", "accuracy", "bleu", "learning-curves", "learning-rate", "positions", "mask", "alignment", "picture"
]


ALWAYS = ("bleu", "chrf", "ter", "exact")
"""Metrics that every row is scored by."""
Metric = Annotated[
    Literal[
        "bleu", "bleu1", "bleu2", "bleu3", "chrf", "ter", "exact", "meteor", "meteor_nltk", "nll_train", "nll_valid"
    ],
    Field(
        description="bleu1 to bleu3: BLEU of n-grams of at most so many words; exact: share of lines that equal their "
        "reference; nll: of the training, nats a piece"
    ),
]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    def essence(self) -> dict[str, Any]:
        """What differs from the defaults, as JSON: a key that comes to be later changes nothing that there is."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def slug(self, prefix: str) -> str:
        """A file name that depends on every value: ``prefix-1a2b3c4d``."""
        return f"{prefix}-{digest(self.essence())}"


class Cleaning(Strict):
    """The recipe that turns raw text into the text that models see (in this order)."""

    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    devanagari: bool = Field(
        False, description="digits, danda, nukta, joiners and vowel signs of Devanagari in one spelling"
    )
    lowercase: bool = True
    punctuation: bool = Field(True, description="Moses punctuation normalisation")
    ranges: bool = Field(False, description="the dash between two numbers in a word: to (English), तक (Hindi)")
    symbols: bool = Field(False, description="English & and currency signs in words: $1 becomes 1 dollar")
    hyphens: bool = Field(False, description="the hyphen between two words becomes a space")
    tokenize: Literal["moses", "none"] = "moses"
    transliterate: Literal["none", "hk", "iast", "itrans"] = Field(
        "none",
        description="Devanagari in Latin letters: Harvard-Kyoto, IAST or ITRANS; only in languages written in it",
    )
    characters: Literal["any", "latin"] = Field(
        "any", description="latin: keep Latin letters, digits and punctuation, drop every other character"
    )
    max_words: Positive = Field(100, description="training pairs with a longer side are dropped")
    max_ratio: Annotated[float, Field(ge=1), Number] = Field(
        9.0, description="training pairs with a larger ratio of lengths are dropped"
    )
    deduplicate: bool = Field(False, description="drop exact repetitions of a training pair")


class SpecialIds(Strict):
    """Ids of the four special pieces: 0 to 3 in any order."""

    pad: Count = 0
    unk: Count = 1
    bos: Count = 2
    eos: Count = 3

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if sorted([self.pad, self.unk, self.bos, self.eos]) != [0, 1, 2, 3]:
            raise ValueError("pad, unk, bos and eos must be 0, 1, 2 and 3 in some order")
        return self


class Subwords(Strict):
    """How text becomes ids. Learned from training text only."""

    kind: Literal["bpe", "bbpe", "words"] = Field(
        "bpe", description="bbpe: BPE over the bytes of UTF-8 (Wang, Cho and Gu 2019), to which nothing is unknown"
    )
    size: Annotated[int, Field(ge=8, lt=2**31), Number] = Field(
        8192, description="pieces, the four special ones included; for words: at most"
    )
    joint: bool = Field(True, description="one vocabulary for both sides, or one a side of this size each")
    ids: SpecialIds = SpecialIds()
    dropout: Probability = Field(
        0.0, description="of each merge, in the training text alone: BPE dropout (Provilkov and others 2020)"
    )
    segmentations: Positive = Field(
        1, description="with dropout: times that the training text is encoded, each cut anew; an epoch is all of them"
    )

    @model_validator(mode="after")
    def _dropout_has_merges(self) -> Self:
        if self.dropout and self.kind == "words":
            raise ValueError("dropout leaves out merges, and kind: words has none; remove it, or choose kind: bpe")
        if self.segmentations > 1 and not self.dropout:
            raise ValueError(f"segmentations: {self.segmentations} would all be alike without dropout; give both")
        return self

    @model_validator(mode="after")
    def _holds_every_byte(self) -> Self:
        if self.kind == "bbpe" and self.size < 256 + len(SpecialIds.model_fields):
            raise ValueError(f"kind: bbpe needs size: 260 or more, 256 bytes and 4 special pieces; got {self.size}")
        return self


def _everywhere(value: Any, places: Iterable[str]) -> Any:
    """One number for some places, refused here if it is no probability, as the message then names what was written."""
    if not isinstance(value, int | float):
        return value
    if not 0 <= value < 1:
        raise ValueError(f"expected a number from 0 to below 1, got {value}")
    return dict.fromkeys(places, value)


class Dropout(Strict):
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
    Dropout,
    BeforeValidator(_one_number, json_schema_input_type=Probability | Dropout),
    Field(description="one number sets embedding and residual dropout"),
]


class TransformerBase(Strict):
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
    dropout: Dropouts = Dropout()

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")
        if self.width % 2 and self.context == "gru":
            raise ValueError(f"context: gru needs an even width, half of it for each direction, got {self.width}")
        if self.width % 2 and self.positions == "sinusoidal":
            raise ValueError(f"sinusoidal positions need an even width, got {self.width}")
        return self


class Transformer(TransformerBase):
    """Encoder-decoder Transformer (Vaswani and others 2017)."""

    kind: Literal["transformer"] = "transformer"


class Multimodal(TransformerBase):
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


class Attention(Strict):
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


class RecurrentDropout(Strict):
    """Dropout probabilities of a recurrent model by place."""

    embedding: Probability = 0.1
    layers: Probability = Field(0.1, description="on what a layer gives the next")
    output: Probability = Field(0.1, description="before the output projection")


def _one_for_all(value: Any) -> Any:
    return _everywhere(value, RecurrentDropout.model_fields)


class Recurrent(Strict):
    """Recurrent encoder-decoder with attention (Luong and others 2015)."""

    kind: Literal["recurrent"]
    cell: Literal["lstm", "gru"] = "lstm"
    layers: Positive = Field(2, description="on each side")
    width: Positive = Field(256, description="units of a layer and a direction, and of the embeddings")
    bidirectional: bool = Field(False, description="the encoder reads both ways")
    residual: bool = Field(False, description="add each layer's input to its output, from the second layer on")
    attention: Attention = Attention()
    input_feeding: bool = Field(
        False, description="what the last step made of its context is fed to the next (Luong and others, section 3.3)"
    )
    teacher_forcing: Annotated[float, Field(ge=0, le=1), Number] = Field(
        1.0, description="chance that a step of training is fed the reference's last word, not its own"
    )
    tied: Tied = "decoder"
    max_positions: Positive = Field(512, description="longest sentence, in pieces with BOS and EOS")
    dropout: Annotated[
        RecurrentDropout, BeforeValidator(_one_for_all, json_schema_input_type=Probability | RecurrentDropout)
    ] = Field(RecurrentDropout(), description="one number sets all three")

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


Model = Annotated[
    Annotated[Transformer, Tag("<transformer>")]
    | Annotated[Recurrent, Tag("<recurrent>")]
    | Annotated[Multimodal, Tag("<multimodal>")],
    Discriminator(_kind),
]


def _has_attention(model: Transformer | Recurrent | Multimodal) -> bool:
    return model.kind != "recurrent" or model.attention.kind != "none"


class Optimizer(Strict):
    """Adam (Kingma and Ba 2015); adamw decouples the weight decay (Loshchilov and Hutter 2019).

    muon (Jordan and others 2024) makes the momentum of the matrices between hidden units orthogonal; the rest is AdamW.
    """

    kind: Literal["adam", "adamw", "muon"] = "adam"
    betas: tuple[Probability, Probability] = (0.9, 0.98)
    epsilon: AboveZero = 1e-9
    weight_decay: NonNegative = 0.0
    momentum: Probability = Field(0.95, description="of muon")

    @model_validator(mode="after")
    def _momentum_is_muons(self) -> Self:
        if self.kind != "muon" and "momentum" in self.essence():
            raise ValueError(
                f"momentum is muon's alone; {self.kind}'s is the first of betas, got {self.momentum}; leave it out, or "
                "choose kind: muon"
            )
        return self


class Schedule(Strict):
    """Learning rate against update: linear warm-up from ``initial``, then the named decay."""

    kind: Literal["inverse-sqrt", "constant", "cosine"] = "inverse-sqrt"
    peak: AboveZero | None = Field(
        None, description="rate after warm-up; when not given (width * warmup)^-0.5, Vaswani and others' eq. 3"
    )
    warmup: Count = Field(4000, description="updates")
    initial: NonNegative = 0.0
    cooldown: Count = Field(0, description="last updates, in which a factor falls from 1 to 0")

    @property
    def to_the_end(self) -> bool:
        """Whether the rates depend on where the training ends."""
        return self.kind == "cosine" or self.cooldown > 0

    @model_validator(mode="after")
    def _falls_once(self) -> Self:
        if self.kind == "cosine" and self.cooldown:
            raise ValueError(f"a cosine falls to nothing by itself; leave cooldown out, got {self.cooldown}")
        return self


class Consistency(Strict):
    """Two passes over each sentence, with other dropout; how far their predictions diverge is punished (R-Drop)."""

    weight: AboveZero = Field(
        5.0, description="of the divergences' mean, beside the passes' losses; Liang and others (2021): alpha"
    )
    last: Positive | None = Field(None, description="in so many last updates alone; in all when not given")


class Training(Strict):
    """The training loop."""

    batch: BatchSize = Field("4096 tokens", description="tokens: sentences times the longest of either side")
    accumulate: Positive = Field(1, description="batches per update")
    epochs: Positive | None = None
    updates: Positive | None = Field(None, description="stop after whichever of epochs and updates comes first")
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    label_smoothing: Probability = 0.0
    consistency: Consistency | None = None
    clip: AboveZero | None = Field(None, description="largest norm of the gradient")
    checkpoint_every: Interval = "1 epochs"
    validate_every: Interval = "1 epochs"
    validation_bleu: bool = Field(True, description="greedily translate the validation set at each validation")
    train_bleu: Count = Field(0, description="training sentences translated too, for their BLEU beside it")
    monitor: Literal["loss", "bleu"] = Field("loss", description="what best means, on the validation set")
    patience: Positive | None = Field(None, description="stop after so many validations without a better one")
    keep_last: Positive | None = Field(None, description="checkpoints kept; all when not given")
    keep_best: Count = Field(1, description="best checkpoints kept besides")
    precision: Literal["fp32", "bf16"] = "fp32"
    on_nan: Literal["stop", "skip"] = Field(
        "stop", description="at a gradient that is no number: stop, its batch saved, or leave the update out and count"
    )

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.epochs is None and self.updates is None:
            raise ValueError("epochs or updates must be given, otherwise training would never end")
        if self.monitor == "bleu" and not self.validation_bleu:
            raise ValueError("monitor: bleu needs validation_bleu: true")
        return self

    @model_validator(mode="after")
    def _comes_to_its_end(self) -> Self:
        for what, key, last in (
            ("its rate has fallen", "schedule.cooldown", self.schedule.cooldown),
            ("its last updates have come", "consistency.last", self.consistency and self.consistency.last),
        ):
            if last and self.patience is not None:
                raise ValueError(
                    f"patience would end the training before {what}; leave it or {key} out, "
                    f"got {self.patience} and {last}"
                )
            if last and self.updates is not None and last > self.updates:
                raise ValueError(f"{key} must not exceed updates, got {last} and {self.updates}")
        return self

    @property
    def to_the_end(self) -> bool:
        """Whether rates or losses depend on where the training ends."""
        return self.schedule.to_the_end or bool(self.consistency and self.consistency.last)

    def consistency_of(self, update: int, total: int) -> float:
        """Weight of the divergence in an update, counted from 1, of so many; 0 where each sentence passes once."""
        if self.consistency is None or update <= total - (self.consistency.last or total):
            return 0.0
        return self.consistency.weight


def check_passes(model: Transformer | Recurrent | Multimodal, training: Training) -> None:
    """Raise ValueError where the passes of `Consistency` would differ by other things than dropout, or by nothing."""
    if training.consistency is None:
        return
    if not any(model.dropout.model_dump().values()):
        raise ValueError(
            "training.consistency needs dropout, got 0 everywhere in model.dropout: both passes would be alike; "
            "give some, or leave consistency out"
        )
    if isinstance(model, Recurrent) and model.teacher_forcing < 1:
        raise ValueError(
            f"training.consistency needs model.teacher_forcing: 1, got {model.teacher_forcing}: its passes would feed "
            "different words"
        )
    if isinstance(model, Multimodal) and model.image_dropout:
        raise ValueError(
            f"training.consistency needs model.image_dropout: 0, got {model.image_dropout}: it would teach that the "
            "picture makes no difference"
        )


class Decoding(Strict):
    """Search: beam 1 is greedy."""

    beam: Annotated[int, Field(ge=1, le=1000), Number] = 5
    length_penalty: Annotated[float, Field(ge=-10, le=10), Number] = Field(
        1.0, description="a hypothesis scores log p / length^penalty"
    )
    nbest: Positive = 1
    length_factor: AboveZero = Field(2.0, description="longest output = factor * source pieces + extra")
    length_extra: Count = 10
    batch: BatchSize = Field(
        "8192 tokens",
        description="64 sentences | 4096 tokens; of these at most 2,048 on the CPU, unless it samples",
    )
    replace_unknown: bool = Field(
        False, description="write the source word that was looked at most for <unk> (Jean and others 2015); words only"
    )
    images: Shown | None = Field(
        None, description="the pictures shown to a multimodal model; when not given, as in its training"
    )
    sampling: bool = Field(
        False, description="draw each piece by its probability (Edunov and others 2018); beam: 1 only"
    )

    @model_validator(mode="after")
    def _samples_are_single(self) -> Self:
        if self.sampling and self.beam > 1:
            raise ValueError(f"sampling: true needs beam: 1, got {self.beam}")
        return self

    @model_validator(mode="after")
    def _nbest_fits(self) -> Self:
        if self.nbest > self.beam:
            raise ValueError(f"nbest must not exceed beam, got {self.nbest} and {self.beam}")
        return self


class Published(Strict):
    """Figures a report prints: scores on the 0 to 100 scale, and the training's negative log-likelihood (NLL)."""

    bleu: Score | None = None
    bleu1: Score | None = None
    bleu2: Score | None = None
    bleu3: Score | None = None
    ter: NonNegative | None = None
    chrf: Score | None = None
    meteor: Score | None = None
    meteor_nltk: Score | None = None
    exact: Score | None = None
    nll_train: NonNegative | None = None
    nll_valid: NonNegative | None = None

    @model_validator(mode="after")
    def _prints_one(self) -> Self:
        if not self.essence():
            raise ValueError("expected a figure, got none; give one, e.g. bleu: 34.2, or leave published out")
        return self


class AddedText(Strict):
    """Training pairs one side of which a model wrote.

    A back-translation (Sennrich and others 2016) is a source written for text of the target language. A forward
    translation is a target written for text of the source language (Zhang and Zong 2016); what an ensemble has written
    teaches one model to translate as it does (Kim and Rush 2016).
    """

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")] = Field(
        description="TABLE/SYSTEM that writes: of a back-translation one for the other way round"
    )
    at: Selection = "best"
    seed: Seed | Annotated[str, Field(pattern=r"^\d+(-\d+)+$")] = Field(
        1, description="of that system; those of an ensemble as 1-2-3"
    )
    text: Name = Field(description="the corpus whose training text is translated; it need not have the other language")
    decoding: Decoding = Decoding(beam=1)
    copies: Positive = Field(1, description="times that the true pairs are there, beside each added one once")
    tag: Annotated[str, Field(pattern=TAG)] | None = Field(
        None, description="a word that each added source begins with (Caswell and others 2019)"
    )

    @field_validator("seed")
    @classmethod
    def _each_seed_once(cls, seed: int | str) -> int | str:
        named = str(seed).split("-")
        if len(set(named)) < len(named):
            raise ValueError(f"expected different seeds, got {seed}; name each once")
        return seed

    @property
    def table(self) -> str:
        """The table of the model."""
        return self.model.split("/")[0]

    @property
    def system(self) -> str:
        """The model's system in its table."""
        return self.model.split("/")[1]

    @property
    def translated(self) -> Self:
        """What decides the translations: the same, however they are mixed in."""
        return self.model_copy(update={"copies": 1, "tag": None})


class System(Strict):
    """One trained configuration: data, subwords, model and training."""

    corpus: Name
    languages: Annotated[str, Field(pattern=r"^[a-z]{2,3}-[a-z]{2,3}$", description="source-target, e.g. en-de")]
    back_translation: AddedText | None = Field(
        None, description="pairs that are added to the training text, the source of them a translation"
    )
    forward_translation: AddedText | None = Field(None, description="the same, the target of them a translation")
    cleaning: Cleaning = Cleaning()
    subwords: Subwords = Subwords()
    word_vectors: dict[Literal["source", "target"], Name] = Field(
        {}, description="word vectors that the embeddings of a side start from, by their name in config.yaml"
    )
    model: Model = Transformer()
    training: Training
    seeds: Seeds | None = Field(None, description="when not given, config.yaml's seeds")

    @property
    def source(self) -> str:
        """Source language code."""
        return self.languages.split("-")[0]

    @property
    def target(self) -> str:
        """Target language code."""
        return self.languages.split("-")[1]

    @property
    def added(self) -> AddedText | None:
        """What is added to the training text; last, where both are: back-translations to what has forward ones."""
        return self.back_translation or self.forward_translation

    @property
    def way(self) -> Literal["back", "forward"]:
        """Which way that was translated."""
        return "back" if self.back_translation else "forward"

    @property
    def before_added(self) -> Self:
        """The same on the text that it is added to."""
        return self.model_copy(update={f"{self.way}_translation": None})

    @property
    def mixtures(self) -> list[Self]:
        """The same on each text that something is added to make: on its own first, then on what that is made of."""
        return [self, *self.before_added.mixtures] if self.added else []

    def without_added(self, **changes: object) -> Self:
        """The same on the training text alone, with other changes."""
        return self.model_copy(update={"back_translation": None, "forward_translation": None, **changes})

    @model_validator(mode="after")
    def _tying_needs_joint(self) -> Self:
        if self.model.tied == "all" and not self.subwords.joint:
            raise ValueError("model.tied: all needs subwords.joint: true")
        return self

    @model_validator(mode="after")
    def _passes_differ_by_dropout(self) -> Self:
        check_passes(self.model, self.training)
        return self

    @model_validator(mode="after")
    def _sample_is_cut_in_one_way(self) -> Self:
        if self.training.train_bleu and self.subwords.dropout:
            raise ValueError(
                "training.train_bleu would translate text that subwords.dropout has cut; leave it out, and score "
                "train_sample in a row"
            )
        return self


class Row(Strict):
    """One line of a table: a system at a checkpoint selection, decoded one way; or only a published figure."""

    label: str
    system: Name | None = Field(None, description="not given: a published figure for reference only")
    at: Selection = "best"
    ensemble: bool = Field(False, description="the models of all seeds translate together, by their mean")
    test: Name | None = Field(None, description="when not given, the table's first test set")
    decoding: Decoding = Decoding()
    published: Published | None = None
    against: str | None = Field(
        None, description="label of the row it is tested against; not given: the first of its test set that names none"
    )
    note: str | None = None


class _Shown(Strict):
    """What a table says of itself, whichever way its systems are given."""

    caption: str
    tests: Names = Field(description="test sets; rows use the first unless they name another")
    rows: list[Row] = Field(min_length=1)
    figures: Annotated[list[Figure], Different] = ["loss", "accuracy", "bleu", "learning-rate"]
    samples: Count = Field(10, description="sample translations shown")
    metrics: Annotated[list[Metric], Different] = Field(
        ["bleu", "ter", "chrf"], min_length=1, description="shown, in this order; then those that are published"
    )


def _one_of(word: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    return f"'{word}'; expected one of {', '.join(names)}{nearest(word, names)}"


class TableFile(_Shown):
    """A table as its file gives it: ``defaults`` are merged, key by key, under each system."""

    defaults: dict[str, Any] = Field(default_factory=dict, description="keys of a system")
    systems: dict[Name, dict[str, Any]]


class Table(_Shown):
    """One published table (or demonstration), as systems and rows."""

    systems: dict[Name, System]

    def test_of(self, row: Row) -> str:
        """The test set of a row."""
        return row.test or self.tests[0]

    def rows_of(self, system: str) -> list[Row]:
        """The rows that a system is behind."""
        return [row for row in self.rows if row.system == system]

    def seeds_of(self, system: str, seeds: Sequence[int]) -> Sequence[int]:
        """The seeds of a system: its own, else those of the settings."""
        return self.systems[system].seeds or seeds

    def models_of(self, row: Row, seeds: Sequence[int]) -> Sequence[int | str]:
        """The models that translate a row, one after the other: by their seeds, those of an ensemble as ``1-2-3``."""
        assert row.system is not None
        own = self.seeds_of(row.system, seeds)
        if row.ensemble and len(own) < 2:
            raise ConfigError(
                f"row '{row.label}': expected two seeds or more for an ensemble, got {list(own)}; give "
                f"systems.{row.system}.seeds, or leave out ensemble: true"
            )
        return ["-".join(map(str, own))] if row.ensemble else own

    @property
    def also(self) -> list[str]:
        """The metrics that its rows are scored by besides those that every row is."""
        return [metric for metric in ON_REQUEST if metric in self.metrics]

    @model_validator(mode="after")
    def _alignment_needs_attention(self) -> Self:
        tested = [r.system for r in self.rows if r.system in self.systems and self.test_of(r) == self.tests[0]]
        models = [self.systems[system].model for system in tested if system]
        if "alignment" in self.figures and not any(_has_attention(model) for model in models):
            raise ValueError("figures: alignment needs a system with attention, scored on the first test set")
        return self

    @property
    def looking(self) -> Row | None:
        """The first row on the first test set whose system looks at the regions of the right pictures."""
        for row in self.rows:
            model = self.systems[row.system].model if row.system in self.systems else None
            if not isinstance(model, Multimodal) or model.fusion == "gated" or model.backbone == "descriptions":
                continue
            if self.test_of(row) == self.tests[0] and (row.decoding.images or model.images) == "right":
                return row
        return None

    def attended(self, figure: Figure, seeds: Sequence[int]) -> list[tuple[Row, int | str]]:
        """The rows whose attention a figure shows, all on the first test set, each with the first model behind it.

        Of ``alignment`` the first row of each system with attention, of ``picture`` the one that is `looking`.
        """
        found: dict[str | None, Row] = {}
        if figure == "picture" and self.looking:
            found = {self.looking.system: self.looking}
        elif figure == "alignment":
            for row in self.rows:
                if row.system and self.test_of(row) == self.tests[0] and _has_attention(self.systems[row.system].model):
                    found.setdefault(row.system, row)
        return [(row, self.models_of(row, seeds)[0]) for row in found.values()]

    @model_validator(mode="after")
    def _picture_needs_regions(self) -> Self:
        if "picture" in self.figures and self.looking is None:
            raise ValueError(
                "figures: picture needs a multimodal system that looks at the regions of the right pictures, scored on "
                "the first test set"
            )
        return self

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for number, row in enumerate(self.rows):
            with at_place("rows", number):
                self._check_row(row)
                if row in self.rows[:number]:
                    raise ValueError(f"row '{row.label}' is there twice; delete one")
        for number, row in enumerate(self.rows):  # of which any may be compared with any
            with at_place("rows", number):
                self._check_comparison(row)
        return self

    def _check_row(self, row: Row) -> None:
        if row.system is not None and row.system not in self.systems:
            raise ValueError(f"row '{row.label}' names system {_one_of(row.system, self.systems)}")
        if row.system and (why := never_kept(row.at, self.systems[row.system].training)):
            raise ValueError(f"row '{row.label}' asks for '{row.at}', which is not kept: {why}")
        if row.system and (why := misfit(row.decoding, self.systems[row.system])):
            raise ValueError(f"row '{row.label}': {why}")
        if row.test is not None and row.test not in self.tests:
            raise ValueError(f"row '{row.label}' names test {_one_of(row.test, self.tests)}")
        if row.ensemble and row.system is None:
            raise ValueError(f"row '{row.label}' has no system whose models could translate together; name one")
        if row.system is None and row.published is None:
            raise ValueError(f"row '{row.label}' has neither a system nor a published figure; give one of them")

    def _check_comparison(self, row: Row) -> None:
        if row.against is None:
            return
        if row.system is None:
            raise ValueError(f"row '{row.label}' has no system, so nothing to test against '{row.against}'")
        others = [other.label for other in self.rows if other is not row and self.rivals(other, row)]
        if others.count(row.against) > 1:
            raise ValueError(f"row '{row.label}': against: several rows are called '{row.against}'; rename one")
        if row.against not in others:
            there = _one_of(row.against, others) if others else f"'{row.against}'; there is none"
            raise ValueError(f"row '{row.label}': against: no other trained row of its test set is called {there}")

    def rival(self, row: Row) -> Row | None:
        """The row that another asks to be tested against."""
        others = [other for other in self.rows if other is not row and other.label == row.against]
        return next((other for other in others if self.rivals(other, row)), None)

    def rivals(self, one: Row, other: Row) -> bool:
        """Whether the translations of two rows are of the same sentences."""
        if not (one.system and other.system) or self.test_of(one) != self.test_of(other):
            return False
        return self.systems[one.system].languages == self.systems[other.system].languages

    @model_validator(mode="after")
    def _tests_are_used(self) -> Self:
        used = {self.test_of(row) for row in self.rows}
        if unused := [test for test in self.tests if test not in used]:
            raise ValueError(f"tests: {', '.join(unused)}: no row is scored on it; leave it out")
        return self


def misfit(decoding: Decoding, system: System) -> str | None:
    """Why a system cannot translate as a decoding asks, or None if it can."""
    if decoding.replace_unknown and system.subwords.kind != "words":
        return "decoding.replace_unknown needs subwords.kind: words"
    if decoding.replace_unknown and not _has_attention(system.model):
        return "decoding.replace_unknown needs a model with attention"
    if decoding.images and system.model.kind != "multimodal":
        return "decoding.images needs model.kind: multimodal"
    return None


def never_kept(at: str, training: Training) -> str | None:
    """Why a training cannot leave the checkpoints that a selection asks for, or None if it can."""
    if at == "last":
        return None
    kind, _, rest = at.rpartition(" ") if at != "best" else ("average best", "", "1")
    number = int(rest)
    if kind == "average best":
        all_kept = training.keep_last is None and training.validate_every == training.checkpoint_every
        if number > training.keep_best and not all_kept:
            return f"training.keep_best is {training.keep_best}; raise it to {number}"
        return _too_few(number, "validate_every", training.validate_every, training)
    if kind == "average":
        if training.keep_last is not None and number > training.keep_last:
            return f"training.keep_last is {training.keep_last}; raise it to {number}"
        return _too_few(number, "checkpoint_every", training.checkpoint_every, training)
    return _never_saved(number, f"{kind}s", training) or _deleted_again(number, f"{kind}s", training)


def _ends(training: Training, unit: str) -> int | None:
    return training.epochs if unit == "epochs" else training.updates


def _too_few(number: int, name: str, interval: str, training: Training) -> str | None:
    """Why so many checkpoints are never saved, at this interval of the training."""
    every, unit = amount(interval)
    end = _ends(training, unit)
    if end is None or number <= (there := math.ceil(end / every)):
        return None
    how = f"{end} {unit} with training.{name}: {interval} leave {there}"
    return f"{how}; ask for no more, or raise training.{unit}"


def _never_saved(number: int, unit: str, training: Training) -> str | None:
    """Why no checkpoint is saved after so many epochs or updates."""
    (every, counted), end = amount(training.checkpoint_every), _ends(training, unit)
    if end is not None and number > end:
        return f"training ends after {end} {unit}; raise training.{unit}"
    if counted == unit and number % every and number != end:
        return f"training.checkpoint_every is {training.checkpoint_every}; choose a divisor of {number}"
    return None


def _deleted_again(number: int, unit: str, training: Training) -> str | None:
    """Why the checkpoint after so many epochs or updates is gone at the end, where it is known when that is."""
    (every, counted), end = amount(training.checkpoint_every), _ends(training, unit)
    known = counted == unit and [training.epochs, training.updates, training.patience].count(None) == 2
    if not known or end is None or training.keep_last is None or number == end:
        return None
    newer = end // every - number // every
    return (
        f"training.keep_last is {training.keep_last}; raise it to {newer + 1}" if newer >= training.keep_last else None
    )


def _at_home(path: Path) -> Path:
    """``~`` replaced by a user's home."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"expected a path, got {path}: {error}") from None


UserPath = Annotated[Path, AfterValidator(_at_home)]
"""A path as users write it, ``~`` for their home."""


class CustomCorpus(Strict):
    """A user's own text: for each split, one UTF-8 (or gzip) file a language, line by line.

    Parallel; or in one language and without ``valid``, to be translated for `AddedText`.
    """

    train: dict[Language, UserPath]
    valid: dict[Language, UserPath] = {}
    tests: dict[Name, dict[Language, UserPath]] = {}
    licence: str = "not stated"


class Images(Strict):
    """The pictures of a corpus: a folder of them and a list of names a split, or features that are there already."""

    folder: UserPath | None = Field(None, description="of the pictures")
    lists: dict[Name, UserPath] = Field(
        {}, description="for each split a file of their names, line by line as its text"
    )
    missing: Literal["refuse", "blank"] = Field("refuse", description="what to do about pictures that cannot be read")
    weights: UserPath | None = Field(
        None, description="a file of the backbone's weights, where it cannot be downloaded"
    )
    features: UserPath | None = Field(None, description="a folder of arrays instead, train.npy and so on, a row a line")

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if (self.features is None) == (self.folder is None):
            raise ValueError("expected either folder, with lists, or features")
        return self


class Tracking(Strict):
    """Where MLflow keeps runs."""

    uri: str | None = Field(None, description="a server; else MLFLOW_TRACKING_URI, else sqlite below results/")
    live: bool = Field(True, description="follow trainings while they run")


def _or_none(value: Any) -> Any:
    return None if value == "none" else value


class Shards(Strict):
    """Jobs that share out one file's cleaning, encoding or translation; a further one joins what they did."""

    clean: Positive = 1
    encode: Positive = 1
    decode: Positive = 1


class Workflow(Strict):
    """config.yaml: what to build, and on what."""

    tables: Names
    seeds: Seeds = [1]
    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: Positive = Field(1, description="of each training; on GPUs each takes one (docs/several-processes.md)")
    shards: Shards = Field(Shards(), description="jobs that share out one file (docs/large-corpora.md)")
    mirror: UserPath | None = Field(
        None, description="folder laid out as nmt/corpora/corpora.yaml says under mirror; else NMT_MIRROR, else URLs"
    )
    limit: Positive | None = Field(
        None, description="cut every split to its first lines, which its sources share, for a trial"
    )
    results: UserPath = Path("results")
    tracking: Tracking = Tracking()
    corpora: dict[Name, CustomCorpus] = {}
    images: dict[Name, Images] = Field({}, description="the pictures of corpora, by the corpus's name")
    word_vectors: dict[Name, Annotated[UserPath | None, BeforeValidator(_or_none)]] = Field(
        {}, description="files of them; none: do without where tables name them"
    )

    @field_validator("results", "mirror")
    @classmethod
    def _plain_path(cls, value: Path | None) -> Path | None:
        if value is not None and not re.fullmatch(r"[\w./~+@:,=-]+", str(value)):
            raise ValueError(
                f"expected a path of letters, digits and . / _ - + @ : , = ~ without spaces, got '{value}'; "
                "it is written into command lines"
            )
        return value


def check_name(name: str, where: str) -> None:
    """Raise a ConfigError if a name that becomes part of paths and commands has more than letters, digits, _ . -"""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise ConfigError(f"{where}: expected a name of letters, digits, _ . -, got '{name}'") from None


def check_selection(at: str) -> None:
    """Raise a ConfigError if ``at`` is not a checkpoint selection."""
    try:
        TypeAdapter(Selection).validate_python(at)
    except ValidationError:
        allowed = "last, best, epoch N, update N, average N or average best N"
        raise ConfigError(f"at: expected {allowed}, got '{at}'") from None


def digest(value: Any) -> str:
    """Eight hexadecimal digits that depend on every part of a JSON value."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def amount(text: str) -> tuple[int, str]:
    """Split a checked quantity: ``"64 sentences"`` → ``(64, "sentences")``."""
    number, unit = text.split()
    return int(number), unit


def load_table(path: Path) -> Table:
    """Read a table file; its ``defaults`` are merged, key by key, under each of its systems."""
    text = read_config(path)
    value = load_yaml(text, str(path))
    if isinstance(value, dict) and isinstance(value.get("systems"), dict):
        defaults = value.pop("defaults", None) or {}
        if not isinstance(defaults, dict):
            raise ConfigError(f"{path}: defaults: expected keys and their values, got {json.dumps(defaults)[:200]}")
        value["systems"] = {
            name: _merge(defaults, system) if system else defaults for name, system in value["systems"].items()
        }
    return validate(Table, value, text, str(path))


def _merge(base: Any, over: Any, key: str = "") -> Any:
    """``over`` laid on ``base``: mappings merge key by key, everything else is replaced.

    So is a mapping by an empty one, and a model by one of another kind, which has other keys.
    """
    if not isinstance(base, dict) or not isinstance(over, dict) or not over:
        return over
    if key == "model" and over.get("kind") not in (None, base.get("kind", Transformer().kind)):
        return over
    return base | {name: _merge(base[name], value, name) if name in base else value for name, value in over.items()}
