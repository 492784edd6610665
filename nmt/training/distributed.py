"""One training by several processes, started by torchrun or srun: what they share out, add up and agree on.

Each process takes its share of the sentences of every batch; gradients are added up after the backward pass, by one
all-reduce. `DistributedDataParallel` would take means over processes, where ours are sums over the update's pieces; it
wants the loss made of what the wrapped model returns, and every parameter used by every process, where one without a
sentence uses none.
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

from nmt.system.errors import DataError

JOINING = timedelta(minutes=10)  # longest wait for all processes to have started
LEAVING = 2.0  # seconds that all need to fail together, where they do
TIMEOUT = timedelta(hours=6)  # longest wait for each other; one that has ended is noticed at once

Value = TypeVar("Value")


class Gone(DataError):
    """Another process has ended, or cannot be reached."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training, seen from one of them. All call the same methods in the same order."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and messages."""
        return self.rank == 0

    def share(self, items: Any) -> Any:
        """Every size-th item of a sequence or array: this process's."""
        return items[self.rank :: self.size]

    def add(self, tensor: Tensor) -> None:
        """Make a tensor its sum over the processes, bit for bit the same in all."""
        if self.size > 1:
            with _in_touch():
                dist.all_reduce(tensor)

    def add_gradients(self, model: nn.Module) -> None:
        """Make each gradient its sum over the processes; one that a process does not have is zero.

        They travel as one tensor: a message each would cost several times as much.
        """
        if self.size == 1:
            return
        parameters = list(model.parameters())
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        self.add(flat)
        for parameter, part in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
            if parameter.grad is None:
                parameter.grad = part.view_as(parameter)
            else:
                parameter.grad.copy_(part.view_as(parameter))

    def most(self, *numbers: int) -> list[int]:
        """The largest of each number over the processes."""
        largest = torch.tensor(numbers)
        if self.size > 1:
            with _in_touch():
                dist.all_reduce(largest, dist.ReduceOp.MAX)
        return [int(number) for number in largest]

    def wait(self) -> None:
        """Go on when all are here."""
        self.most(0)

    def from_first(self, value: Value) -> Value:
        """The first process's value, in all."""
        box = [value]
        if self.size > 1:
            with _in_touch():
                dist.broadcast_object_list(box, device=torch.device("cpu"))
        return box[0]

    def union(self, part: dict[int, Value]) -> dict[int, Value]:
        """All processes' entries."""
        parts: list[Any] = [part] * self.size
        if self.size > 1:
            with _in_touch():
                dist.all_gather_object(parts, part)
        return {key: value for one in parts for key, value in one.items()}


ALONE = Processes()


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Join the processes of this training, as many as torchrun or srun has started; ALONE if neither has.

    When an error ends them, the one that fails first says why; the others end without a word.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``. Tensors on GPUs travel by NCCL, all else by gloo.

    Raises:
        DataError: the others do not come.
        Gone: in the block, another has ended.
    """
    if place()[1] == 1:
        yield ALONE
        return
    store, processes = _join(device), Processes(*place())
    processes.wait()
    try:
        yield processes
    except BaseException as error:
        if not _tells(store, processes, error):
            sys.stderr = StringIO()
        raise
    dist.destroy_process_group()


def place() -> tuple[int, int]:
    """This process's rank among those of its training, and their number, as torchrun or srun has told it."""
    given = os.environ
    if "RANK" not in given and int(given.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        job, step = int(given["SLURM_JOB_ID"]), int(given["SLURM_STEP_ID"])
        given.update(RANK=given["SLURM_PROCID"], WORLD_SIZE=given["SLURM_STEP_NUM_TASKS"])
        given.update(LOCAL_RANK=given["SLURM_LOCALID"])
        given.setdefault("MASTER_ADDR", given["SLURM_LAUNCH_NODE_IPADDR"])
        given.setdefault("MASTER_PORT", str(10_000 + (97 * job + step) % 20_000))
    return int(given.get("RANK", 0)), int(given.get("WORLD_SIZE", 1))


def _join(device: str) -> Any:
    """Find the other processes; gives the store that all of them see."""
    (rank, size), gpu = place(), device != "cpu" and torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    try:
        store, _, _ = next(rendezvous("env://", timeout=JOINING))
        backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise DataError(
            f"process {rank} of {size}: expected the others at {where}, got: {_line(error)}; "
            "see that all were started, and MASTER_ADDR and MASTER_PORT name a free port of the first one's machine"
        ) from None
    return store


@contextmanager
def _in_touch() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise Gone(
            f"another process of this training has ended, or its machine; run the same command again to resume "
            f"({_line(error)})"
        ) from None


def _line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _tells(store: Any, processes: Processes, error: BaseException) -> bool:
    """Whether this process says how it ends: the first to fail does, and of one that was killed the first in rank.

    The first in rank may hold the store, and so gives the others time to look.
    """
    if isinstance(error, Gone) and not processes.first:
        return False
    try:
        told, until = store.add("failed", 1) > 1, time.monotonic() + LEAVING
        while processes.first and not isinstance(error, Gone) and time.monotonic() < until:
            if store.add("failed", 0) == processes.size:
                break
            time.sleep(0.05)
    except RuntimeError:  # the store has gone with its process
        return False
    return not told
