"""Progress of a stage: a bar on a terminal, plain lines in a log. A stage below ten seconds shows nothing."""

import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

DELAY = 10.0  # seconds until something is shown
EVERY = 30.0  # seconds between two lines in a log


class Progress:
    """A context that counts the parts done; see the module.

    Args:
        what: the stage, for readers.
        total: the number of units.
        unit: one of them, e.g. ``line``.
        done: the units that an earlier run has done.
    """

    def __init__(self, what: str, total: int, unit: str, done: int = 0) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.first = self.done = done
        self.began = time.monotonic()
        self.due = self.began + DELAY
        self._plain = not sys.stderr.isatty()
        self._bar = tqdm(
            desc=what, total=total, initial=done, unit=unit, disable=self._plain, delay=DELAY, dynamic_ncols=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._bar.close()

    def update(self, count: int = 1) -> None:
        """Count so many units more."""
        self.done += count
        self._bar.update(count)
        now = time.monotonic()
        if self._plain and now >= self.due:
            self.due = now + EVERY
            left = round((now - self.began) / max(1, self.done - self.first) * (self.total - self.done))
            print(
                f"nmt: {self.what}: {self.done:,} of {self.total:,} {self.unit}s, {remaining(left)}",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def remaining(seconds: int) -> str:
    """``1:05 to go``, ``2:00:05 to go``."""
    hours, rest = divmod(max(0, seconds), 3600)
    return (f"{hours}:{rest // 60:02d}" if hours else f"{rest // 60}") + f":{rest % 60:02d} to go"
