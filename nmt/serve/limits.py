"""What a request may cost: its size, how often a client may ask, and how long it may wait for a model."""

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.responses import JSONResponse

Result = TypeVar("Result")

BODY = 32 * 1024
"""Most bytes of a request's body."""

TEXT = 4000
"""Most bytes of a sentence, in UTF-8."""

WORDS = 100
"""Most words of a sentence."""

PIECES = 200
"""Most pieces of a sentence; a model that takes fewer decides."""

NBEST = 10
"""Most translations of a sentence."""

CLIENTS = 10_000
"""Clients whose rate is remembered."""

SHOWN = 60
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True)
class Limits:
    """What may differ from one server to the next."""

    rate: float = 20.0  # requests a second, of one client
    burst: float = 2.0  # seconds of that rate which may come at once
    waiting: int = 16  # requests in line for one model
    patience: float = 10.0  # seconds a request waits in line
    upload: float = 10.0  # seconds for a body to arrive


class Refused(Exception):
    """A request that is not served: which status, what is wrong, what was expected, what was got."""

    def __init__(self, status: int, error: str, expected: str, got: str, retry_after: float | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.content = {"error": error, "expected": expected, "got": got}
        self.retry_after = retry_after

    def response(self) -> JSONResponse:
        """The answer; the connection ends with it, since a body may still be on its way that nobody will read."""
        headers = {"Connection": "close"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return JSONResponse(self.content, self.status, headers)


def shown(value: object) -> str:
    """A wrong value as a message repeats it: on one line, cut."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text[:SHOWN])[1:-1] + ("…" if len(text) > SHOWN else "")


class Rate:
    """How often each client may ask: a steady rate and a burst (the generic cell rate algorithm, ITU-T I.371)."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.due: dict[str, float] = {}  # when each client's requests so far would be due at the steady rate

    def admit(self, client: str) -> None:
        """Count a request of a client; raises Refused if it comes too early."""
        now = self.clock()
        due = max(self.due.pop(client, now), now)
        early = due - now - self.limits.burst
        self.due[client] = due if early > 0 else due + 1 / self.limits.rate
        if len(self.due) > CLIENTS:
            del self.due[next(iter(self.due))]  # the one silent for longest
        if early > 0:
            raise Refused(429, "too many requests", f"at most {self.limits.rate:g} a second", "more", early)


class Line:
    """Where requests wait for a model, which serves one at a time in a thread of its own."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.thread = ThreadPoolExecutor(1)
        self.free = asyncio.Lock()
        self.waiting = 0

    async def run(self, job: Callable[[], Result]) -> Result:
        """Wait for a turn, then compute; given up while it waits, the job is never started.

        Raises:
            Refused: the line is full, or did not move for too long.
        """
        await self._turn()
        running = asyncio.get_running_loop().run_in_executor(self.thread, job)
        running.add_done_callback(self._done)
        return await asyncio.shield(running)  # a client that goes does not stop the thread: the turn lasts till it ends

    async def _turn(self) -> None:
        most = f"at most {self.limits.waiting} requests in line, and a turn within {self.limits.patience:g} s"
        if self.waiting >= self.limits.waiting:
            raise Refused(503, "the model is busy", most, f"{self.waiting} in line", 1)
        self.waiting += 1
        try:
            async with asyncio.timeout(self.limits.patience):
                await self.free.acquire()
        except TimeoutError:
            raise Refused(503, "the model is busy", most, "no turn", 1) from None
        finally:
            self.waiting -= 1

    def _done(self, running: "asyncio.Future[Any]") -> None:
        self.free.release()
        if not running.cancelled():
            running.exception()  # seen: asyncio would print what nobody awaits any more
