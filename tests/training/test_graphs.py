"""When work goes by graphs, with graphs that do again what they saw: real ones are tested where there is a GPU."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from nmt.data.batches import Batch
from nmt.training import cuda_graphs as graphs


class Again:
    """In place of a graph: recording does nothing, each call all of it again."""

    recorded: ClassVar[list["Again"]] = []

    def __init__(self, work: Callable[[], Any], pool: Any = None) -> None:
        self._work = work
        Again.recorded.append(self)

    def __call__(self) -> Any:
        return self._work()


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "Graph", Again)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    Again.recorded = []


def batch(sentences: int, length: int, first: int) -> Batch:
    target = torch.arange(first, first + sentences * length).view(sentences, length)
    return Batch(target + 1, target, torch.arange(sentences * (length - 1)))


def total(given: Batch, consistency: float) -> Tensor:
    return given.source.sum() + 10 * given.expected.sum() + consistency


def test_a_shape_that_comes_again_goes_by_its_graph() -> None:
    work, came = graphs.OfShapes(total, times=8), [batch(2, 5, 0), batch(2, 6, 3), batch(2, 5, 7), batch(2, 5, 9)]
    assert [work(each, 0.5).item() for each in came] == [total(each, 0.5).item() for each in came]
    assert len(Again.recorded) == 1
    work(batch(2, 6, 1), 0.5)
    assert len(Again.recorded) == 2
    work(batch(2, 6, 1), 0.0)  # other work
    assert len(Again.recorded) == 2


@pytest.mark.parametrize(("times", "kept"), [(7.9, 1024), (100.0, 0)])
def test_shapes_that_come_seldom_or_are_too_many_go_by_calls(
    monkeypatch: pytest.MonkeyPatch, times: float, kept: int
) -> None:
    monkeypatch.setattr(graphs, "KEPT", kept)
    work = graphs.OfShapes(total, times)
    for first in range(5):
        assert work(batch(2, 5, first), 0.0) == total(batch(2, 5, first), 0.0)
    assert not Again.recorded


def test_without_memory_for_a_graph_work_goes_on_by_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        tried.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory")

    tried: list[int] = []
    work = graphs.OfShapes(total, times=8)
    for first in range(3):
        work(batch(3, 5, first), 0.0)
    monkeypatch.setattr(graphs, "Graph", full)
    for first in range(4):
        assert work(batch(2, 5, first), 0.0) == total(batch(2, 5, first), 0.0)
        assert work(batch(3, 5, first), 0.0) == total(batch(3, 5, first), 0.0)
    assert len(tried) == len(Again.recorded) == 1


def test_all_graphs_read_from_the_same_places() -> None:
    work = graphs.OfShapes(total, times=8)
    for first in range(3):
        for length in (4, 6, 5, 3):
            assert work(batch(2, length, first), 0.0) == total(batch(2, length, first), 0.0)
    given = [given.target for _, given in work._graphs.values()]
    assert len(given) == 4 and len({part.untyped_storage().data_ptr() for part in given}) == 1


def test_work_that_is_always_the_same_is_called_once_before_it_is_recorded() -> None:
    done: list[int] = []
    work = graphs.Repeated(lambda: done.append(len(Again.recorded)))
    for _ in range(3):
        work()
    assert done == [0, 1, 1] and len(Again.recorded) == 1
