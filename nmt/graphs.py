"""CUDA graphs of what is done to a batch: for a small model, calling its thousand kernels takes longer than they do.

Batches are cut from sentences in the order of their lengths, which are the same in every epoch; so are the shapes of
the batches. What the GPU was asked for one of a shape, once recorded, is asked for the next as one.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from nmt.data import Batch

KEPT = 1024  # most graphs: each holds the arguments of its kernels, on the host and on the GPU
WORTH = 8  # times that a shape must come for its graph to save what recording it costs

Work = Callable[[Batch, float], Tensor]
"""From a batch on the GPU and the weight of the consistency to a tensor; with the side effect of adding gradients."""


class Graphs:
    """Does some work to batches: what it is to do often to a shape by a graph, the rest call by call.

    The work waits for nothing from the GPU, and adds to the same tensors each time. It may draw random numbers: those
    are the same by a graph as without.
    """

    def __init__(self, work: Work, times: float) -> None:
        """Take some work that each shape will come to so many times."""
        self._work, self._worth = work, times >= WORTH
        self._seen: Counter[object] = Counter()
        self._graphs: dict[object, tuple[torch.cuda.CUDAGraph, Batch, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._worth else None

    def __call__(self, batch: Batch, consistency: float) -> Tensor:
        """The work's result for a batch, which the next call may overwrite."""
        kind = (batch.source.shape, batch.target.shape, batch.places.shape, consistency)
        self._seen[kind] += 1
        if kind not in self._graphs:
            if not self._worth or self._seen[kind] == 1 or len(self._graphs) == KEPT:  # the first makes what lasts
                return self._work(batch, consistency)
            self._graphs[kind] = self._record(batch, consistency)
        graph, given, result = self._graphs[kind]
        _copy(batch, given)
        graph.replay()
        return result

    def _record(self, batch: Batch, consistency: float) -> tuple[torch.cuda.CUDAGraph, Batch, Tensor]:
        """The graph of the work on a batch of this shape, the batch that it reads, and its result."""
        given, graph = batch.each(torch.clone), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            result = self._work(given, consistency)
        return graph, given, result


def _copy(batch: Batch, into: Batch) -> None:
    for mine, theirs in zip(batch.tensors(), into.tensors(), strict=True):
        theirs.copy_(mine, non_blocking=True)
