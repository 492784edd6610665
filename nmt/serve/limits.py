"""Limits of a request: its size, the rate of each client, and the time that it may wait for a model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import JSONResponse

BODY = 64 * 1024
"""Maximum size of a request's body, in bytes; a text and a beginning within their limits fit, however escaped."""

TEXT = 4000
"""Maximum size of a text, in bytes of UTF-8."""

WORDS = 400
"""Maximum number of words of a text."""

TEXT_PIECES = 1000
"""Maximum number of subword pieces of a text."""

MBR_PIECES = 250
"""The same with minimum Bayes risk, which takes several times as long as beam search; others wait meanwhile."""

PIECES = 200
"""Maximum number of subword pieces of a sentence; a model may have a lower limit."""

NBEST = 10
"""Maximum number of translations of a sentence."""

SAMPLES = 32
"""Number of samples among which minimum Bayes risk decoding chooses."""

CLIENTS = 10_000
"""Number of clients whose rate is remembered."""

SHOWN = 60
"""Maximum number of characters of a wrong value that a message repeats."""

NAME = 200
"""Maximum number of characters of a model's name."""


@dataclass(frozen=True)
class Limits:
    """The limits of one server.

    Attributes:
        rate: requests per second and client.
        burst: seconds whose requests a client may send at once.
        waiting: requests that wait for one model.
        batch: waiting requests that are computed together; 1: each is computed alone.
        patience: seconds that a request waits for a model.
        upload: seconds until a body must have arrived.
        header: seconds until the header of a request must have arrived, from the last answer or the connection on.
        per_client: connections of one address.
    """

    rate: float = 20.0
    burst: float = 2.0
    waiting: int = 16
    batch: int = 16
    patience: float = 10.0
    upload: float = 10.0
    header: float = 5.0
    per_client: int = 64


class Refused(Exception):
    """A request is refused: HTTP status, what is wrong, expected, got, and the seconds after which to try again."""

    def __init__(self, status: int, error: str, expected: str, got: str, retry_after: float | None = None) -> None:
        super().__init__(error)
        self.status = status
        self.content = {"error": error, "expected": expected, "got": got}
        self.retry_after = retry_after

    def response(self) -> JSONResponse:
        """Return the HTTP response. It closes the connection, because an unread body may still be on its way."""
        headers = {"Connection": "close"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return JSONResponse(self.content, self.status, headers)


def shown(value: object, length: int = SHOWN) -> str:
    """Format a value of somebody else for a message: in one line, shortened, without control characters."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text[:length])[1:-1] + ("…" if len(text) > length else "")


class Rate:
    """The rate limit of each client: a steady rate and a burst (the generic cell rate algorithm, ITU-T I.371)."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self.due: dict[str, float] = {}  # time at which each client's requests so far would end at the steady rate

    def admit(self, client: str) -> None:
        """Count a request of a client; raises Refused if it comes too early."""
        now = self.clock()
        due = max(self.due.pop(client, now), now)
        early = due - now - self.limits.burst
        self.due[client] = due if early > 0 else due + 1 / self.limits.rate
        if len(self.due) > CLIENTS:
            del self.due[next(iter(self.due))]  # the client without a request for the longest time
        if early > 0:
            raise Refused(429, "too many requests", f"at most {self.limits.rate:g} a second", "more", early)
