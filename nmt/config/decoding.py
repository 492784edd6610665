"""Configuration of search."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nmt.config.choices import Engine
from nmt.config.models import Shown
from nmt.config.types import AboveZero, BatchSize, Count, NonNegative, Number, Positive, Seed, Strict

FOR_SAMPLING = ("temperature", "top_k", "top_p", "samples", "mbr", "seed")


class Decoding(Strict):
    """How a model translates: beam search, greedy search or sampling."""

    beam: Annotated[int, Field(ge=1, le=1000), Number] = Field(
        5, description="hypotheses kept at each step; 1 is greedy search"
    )
    length_penalty: Annotated[float, Field(ge=-10, le=10), Number] = Field(
        1.0, description="a hypothesis scores log p / length^penalty"
    )
    length_reward: Annotated[float, Field(ge=-10, le=10), Number] = Field(
        0.0,
        description="added to the score for each piece of a hypothesis (He and others 2016); with length_penalty: 0 it "
        "is an addition to log p",
    )
    nbest: Positive = Field(1, description="translations per sentence; at most beam, or with sampling at most samples")
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
    temperature: Annotated[float, Field(ge=0.001, le=100), Number] = Field(
        1.0,
        description="sampling: probabilities are those of log p / temperature; below 1 likely pieces become likelier",
    )
    top_k: Positive | None = Field(
        None, description="sampling: draw among so many most likely pieces (Fan and others 2018); null: among all"
    )
    top_p: Annotated[float, Field(gt=0, le=1), Number] = Field(
        1.0,
        description="sampling: draw among the fewest most likely pieces whose probabilities sum to at least top_p, the "
        "nucleus (Holtzman and others 2020)",
    )
    samples: Annotated[int, Field(ge=1, le=1000), Number] = Field(
        1, description="sampling: translations drawn for each sentence; nbest of them are returned"
    )
    mbr: Literal["chrf", "bleu"] | None = Field(
        None,
        description="sampling: choose the sample with the highest mean chrF or BLEU against all samples, the minimum "
        "Bayes risk (Eikema and Aziz 2020); its score is this mean. null: the sample with the highest score",
    )
    seed: Seed = Field(0, description="sampling: another seed draws other samples")
    prefix: str = Field("", description="text that every translation begins with")
    min_length: Count = Field(0, description="fewest pieces of a translation, without EOS")
    no_repeat_ngram: Positive | None = Field(
        None, description="no sequence of so many pieces occurs twice in a translation (Paulus and others 2018)"
    )
    coverage_penalty: NonNegative = Field(
        0.0,
        description="beam search: add to a finished hypothesis' score this number times the sum over the source pieces "
        "of log min(attention, 1), where attention is a piece's sum over all steps (Wu and others 2016, eq. 14)",
    )
    engine: Engine = Field(
        "torch",
        description="the program that searches. ctranslate2: CTranslate2, which is faster, for greedy and beam search "
        "by Transformers on the CPU. auto: CTranslate2 where it is installed and can do the search, else torch",
    )

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.sampling and self.beam > 1:
            raise ValueError(f"sampling: true needs beam: 1, got {self.beam}")
        if unused := [key for key in FOR_SAMPLING if key in self.non_defaults() and not self.sampling]:
            raise ValueError(f"{unused[0]} needs sampling: true, got false; give both, or leave {unused[0]} out")
        if self.mbr and self.samples < 2:
            raise ValueError(f"mbr: {self.mbr} chooses among samples; it needs samples: 2 or more, got {self.samples}")
        if self.coverage_penalty and self.beam < 2:
            raise ValueError(f"coverage_penalty chooses among hypotheses; it needs beam: 2 or more, got {self.beam}")
        return self

    @model_validator(mode="after")
    def _nbest_fits(self) -> Self:
        limit = "samples" if self.sampling else "beam"
        if self.nbest > getattr(self, limit):
            raise ValueError(f"nbest must not exceed {limit}, got {self.nbest} and {getattr(self, limit)}")
        return self
