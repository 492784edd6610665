"""``config.yaml``: what to build, and on what."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    field_validator,
)

from nmt.config.data import CustomCorpus, Images
from nmt.config.types import Name, Names, Positive, Seeds, Strict, UserPath


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
