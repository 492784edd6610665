"""One training by several processes, which torchrun or srun starts.

Each process takes its share of the sentences of every batch. One all-reduce sums the gradients after the backward pass.
`DistributedDataParallel` does not fit: it takes means over processes, but the loss is a mean over the update's target
pieces; it also needs every process to use every parameter, but a process without a sentence uses none.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from nmt.system.errors import DataError, first_line

START_TIMEOUT = timedelta(minutes=10)  # for all processes to start
TIMEOUT = timedelta(hours=6)  # for each other; the end of a process is noticed at once
FAILURE_SECONDS = 2.0  # within which all processes fail if they fail together

Value = TypeVar("Value")


class LostProcess(DataError):
    """Another process has ended, or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training, seen from one of them. All must call the same methods in the same order."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and messages."""
        return self.rank == 0

    def share(self, items: Any) -> Any:
        """Return the items of this process: every size-th one of a sequence or array."""
        return items[self.rank :: self.size]

    def sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the processes, bit for bit the same in all."""
        if self.size > 1:
            with _connected():
                dist.all_reduce(tensor)

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace each gradient by its sum over the processes; a missing gradient counts as zero.

        They travel as one tensor, because a message for each would cost several times as much.
        """
        if self.size == 1:
            return
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        self.sum(flat)
        for parameter, part in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            if parameter.grad is None:
                parameter.grad = part.view_as(parameter)
            else:
                parameter.grad.copy_(part.view_as(parameter))

    def maximum(self, *numbers: int) -> list[int]:
        """Return the maximum of each number over the processes."""
        largest = torch.tensor(numbers)
        if self.size > 1:
            with _connected():
                dist.all_reduce(largest, dist.ReduceOp.MAX)
        return [int(number) for number in largest]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.maximum(0)

    def broadcast(self, value: Value) -> Value:
        """Return the value of the first process."""
        box = [value]
        if self.size > 1:
            with _connected():
                dist.broadcast_object_list(box, device=torch.device("cpu"))
        return box[0]

    def merge(self, part: dict[int, Value]) -> dict[int, Value]:
        """Return the entries of all processes."""
        parts: list[Any] = [part] * self.size
        if self.size > 1:
            with _connected():
                dist.all_gather_object(parts, part)
        return {key: value for entries in parts for key, value in entries.items()}


SINGLE_PROCESS = Processes()


@contextmanager
def process_group(device: str) -> Iterator[Processes]:
    """Join the processes that torchrun or srun has started; without either, yield `SINGLE_PROCESS`.

    When an error ends them, the process that fails first reports it; the others end silently.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``. NCCL carries tensors on GPUs, gloo everything else.

    Raises:
        DataError: the other processes do not start.
        LostProcess: in the block, another process has ended.
    """
    set_torchrun_variables()
    processes = Processes(*rank_and_size())
    if processes.size == 1:
        yield SINGLE_PROCESS
        return
    store = _join(device, processes)
    processes.barrier()
    try:
        yield processes
    except BaseException as error:
        if not _reports(store, processes, error):
            sys.stderr = StringIO()
        raise
    dist.destroy_process_group()


def set_torchrun_variables() -> None:
    """Where srun has started this process and others, set the environment variables that torchrun would have set."""
    environment = os.environ
    if "RANK" not in environment and int(environment.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        job, step = int(environment["SLURM_JOB_ID"]), int(environment["SLURM_STEP_ID"])
        environment.update(RANK=environment["SLURM_PROCID"], WORLD_SIZE=environment["SLURM_STEP_NUM_TASKS"])
        environment.update(LOCAL_RANK=environment["SLURM_LOCALID"])
        environment.setdefault("MASTER_ADDR", environment["SLURM_LAUNCH_NODE_IPADDR"])
        environment.setdefault("MASTER_PORT", str(10_000 + (97 * job + step) % 20_000))


def rank_and_size() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, by torchrun's variables."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _join(device: str, processes: Processes) -> Any:
    """Find the other processes; return the store that all of them see."""
    rank, size, gpu = processes.rank, processes.size, device != "cpu" and torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    try:
        store, _, _ = next(rendezvous("env://", timeout=START_TIMEOUT))
        backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise DataError(
            f"process {rank} of {size}: expected the others at {where}, got: {first_line(error)}; "
            "see that all were started, and MASTER_ADDR and MASTER_PORT name a free port of the first one's machine"
        ) from None
    return store


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostProcess(
            f"another process of this training has ended, or its machine; run the same command again to resume "
            f"({first_line(error)})"
        ) from None


def _reports(store: Any, processes: Processes, error: BaseException) -> bool:
    """Return whether this process reports its error: the first one to fail does; rank 0 if a process was killed.

    Rank 0 may hold the store, so it gives the others time to read it.
    """
    if isinstance(error, LostProcess) and not processes.first:
        return False
    try:
        reported, until = store.add("failed", 1) > 1, time.monotonic() + FAILURE_SECONDS
        while processes.first and not isinstance(error, LostProcess) and time.monotonic() < until:
            if store.add("failed", 0) == processes.size:
                break
            time.sleep(0.05)
    except RuntimeError:  # the store has gone with its process
        return False
    return not reported
