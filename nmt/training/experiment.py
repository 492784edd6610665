"""What a training is asked to do, and when two trainings are the same."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from nmt.config.models import ModelConfig, TransformerConfig
from nmt.config.training import ENDS, Training, check_activation_checkpointing, check_guided, check_passes
from nmt.config.types import SHA256, Strict, matching


class Experiment(Strict):
    """The configuration of one training: its model and its training loop."""

    model: ModelConfig = TransformerConfig()
    training: Training = Field(description="the training loop")
    initialise: Annotated[str, matching(SHA256, "64 hexadecimal digits")] | None = Field(
        None, description="checksum that the weights of --initialise must have; null: any"
    )

    @model_validator(mode="after")
    def _losses_fit_the_model(self) -> Self:
        check_passes(self.model, self.training)
        check_activation_checkpointing(self.model, self.training)
        check_guided(self.model, self.training)
        return self

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Return whether a ``training.json`` has this configuration; fields that were added later do not count."""
        try:
            return Experiment.model_validate(record["config"]).non_defaults() == self.non_defaults()
        except ValidationError:  # the record has fields or values that no longer exist
            return False


def identity(config: Experiment, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return what must be equal for one training to resume from the state of another.

    The end of the training counts only if learning rates or losses depend on it.

    Args:
        config: the configuration.
        inputs: the seed, the checksums of the data and the like; a key ``config`` is replaced.
    """
    non_defaults = config.non_defaults()
    if not config.training.depends_on_end:
        for end in ENDS:
            non_defaults["training"].pop(end, None)
    return inputs | {"config": non_defaults}
