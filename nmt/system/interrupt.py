"""Signals that ask a process to stop: it finishes and saves the current work; the same command resumes it later."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

#: SIGINT: Ctrl-C; SIGTERM: the end of a job or machine; SIGUSR1: SLURM sends it some time before a job's limit.
#: Windows does not have the last one.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


class Interrupted(Exception):
    """A signal has stopped the work, and everything needed to resume is saved."""

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} {where}")
        self.exit_code = 128 + number  # the convention of shells


@contextmanager
def signal_handlers(handler: Callable[[int, FrameType | None], None], also: Sequence[int] = ()) -> Iterator[None]:
    """Install a handler for `SIGNALS`, and for each signal of ``also`` that is not ignored; restore the old ones."""
    numbers = [*SIGNALS, *(number for number in also if signal.getsignal(number) != signal.SIG_IGN)]
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
