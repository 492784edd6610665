"""Configuration of a training: batches, optimiser, learning rate, checkpoints, end."""

from typing import Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from nmt.config.models import MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.config.types import AboveZero, BatchSize, Count, Interval, NonNegative, Positive, Probability, Strict

#: The keys of a training that end it: unless rates or losses depend on them they are no part of what it is, so it can
#: go on when they change.
ENDS = ("epochs", "updates", "patience")


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


def check_passes(model: TransformerConfig | RecurrentConfig | MultimodalConfig, training: Training) -> None:
    """Raise ValueError where the passes of `Consistency` would differ by other things than dropout, or by nothing."""
    if training.consistency is None:
        return
    if not any(model.dropout.model_dump().values()):
        raise ValueError(
            "training.consistency needs dropout, got 0 everywhere in model.dropout: both passes would be alike; "
            "give some, or leave consistency out"
        )
    if isinstance(model, RecurrentConfig) and model.teacher_forcing < 1:
        raise ValueError(
            f"training.consistency needs model.teacher_forcing: 1, got {model.teacher_forcing}: its passes would feed "
            "different words"
        )
    if isinstance(model, MultimodalConfig) and model.image_dropout:
        raise ValueError(
            f"training.consistency needs model.image_dropout: 0, got {model.image_dropout}: it would teach that the "
            "picture makes no difference"
        )
