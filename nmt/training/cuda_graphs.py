"""CUDA graphs: for a small model, launching the thousand kernels of an update takes longer than running them.

A graph records the launches once and repeats them as one. The recorded function must not wait for the GPU, and it reads
and writes the same tensors each time. Its random numbers are the same with and without a graph.
"""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nmt.data.batches import Batch

Result = TypeVar("Result")
BatchFunction = Callable[[Batch, float], Tensor]
"""From a batch on the model's device and the weight of the consistency loss to a tensor; adds gradients on the way."""

MAX_GRAPHS = 1024  # each graph holds the arguments of its kernels, on the host and on the GPU
MIN_EPOCHS = 8  # a graph that runs less often does not save what recording it costs


class Graph(Generic[Result]):
    """A recorded call of a function; recording does not run it."""

    def __init__(self, function: Callable[[], Result], pool: Any = None) -> None:
        self._graph = torch.cuda.CUDAGraph()
        mode = "thread_local"  # another thread prepares batches meanwhile
        with torch.cuda.graph(self._graph, pool, capture_error_mode=mode):
            self._result = function()

    def __call__(self) -> Result:
        """Run it; the next call overwrites the tensors of the result."""
        self._graph.replay()
        return self._result


class RecordedCall:
    """A function without arguments: the first call is plain and allocates what stays; later calls run a graph."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function, self._called = function, False
        self._graph: Graph[None] | None = None

    def __call__(self) -> None:
        """Run the function."""
        if self._called and self._graph is None:
            self._graph = Graph(self._function)
        (self._graph or self._function)()
        self._called = True


class GraphPerShape:
    """A function of batches: one graph for each shape that repeats often enough, plain calls for all others.

    Batches are cut from sentences in the order of their lengths, so every epoch has the same shapes. All graphs read
    their batch from the same buffers, because they run one after the other.
    """

    def __init__(self, function: BatchFunction, epochs: float) -> None:
        """Wrap a function that meets each shape once per epoch."""
        self._function, self._records = function, epochs >= MIN_EPOCHS
        self._calls: Counter[object] = Counter()
        self._graphs: dict[object, tuple[Graph[Tensor], Batch]] = {}  # with the buffers of the batch
        self._buffers: dict[int, Tensor] = {}  # flat, by the number of the tensor in a batch
        self._pool = torch.cuda.graph_pool_handle() if self._records else None

    def __call__(self, batch: Batch, consistency: float) -> Tensor:
        """Return the function's result for a batch; the next call may overwrite it."""
        key = (*(tensor.shape for tensor in batch.tensors()), consistency)
        self._calls[key] += 1
        if key not in self._graphs and not self._record(key, batch, consistency):
            return self._function(batch, consistency)
        graph, inputs = self._graphs[key]
        for source, target in zip(batch.tensors(), inputs.tensors(), strict=True):
            target.copy_(source)
        return graph()

    def _record(self, key: object, batch: Batch, consistency: float) -> bool:
        """Record a graph if the shape has come before, and return whether there is one now.

        Recording stops for good when there is no memory for another graph.
        """
        if not self._records or self._calls[key] == 1 or len(self._graphs) == MAX_GRAPHS:
            return False
        numbers = count()
        inputs = batch.map_tensors(lambda tensor: self._buffer(next(numbers), tensor))
        try:
            self._graphs[key] = Graph(lambda: self._function(inputs, consistency), self._pool), inputs
        except torch.OutOfMemoryError:
            self._records = False
        return self._records

    def _buffer(self, number: int, like: Tensor) -> Tensor:
        """Return a view of the shared buffer for a tensor of a batch; a new buffer has room for twice as much."""
        buffer = self._buffers.get(number)
        if buffer is None or buffer.numel() < like.numel():
            buffer = self._buffers[number] = like.new_zeros(2 * like.numel())
        return buffer[: like.numel()].view(like.shape)
