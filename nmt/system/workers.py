"""Parallel work: forked copies of this process, workers for a stream, and a thread that prefetches."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from nmt.system.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")
PER_CORE = 2
"""Most processes per core; more are slower, and each needs memory."""
_work: Callable[[Any], Any] | None = None
"""The function that the copies call. They inherit it, because models are too large to send and closures cannot be."""


def _copies() -> Any:
    """The context of forked copies of this process. They inherit signal handlers that only record SIGTERM."""
    from multiprocessing.context import ForkContext, ForkProcess  # not on Windows

    class Copy(ForkProcess):
        def terminate(self) -> None:
            self.kill()  # with SIGTERM the pool could wait for ever

    class Copies(ForkContext):
        Process = Copy

    return Copies()


def available_cores() -> int:
    """Return how many cores this process may use; on macOS and Windows, which do not say so, all of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes_for(device: str, threads: int | None = None) -> int:
    """Return how many processes can replace ``threads``: one on a GPU or without fork; None: PyTorch's threads.

    Each process takes memory of its own, so there are at most `PER_CORE` for each core that this process may use.
    """
    import torch

    on_gpu = device != "cpu" and torch.cuda.is_available()
    if on_gpu or sys.platform != "linux":
        return 1
    return min(threads or torch.get_num_threads(), PER_CORE * available_cores())


def available_processes() -> int:
    """Return how many processes may compute at once: OMP_NUM_THREADS, which Snakemake sets, or all cores."""
    if sys.platform != "linux":
        return 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdecimal() and int(allowed) else available_cores()


def parallel_map(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Generator[Result, None, None]:
    """Map a function over items like `map`, in forked copies of this process.

    If the work computes with PyTorch, this process must not have computed with several threads before: a fork does not
    copy threads and would wait for them.

    Args:
        work: the function; its result is sent back and should be small.
        items: the arguments; results come in their order.
        processes: the number of copies; with one, this process does the work itself.

    Raises:
        DataError: a copy was killed, most likely because the memory was full.
    """
    global _work
    if processes < 2 or len(items) < 2:
        yield from map(work, items)
        return
    _work = work
    try:
        with ProcessPoolExecutor(min(processes, len(items)), _copies(), _end_with_parent) as pool:
            yield from pool.map(_do, items)
    except BrokenProcessPool:
        raise DataError(
            f"expected {processes} processes, one was killed, most likely because the memory was full; "
            "give fewer --threads, or set OMP_NUM_THREADS to fewer"
        ) from None
    finally:
        _work = None


def _do(item: Any) -> Any:
    assert _work
    return _work(item)


class Map(Protocol):
    """A map such as the built-in one, which several processes may share."""

    def __call__(self, work: Callable[[Item], Result], items: Iterable[Item], /) -> Iterable[Result]:
        """Return the results in the order of the items."""


@contextmanager
def stream_map(jobs: int) -> Iterator[Map]:
    """Provide a map over ``jobs`` processes, which takes few items before their turn; with one job, `map` itself.

    Functions, items and results are sent between the processes.

    Raises:
        DataError: a process was killed, most likely because the memory was full.
    """
    if jobs <= 1:
        yield map
        return
    try:
        with ProcessPoolExecutor(jobs, initializer=_end_with_parent) as pool:
            yield partial(_map_ahead, pool, 2 * jobs)
    except BrokenProcessPool:
        raise DataError(
            f"expected {jobs} processes, one was killed, most likely because the memory was full; run again with fewer "
            "jobs"
        ) from None


def _map_ahead(
    pool: ProcessPoolExecutor, ahead: int, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield results in order, with ``ahead`` items in flight; the pool's own map would read all items first."""
    waiting = deque[Future[Result]]()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _end_with_parent() -> None:
    """Leave Ctrl-C to the parent, which reports it once, and end when the parent ends, even by a kill."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of ``size``; the last one may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def prefetch(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the same items; a thread makes the next item while one is in use. No item may be None."""
    with ThreadPoolExecutor(1) as thread:
        upcoming = thread.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = thread.submit(next, items, None)
            yield item
