"""``config.yaml``: which tables to build, and where to compute."""

import re
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Images
from nmt.config.types import Name, Names, Positive, Seeds, Strict, UserPath
from nmt.system.errors import ConfigError

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", 'Field name "register"')  # it hides a method of classes that nothing here calls

    class Tracking(Strict):
        """Where MLflow keeps runs, and what becomes of their models."""

        uri: str | None = Field(
            None,
            description="an MLflow server, http://host:5000; null: the variable MLFLOW_TRACKING_URI, else a sqlite "
            "file below results/",
        )
        live: bool = Field(True, description="show a training while it runs; false: only when it is done")
        models: bool = Field(
            True, description="keep a copy of the model of each row; false: only where it is, and its scores"
        )
        register: Name | None = Field(
            None, description="registered model; the model of each table's best row becomes its next version"
        )


class CometSettings(Strict):
    """The checkpoint of COMET or COMET-Kiwi, for the targets comet_TABLE."""

    checkpoint: UserPath | None = Field(
        None, description="file of the checkpoint, checkpoints/model.ckpt of a metric of unbabel-comet"
    )
    python: UserPath = Field(
        Path(".comet/bin/python"), description="Python of an environment with unbabel-comet; the default is made here"
    )

    def given(self) -> Path:
        """Return the checkpoint; raises ConfigError without one."""
        if self.checkpoint is None or not self.checkpoint.is_file():
            raise ConfigError(
                f"config.yaml: comet.checkpoint: expected the file of a checkpoint, got {self.checkpoint or 'none'}; "
                "docs/how-to/comet.md says where to get one"
            )
        return self.checkpoint


def _or_none(value: Any) -> Any:
    return None if value == "none" else value


class Shards(Strict):
    """Number of jobs that share one file. The number changes no result."""

    clean: Positive = Field(1, description="jobs that clean one corpus")
    encode: Positive = Field(1, description="jobs that encode one corpus")
    decode: Positive = Field(1, description="jobs that translate one test set")


class Workflow(Strict):
    """Which tables to build, and where to compute: config.yaml."""

    tables: Names = Field(description="tables to build: names of files in workflow/tables/")
    seeds: Seeds = Field([1], description="every system is trained once per seed; a system can name its own seeds")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="where to train and translate; auto: a GPU if there is one; cuda: stop if there is none"
    )
    processes: Positive = Field(
        1, description="processes of each training; on GPUs each takes one (docs/how-to/several-processes.md)"
    )
    shards: Shards = Field(Shards(), description="jobs that share one large file (docs/how-to/large-corpora.md)")
    mirror: UserPath | None = Field(
        None,
        description="folder that holds the corpora's files (docs/how-to/no-network.md); null: the variable NMT_MIRROR, "
        "else downloads",
    )
    limit: Positive | None = Field(
        None, description="keep only this many lines of every split, for a trial; several sources share them"
    )
    strict: bool = Field(
        False, description="true: a run whose results have warnings fails at its end (docs/how-to/warnings.md)"
    )
    results: UserPath = Field(Path("results"), description="folder that everything is written to")
    shared_results: UserPath | None = Field(
        None,
        description="results folder of others, used and never written (docs/how-to/shared-results.md); null: the "
        "variable NMT_SHARED_RESULTS if set",
    )
    container: str | None = Field(
        None, description="image in which jobs run with `snakemake --sdm apptainer` (docs/how-to/containers.md)"
    )
    tracking: Tracking = Field(Tracking(), description="MLflow")
    corpora: dict[Name, CustomCorpus] = Field(
        {}, description="your own text, by a name of your choosing (docs/how-to/own-corpus.md)"
    )
    images: dict[Name, Images] = Field(
        {}, description="pictures of corpora, by the corpus's name (docs/how-to/images.md)"
    )
    comet: CometSettings = Field(CometSettings(), description="COMET (docs/how-to/comet.md)")
    word_vectors: dict[Name, Annotated[UserPath | None, BeforeValidator(_or_none)]] = Field(
        {},
        description="files of word vectors (GloVe or word2vec text format), by the names that tables use; none: "
        "embeddings start at random",
    )

    @field_validator("results", "mirror", "shared_results")
    @classmethod
    def _plain_path(cls, value: Path | None) -> Path | None:
        if value is not None and not re.fullmatch(r"[\w./~+@:,=-]+", str(value)):
            raise ValueError(
                f"expected a path of letters, digits and . / _ - + @ : , = ~ without spaces, got '{value}'; "
                "command lines contain this path"
            )
        return value

    @property
    def device_resources(self) -> dict[str, Any]:
        """What a job that computes on tensors claims of a machine: a GPU unless the settings say ``device: cpu``."""
        return {"device": self.device} | ({} if self.device == "cpu" else {"gpu": 1})

    @property
    def training_resources(self) -> dict[str, Any]:
        """What a training claims: one GPU for each process; in a SLURM job, one task, which srun starts."""
        gpus = {} if self.device == "cpu" else {"gpu": self.processes}
        tasks = {"tasks": self.processes, "mpi": "srun"} if self.processes > 1 else {}
        return self.device_resources | gpus | tasks
