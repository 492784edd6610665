"""CUDA graphs: for a small model, asking a GPU for the thousand kernels of an update takes longer than they do.

What was asked for once is recorded and asked for again as one. The work that is recorded waits for nothing from the
GPU, and reads and writes the same tensors each time. Random numbers that it draws are the same by a graph as without.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nmt.data.batches import Batch

Result = TypeVar("Result")
KEPT = 1024  # most graphs: each holds the arguments of its kernels, on the host and on the GPU
WORTH = 8  # times that a shape must come for its graph to save what recording it costs


class Graph(Generic[Result]):
    """Some work, recorded; it is not done yet."""

    def __init__(self, work: Callable[[], Result], pool: Any = None) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool, capture_error_mode="thread_local"):  # others make batches ready
            self._result = work()

    def __call__(self) -> Result:
        """Do it; the next call overwrites the tensors of its result."""
        self._graph.replay()
        return self._result


class Repeated:
    """Work that is the same each time: by a call at first, which makes what lasts, then by a graph."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._done = work, False
        self._graph: Graph[None] | None = None

    def __call__(self) -> None:
        """Do it once more."""
        if self._done and self._graph is None:
            self._graph = Graph(self._work)
        (self._graph or self._work)()
        self._done = True


Work = Callable[[Batch, float], Tensor]
"""From a batch on the model's device and the weight of the consistency to a tensor, adding gradients on the way."""


class OfShapes:
    """Work on batches: what it is to do often to a shape by a graph of that, the rest by calls.

    Batches are cut from sentences in the order of their lengths, which are the same in every epoch: so are the shapes.
    All graphs read their batches from the same places, since they run one after the other.
    """

    def __init__(self, work: Work, times: float) -> None:
        """Take some work that each shape will come to so many times."""
        self._work, self._worth = work, times >= WORTH
        self._seen: Counter[object] = Counter()
        self._graphs: dict[object, tuple[Graph[Tensor], Batch]] = {}
        self._places: dict[int, Tensor] = {}  # of the batch to work on, by which of its tensors; flat
        self._pool = torch.cuda.graph_pool_handle() if self._worth else None

    def __call__(self, batch: Batch, consistency: float) -> Tensor:
        """The work's result for a batch, which the next call may overwrite."""
        kind = (*(part.shape for part in batch.tensors()), consistency)
        self._seen[kind] += 1
        if kind not in self._graphs and not self._record(kind, batch, consistency):
            return self._work(batch, consistency)
        graph, given = self._graphs[kind]
        for mine, theirs in zip(batch.tensors(), given.tensors(), strict=True):
            theirs.copy_(mine)
        return graph()

    def _record(self, kind: object, batch: Batch, consistency: float) -> bool:
        """Record the work on batches of a kind that has come before; says whether there is a graph now.

        Once there is no memory for one, no more are tried.
        """
        if not self._worth or self._seen[kind] == 1 or len(self._graphs) == KEPT:
            return False
        given = Batch(*(self._place(number, part) for number, part in enumerate(batch.tensors())))
        try:
            self._graphs[kind] = Graph(lambda: self._work(given, consistency), self._pool), given
        except torch.OutOfMemoryError:
            self._worth = False
        return self._worth

    def _place(self, number: int, like: Tensor) -> Tensor:
        """Where a tensor of the batch is read from: room for the largest so far, and as much again."""
        held = self._places.get(number)
        if held is None or held.numel() < like.numel():
            held = self._places[number] = like.new_zeros(2 * like.numel())
        return held[: like.numel()].view(like.shape)
