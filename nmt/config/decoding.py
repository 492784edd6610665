"""Configuration of search."""

from typing import Annotated, Self

from pydantic import (
    Field,
    model_validator,
)

from nmt.config.models import Shown
from nmt.config.types import AboveZero, BatchSize, Count, Number, Positive, Strict


class Decoding(Strict):
    """How a model translates: beam search, greedy search or sampling."""

    beam: Annotated[int, Field(ge=1, le=1000), Number] = Field(
        5, description="hypotheses kept at each step; 1 is greedy search"
    )
    length_penalty: Annotated[float, Field(ge=-10, le=10), Number] = Field(
        1.0, description="a hypothesis scores log p / length^penalty"
    )
    nbest: Positive = Field(1, description="translations per sentence; at most beam")
    length_factor: AboveZero = Field(2.0, description="longest output = length_factor · source pieces + length_extra")
    length_extra: Count = Field(10, description="see length_factor")
    batch: BatchSize = Field(
        "8192 tokens",
        description="sentences or tokens translated at a time; on the CPU at most 2,048 tokens, except for sampling",
    )
    replace_unknown: bool = Field(
        False,
        description="replace <unk> by the source word with the most attention (Jean and others 2015); kind: words only",
    )
    images: Shown | None = Field(None, description="pictures shown to a multimodal model; null: as in its training")
    sampling: bool = Field(
        False, description="draw each piece by its probability (Edunov and others 2018); needs beam: 1"
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
