"""Signals that ask a process to stop: it finishes and saves the current work; the same command resumes it later."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: SIGINT: Ctrl-C; SIGTERM: the end of a job or machine; SIGHUP: the end of a terminal; SIGUSR1: SLURM sends it some
#: time before a job's limit. Windows does not have the last two.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))


class Interrupted(Exception):
    """A signal has stopped the work, and everything needed to resume is saved."""

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} {where}")
        self.exit_code = 128 + number  # the convention of shells


@contextmanager
def signal_handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler for `SIGNALS`, but not for a SIGHUP that `nohup` ignores; restore the old ones."""
    numbers = [n for n in SIGNALS if signal.Signals(n).name != "SIGHUP" or signal.getsignal(n) != signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
