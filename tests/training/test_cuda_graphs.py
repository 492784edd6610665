"""When a graph runs instead of a plain call. The graphs are fake ones; test_gpu.py tests real ones."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from nmt.data.batches import Batch
from nmt.training import cuda_graphs as graphs


class FakeGraph:
    """Calls the function each time."""

    recorded: ClassVar[list["FakeGraph"]] = []

    def __init__(self, function: Callable[[], Any], pool: Any = None) -> None:
        self._function = function
        FakeGraph.recorded.append(self)

    def __call__(self) -> Any:
        return self._function()


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "Graph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    FakeGraph.recorded = []


def batch(sentences: int, length: int, first: int) -> Batch:
    target = torch.arange(first, first + sentences * length).view(sentences, length)
    return Batch(target + 1, target, torch.arange(sentences * (length - 1)))


def total(given: Batch, consistency: float) -> Tensor:
    return given.source.sum() + 10 * given.expected.sum() + consistency


def test_a_shape_that_repeats_runs_its_graph() -> None:
    wrapped = graphs.GraphPerShape(total, epochs=8)
    batches = [batch(2, 5, 0), batch(2, 6, 3), batch(2, 5, 7), batch(2, 5, 9)]
    assert [wrapped(each, 0.5).item() for each in batches] == [total(each, 0.5).item() for each in batches]
    assert len(FakeGraph.recorded) == 1
    wrapped(batch(2, 6, 1), 0.5)
    assert len(FakeGraph.recorded) == 2
    wrapped(batch(2, 6, 1), 0.0)  # without the second pass
    assert len(FakeGraph.recorded) == 2


def test_graphs_read_the_links_of_their_batch() -> None:
    wrapped = graphs.GraphPerShape(lambda given, _: given.links.sum() + given.source.sum(), epochs=8)
    batches = [replace(batch(2, 5, n), links=torch.full((2, 4, 5), 0.25 * n)) for n in (1, 2, 3)]
    assert [wrapped(each, 0.0).item() for each in batches] == [
        10 * n + each.source.sum() for n, each in enumerate(batches, 1)
    ]
    assert len(FakeGraph.recorded) == 1


@pytest.mark.parametrize(("epochs", "most"), [(7.9, 1024), (100.0, 0)])
def test_rare_shapes_and_too_many_shapes_run_plain_calls(
    monkeypatch: pytest.MonkeyPatch, epochs: float, most: int
) -> None:
    monkeypatch.setattr(graphs, "MAX_GRAPHS", most)
    wrapped = graphs.GraphPerShape(total, epochs)
    for first in range(5):
        assert wrapped(batch(2, 5, first), 0.0) == total(batch(2, 5, first), 0.0)
    assert not FakeGraph.recorded


def test_without_memory_for_a_graph_plain_calls_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        tried.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory")

    tried: list[int] = []
    wrapped = graphs.GraphPerShape(total, epochs=8)
    for first in range(3):
        wrapped(batch(3, 5, first), 0.0)
    monkeypatch.setattr(graphs, "Graph", full)
    for first in range(4):
        assert wrapped(batch(2, 5, first), 0.0) == total(batch(2, 5, first), 0.0)
        assert wrapped(batch(3, 5, first), 0.0) == total(batch(3, 5, first), 0.0)
    assert len(tried) == len(FakeGraph.recorded) == 1


def test_all_graphs_read_the_same_buffers() -> None:
    wrapped = graphs.GraphPerShape(total, epochs=8)
    for first in range(3):
        for length in (4, 6, 5, 3):
            assert wrapped(batch(2, length, first), 0.0) == total(batch(2, length, first), 0.0)
    given = [given.target for _, given in wrapped._graphs.values()]
    assert len(given) == 4 and len({part.untyped_storage().data_ptr() for part in given}) == 1


def test_a_recorded_call_is_plain_once_before_it_is_recorded() -> None:
    done: list[int] = []
    recorded = graphs.RecordedCall(lambda: done.append(len(FakeGraph.recorded)))
    for _ in range(3):
        recorded()
    assert done == [0, 1, 1] and len(FakeGraph.recorded) == 1
