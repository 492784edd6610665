"""Told to stop by a signal: what is under way is finished and saved, and the same command goes on from there later."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C, the end of a job or machine, and what SLURM is asked to send some time before a job's limit.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Interrupted(Exception):
    """A signal came, and all that is needed to go on is saved."""

    def __init__(self, number: int, where: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} {where}")
        self.exit_code = 128 + number  # as a shell has it


@contextmanager
def heeded(handler: Callable[[int, FrameType | None], None], also: Sequence[int] = ()) -> Iterator[None]:
    """While this lasts, the signals that ask a process to stop go to ``handler``; ``also`` unless they are ignored."""
    wanted = [*SIGNALS, *(number for number in also if signal.getsignal(number) != signal.SIG_IGN)]
    old = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)
