"""Configuration of search."""

from typing import Annotated, Self

from pydantic import (
    Field,
    model_validator,
)

from nmt.config.models import Shown
from nmt.config.types import AboveZero, BatchSize, Count, Number, Positive, Strict


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
