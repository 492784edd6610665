"""What a job claims of a machine, as resources of its rule."""

from typing import Any

from nmt.config.workflow import Workflow


def device_resources(settings: Workflow) -> dict[str, Any]:
    """The device of a job that computes on tensors; it claims a GPU unless the settings say ``device: cpu``."""
    gpu = {} if settings.device == "cpu" else {"gpu": 1}
    return {"device": settings.device} | gpu


def training_resources(settings: Workflow) -> dict[str, Any]:
    """The resources of a training: one GPU for each process; in a SLURM job, one task, which srun starts."""
    device, processes = device_resources(settings), settings.processes
    gpus = {"gpu": processes} if "gpu" in device else {}
    tasks = {"tasks": processes, "mpi": "srun"} if processes > 1 else {}
    return device | gpus | tasks
