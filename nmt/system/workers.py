"""Processes that share out work on the CPU, as copies of this one: what it holds they need not load. A thread, too."""

import ctypes
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any, TypeVar

import torch

from nmt.system.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
_work: Callable[[Any], Any] | None = None
"""Of the processes under way, which inherit it: a model is too large to send, and closures cannot be."""


class _Copy(ForkProcess):
    """A copy of this process, whose handlers it has: one that only notes SIGTERM would have its pool wait for ever."""

    def terminate(self) -> None:
        """End it, whatever it is doing."""
        self.kill()


class _Copies(ForkContext):
    Process = _Copy


def processes_for(device: str, threads: int | None = None) -> int:
    """How many processes may share out work in place of so many threads: one on a GPU, or where there is no fork."""
    on_gpu = device != "cpu" and torch.cuda.is_available()
    return 1 if on_gpu or sys.platform != "linux" else threads or torch.get_num_threads()


def shared_out(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Generator[Result, None, None]:
    """As `map`, with so many items under way at once, each in a copy of this process.

    This process must not have computed with several threads before: its copies would wait for those, which they lack.

    Args:
        work: what is done with an item; its result is sent back, so it is small.
        items: in the order of the results.
        processes: one works here.

    Raises:
        DataError: a process was ended from outside, most likely for its memory.
    """
    global _work
    if processes < 2 or len(items) < 2:
        yield from map(work, items)
        return
    assert torch.get_num_threads() == 1, torch.get_num_threads()
    _work = work
    try:
        with ProcessPoolExecutor(min(processes, len(items)), _Copies(), _end_with_parent) as pool:
            yield from pool.map(_do, items)
    except BrokenProcessPool:
        raise DataError(
            f"expected {processes} processes to translate, one was killed, most likely for want of memory; give fewer "
            "--threads"
        ) from None
    finally:
        _work = None


def _end_with_parent() -> None:
    """Whatever ends this process is said by the one that it is a copy of: at Ctrl-C by a word, not by each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _do(item: Any) -> Any:
    assert _work
    return _work(item)


def ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The same items, none of them None, each made by a thread while the one before it is in use."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
