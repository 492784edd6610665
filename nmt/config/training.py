"""Configuration of a training: batches, optimiser, learning rate, checkpoints, end."""

from collections.abc import Collection, Iterable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from nmt.config.models import BaseTransformerConfig, ModelConfig, MultimodalConfig, RecurrentConfig, has_attention
from nmt.config.problems.words import nearest
from nmt.config.types import (
    AboveZero,
    BatchSize,
    Count,
    Different,
    Interval,
    Name,
    NonNegative,
    Number,
    Positive,
    Probability,
    Strict,
)
from nmt.system.errors import at_place

#: The keys that end a training. They do not identify it unless rates or losses depend on them: a finished training can
#: continue when only they change.
ENDS = ("epochs", "updates", "patience")


Part = Literal["encoder", "decoder", "embeddings"]
"""A part of a model that can be frozen; each parameter is of one part."""


class Optimizer(Strict):
    """Adam (Kingma and Ba 2015); adamw decouples the weight decay (Loshchilov and Hutter 2019).

    muon (Jordan and others 2024) makes the momentum of the matrices between hidden units orthogonal; the rest is AdamW.
    """

    kind: Literal["adam", "adamw", "muon"] = Field("adam", description="optimiser")
    betas: tuple[Probability, Probability] = Field((0.9, 0.98), description="decay rates of Adam's two moments")
    epsilon: AboveZero = Field(1e-9, description="Adam's epsilon")
    weight_decay: NonNegative = Field(0.0, description="weight decay; with adam an L2 penalty")
    momentum: Probability = Field(0.95, description="momentum of muon")

    @model_validator(mode="after")
    def _momentum_needs_muon(self) -> Self:
        if self.kind != "muon" and "momentum" in self.non_defaults():
            raise ValueError(
                f"momentum is for kind: muon only, got {self.momentum} with kind: {self.kind}, whose momentum is the "
                "first of betas; leave it out, or choose kind: muon"
            )
        return self


class Schedule(Strict):
    """Learning rate by update: linear warm-up from ``initial`` to ``peak``, then the named decay."""

    kind: Literal["inverse-sqrt", "constant", "cosine"] = Field("inverse-sqrt", description="decay after the warm-up")
    peak: AboveZero | None = Field(
        None, description="rate after the warm-up; null: (width · warmup)^-0.5 (Vaswani and others 2017, eq. 3)"
    )
    warmup: Count = Field(4000, description="updates of the warm-up")
    initial: NonNegative = Field(0.0, description="rate at the start of the warm-up")
    cooldown: Count = Field(0, description="last updates, in which a further factor falls from 1 to 0")

    @property
    def depends_on_end(self) -> bool:
        """Whether the rates depend on the number of the last update."""
        return self.kind == "cosine" or self.cooldown > 0

    @model_validator(mode="after")
    def _decays_once(self) -> Self:
        if self.kind == "cosine" and self.cooldown:
            raise ValueError(f"kind: cosine falls to 0 by itself; leave cooldown out, got {self.cooldown}")
        return self


class Consistency(Strict):
    """R-Drop (Liang and others 2021): two passes with different dropout, and a loss on their divergence."""

    weight: AboveZero = Field(5.0, description="weight of the mean divergence; alpha in the paper")
    last: Positive | None = Field(None, description="number of last updates that apply it; null: all updates")


class GuidedAlignment(Strict):
    """A loss on the attention of one decoder layer over the source, against given alignments (Garg and others 2019).

    It is the cross-entropy, at each target piece with a link, between the attention and an even distribution over the
    linked source pieces (Chen and others 2016).
    """

    weight: AboveZero = Field(0.05, description="weight of this loss beside the translation loss")
    layer: Positive | None = Field(None, description="decoder layer, from 1; null: the last but one")
    head: Positive | None = Field(None, description="attention head, from 1; null: the mean of all heads")


def _weight_kind(value: Any) -> str:
    return "<map>" if isinstance(value, dict) else "<number>"


Weight = Annotated[
    Annotated[AboveZero, Tag("<number>")] | Annotated[dict[Count, AboveZero], Tag("<map>")], Discriminator(_weight_kind)
]
"""A constant weight, or weights by the number of updates after which they begin."""


class Training(Strict):
    """The training loop. Give epochs or updates, or both."""

    batch: BatchSize = Field(
        "4096 tokens", description="size of a batch; tokens: sentences times the longest sentence of either side"
    )
    accumulate: Positive = Field(1, description="batches per update")
    pair_temperature: Annotated[float, Field(ge=1, le=1e30), Number] = Field(
        1.0,
        description="of a system with several pairs of languages: temperature T of sampling; a pair with n sentences "
        "is drawn in proportion to n^(1/T) (Arivazhagan and others 2019); 1: each sentence once in an epoch",
        exclude_if=lambda value: value == 1,
    )
    mixing: dict[Name, Weight] = Field(
        {},
        description="how often sentences of each named part of the training text are drawn, or of each pair of "
        "languages: in proportion to these weights; {0: 3, 20000: 1} changes a weight after 20,000 updates "
        "(docs/how-to/mix-corpora.md); {}: each sentence once in an epoch",
        exclude_if=lambda value: not value,
    )
    epochs: Positive | None = Field(None, description="stop after this many passes over the training text")
    updates: Positive | None = Field(
        None, description="stop after this many updates; with epochs: whichever comes first"
    )
    optimizer: Optimizer = Field(Optimizer(), description="optimiser")
    schedule: Schedule = Field(Schedule(), description="learning rate")
    freeze: Annotated[list[Part], Different] = Field(
        [],
        description="parts of the model that keep their first values; an output projection is of the embeddings if it "
        "is tied to them, else of the decoder (docs/how-to/fine-tune.md)",
    )
    label_smoothing: Probability = Field(0.0, description="label smoothing (Szegedy and others 2016)")
    consistency: Consistency | None = Field(None, description="R-Drop; null: one pass per sentence")
    guided_alignment: GuidedAlignment | None = Field(
        None,
        description="teach the attention the alignments of the training text, which `alignments` of the system gives "
        "(docs/how-to/align.md); null: no such loss",
    )
    loss_mean: Literal["pieces", "sentences"] = Field(
        "pieces", description="what the loss is a mean over; sentences: the mean of each sentence's mean"
    )
    clip: AboveZero | None = Field(None, description="largest norm of the gradient; null: no clipping")
    checkpoint_every: Interval = Field("1 epochs", description="interval of checkpoints")
    validate_every: Interval = Field("1 epochs", description="interval of validations")
    validation_bleu: bool = Field(True, description="translate the validation set greedily at each validation")
    train_bleu: Count = Field(0, description="training sentences to translate at each validation, for their BLEU")
    monitor: Literal["loss", "bleu"] = Field("loss", description="what decides which checkpoint is best, on validation")
    patience: Positive | None = Field(
        None, description="end after this many validations in a row without improvement of `monitor`; null: never"
    )
    keep_last: Positive | None = Field(None, description="newest checkpoints to keep; null: all")
    keep_best: Count = Field(1, description="best checkpoints to keep in addition")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="number format of the computation; a machine without instructions for bf16 computes in fp32"
    )
    activation_checkpointing: bool = Field(
        False,
        description="keep only the inputs of each layer and compute the rest again in the backward pass: less memory, "
        "slower by 40 to 50 % on a CPU; the losses stay the same",
    )
    on_nan: Literal["stop", "skip"] = Field(
        "stop",
        description="what to do at a gradient with NaN or infinity; stop: save the batch and end; skip: leave out the "
        "update and count it, at most ten in a row",
    )

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.epochs is None and self.updates is None:
            raise ValueError("epochs or updates must be given, otherwise training would never end")
        if self.monitor == "bleu" and not self.validation_bleu:
            raise ValueError("monitor: bleu needs validation_bleu: true")
        if self.consistency and self.loss_mean == "sentences":
            raise ValueError("consistency needs loss_mean: pieces, got sentences; leave one of them out")
        return self

    @model_validator(mode="after")
    def _something_is_trained(self) -> Self:
        if len(self.freeze) == len(get_args(Part)):
            raise ValueError("freeze names all parts, so nothing is left to train; leave one out")
        return self

    @model_validator(mode="after")
    def _reaches_last_updates(self) -> Self:
        for key, last in (
            ("schedule.cooldown", self.schedule.cooldown),
            ("consistency.last", self.consistency and self.consistency.last),
        ):
            if last and self.patience is not None:
                raise ValueError(
                    f"patience can end the training before the last updates, where {key} applies; leave one of them "
                    f"out, got {self.patience} and {last}"
                )
            if last and self.updates is not None and last > self.updates:
                raise ValueError(f"{key} must not exceed updates, got {last} and {self.updates}")
        return self

    @model_validator(mode="after")
    def _epochs_have_one_length(self) -> Self:
        if self.pair_temperature > 1 and self.epochs is not None:
            raise ValueError(
                f"pair_temperature: {self.pair_temperature:g} draws other sentences in each epoch, so the number of "
                "updates varies; give updates in place of epochs"
            )
        return self

    @model_validator(mode="after")
    def _mixes_from_the_start(self) -> Self:
        for name, weight in self.mixing.items():
            with at_place("mixing", name):
                if isinstance(weight, dict) and 0 not in weight:
                    raise ValueError(f"expected a weight from the start, got none for update 0; add 0: to {weight}")
                last = max(weight) if isinstance(weight, dict) else 0
                if last and self.updates is not None and last >= self.updates:
                    raise ValueError(f"expected changes before the end, updates: {self.updates}, got one at {last}")
        if self.mixing and self.epochs is not None:
            raise ValueError(
                "mixing draws other sentences in each epoch, so the number of updates varies; give updates in place "
                "of epochs"
            )
        if self.mixing and self.pair_temperature > 1:
            raise ValueError(f"mixing and pair_temperature: {self.pair_temperature:g} exclude each other; give one")
        return self

    @property
    def mixing_changes(self) -> list[int]:
        """The numbers of updates after which weights of ``mixing`` change."""
        maps = (weight for weight in self.mixing.values() if isinstance(weight, dict))
        return sorted({update for weight in maps for update in weight if update})

    def mixing_after(self, updates: int) -> dict[str, float]:
        """Return the weights of ``mixing`` after so many updates."""
        return {
            name: weight[max(start for start in weight if start <= updates)] if isinstance(weight, dict) else weight
            for name, weight in self.mixing.items()
        }

    @property
    def depends_on_end(self) -> bool:
        """Whether rates or losses depend on the number of the last update."""
        return self.schedule.depends_on_end or bool(self.consistency and self.consistency.last)

    def consistency_of(self, update: int, total: int) -> float:
        """Return the weight of the divergence in an update, counted from 1; 0 if each sentence passes only once."""
        if self.consistency is None or update <= total - (self.consistency.last or total):
            return 0.0
        return self.consistency.weight


def check_mixing(mixing: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError unless the weights of ``training.mixing`` are of exactly these parts of the training text."""
    for name in mixing:
        if name not in known:
            raise ValueError(
                f"training.mixing: no corpus '{name}'{nearest(name, list(known))}; expected weights of "
                f"{', '.join(known)}"
            )
    if missing := [name for name in known if name not in mixing]:
        raise ValueError(f"training.mixing: expected a weight of {', '.join(missing)} too, got none; add it")


def check_passes(model: ModelConfig, training: Training) -> None:
    """Raise ValueError unless the two passes of `Consistency` differ by dropout and by nothing else."""
    if training.consistency is None:
        return
    if not any(model.dropout.model_dump().values()):
        raise ValueError(
            "training.consistency needs dropout, got 0 everywhere in model.dropout: both passes would be the same; "
            "give dropout, or leave consistency out"
        )
    if isinstance(model, RecurrentConfig) and model.teacher_forcing < 1:
        raise ValueError(
            f"training.consistency needs model.teacher_forcing: 1, got {model.teacher_forcing}: the two passes would "
            "be fed different words"
        )
    if isinstance(model, MultimodalConfig) and model.image_dropout:
        raise ValueError(
            f"training.consistency needs model.image_dropout: 0, got {model.image_dropout}: the model would learn to "
            "ignore the picture"
        )


def check_activation_checkpointing(model: ModelConfig, training: Training) -> None:
    """Raise ValueError if layers that cannot be computed again should be."""
    if training.activation_checkpointing and not isinstance(model, BaseTransformerConfig):
        raise ValueError(
            f"training.activation_checkpointing needs a Transformer, got model.kind: {model.kind}; leave it out"
        )


def check_guided(model: ModelConfig, training: Training) -> None:
    """Raise ValueError unless the model has the attention that `GuidedAlignment` names."""
    guided = training.guided_alignment
    if guided is None:
        return
    if not has_attention(model):
        raise ValueError("training.guided_alignment needs a model with attention, got one without; leave it out")
    for key, most in zip(("layer", "head"), model.source_attentions, strict=True):
        if (number := getattr(guided, key)) and number > most:
            raise ValueError(f"training.guided_alignment.{key}: expected 1 to {most}, got {number}")
