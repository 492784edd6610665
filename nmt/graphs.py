"""CUDA graphs: for a small model, asking a GPU for the thousand kernels of an update takes longer than they do.

What was asked for once is recorded and asked for again as one. The work that is recorded waits for nothing from the
GPU, and reads and writes the same tensors each time. Random numbers that it draws are the same by a graph as without.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nmt.data import Batch

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
    """Work that is the same each time: by calls at first, which make what lasts, then by a graph."""

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
"""From a batch on the GPU and the weight of the consistency to a tensor; with the side effect of adding gradients."""


class OfShapes:
    """Work on batches: what it is to do often to a shape by a graph of that, the rest by calls.

    Batches are cut from sentences in the order of their lengths, which are the same in every epoch: so are the shapes.
    """

    def __init__(self, work: Work, times: float) -> None:
        """Take some work that each shape will come to so many times."""
        self._work, self._worth = work, times >= WORTH
        self._seen: Counter[object] = Counter()
        self._graphs: dict[object, tuple[Graph[Tensor], Batch]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._worth else None

    def __call__(self, batch: Batch, consistency: float) -> Tensor:
        """The work's result for a batch, which the next call may overwrite."""
        kind = (*(part.shape for part in batch.tensors()), consistency)
        self._seen[kind] += 1
        if kind not in self._graphs:
            if not self._worth or self._seen[kind] == 1 or len(self._graphs) == KEPT:
                return self._work(batch, consistency)
            given = batch.each(torch.clone)
            self._graphs[kind] = Graph(lambda: self._work(given, consistency), self._pool), given
        graph, given = self._graphs[kind]
        for mine, theirs in zip(batch.tensors(), given.tensors(), strict=True):
            theirs.copy_(mine)
        return graph()
