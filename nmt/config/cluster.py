"""A SLURM cluster as ``cluster.yaml`` describes it, and the resources that the jobs of profiles/slurm request."""

import sys
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from nmt.config.types import Strict, matching
from nmt.config.yaml import load
from nmt.system.errors import ConfigError

FILE = Path("cluster.yaml")

Word = Annotated[str, matching(r"^[A-Za-z0-9][A-Za-z0-9_.,+-]*$", "letters, digits, _ . , + -")]
Features = Annotated[
    str, matching(r"^[A-Za-z0-9_.|&*()\[\]-]+$", "features as sbatch --constraint has them: a100|h100")
]
Gres = Annotated[str, matching(r"^gpu(:[A-Za-z0-9_.]+)?:[1-9]\d*$", "gpu:1, or with the model gpu:a100:1")]


class Gpu(Strict):
    """The resources that a job with a GPU requests."""

    gres: Gres = Field("gpu:1", description="GPUs per job, with the model where the cluster has several")
    partition: Word | None = Field(None, description="partition of GPU jobs; null: that of every job")
    constraint: Features | None = Field(None, description="features that GPU nodes must have; null: as for every job")


class Cluster(Strict):
    """Your SLURM cluster: cluster.yaml. The cluster's own defaults apply to every key that is null."""

    account: Word | None = Field(None, description="account that pays for the jobs")
    partition: Word | None = Field(None, description="partition of the jobs; several with commas between")
    qos: Word | None = Field(None, description="quality of service, where the cluster asks for one")
    constraint: Features | None = Field(None, description="features that nodes must have")
    gpu: Gpu | None = Field(None, description="GPUs of trainings and translations; null: everything runs on CPUs")

    @classmethod
    def here(cls) -> Self:
        """Read cluster.yaml in the current folder; without that file, the cluster's own defaults apply.

        Raises:
            SystemExit: the file has a wrong key or value. Snakemake would print any other error among its options.
        """
        try:
            return load(cls, FILE) if FILE.exists() else cls()
        except ConfigError as error:
            sys.exit(f"snakemake: {error}")

    @property
    def every_job(self) -> dict[str, str]:
        """The resources of every job, by the names of Snakemake's SLURM plugin."""
        return _quoted(
            {
                "slurm_account": self.account,
                "slurm_partition": self.partition,
                "qos": self.qos,
                "constraint": self.constraint,
            }
        )

    @property
    def gpu_job(self) -> dict[str, Any]:
        """The resources of the jobs that can compute on a GPU."""
        if self.gpu is None:
            return {"gpu": 0}
        resources = {"gres": self.gpu.gres, "slurm_partition": self.gpu.partition, "constraint": self.gpu.constraint}
        return {"gpu": 0} | _quoted(resources)  # the rules' own gpu: 1 would request a second GPU beside gres


def _quoted(resources: dict[str, str | None]) -> dict[str, str]:
    """Drop null values and quote the others, because Snakemake evaluates unquoted ones."""
    return {key: repr(value) for key, value in resources.items() if value is not None}
