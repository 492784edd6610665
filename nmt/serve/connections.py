"""Connections: how long one may be silent, and how many may be open. A crowd of idle ones keeps nobody out."""

import asyncio
import select
from pathlib import Path
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from nmt.serve.limits import Limits, Refused

MOST = 256
"""Most open connections, where the system allows so many file handles."""
ACCEPTED = 16
"""Most connections that are accepted before the others are looked at again; many fewer than one address may have."""
RESERVED = 16
"""File handles for anything else, e.g. the files of the page."""


def capacity() -> int:
    """Return how many connections may be open, by the file handles that this process may have."""
    try:
        import resource
    except ImportError:  # on Windows
        return MOST
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST
    handles = Path("/proc/self/fd")
    in_use = len(list(handles.iterdir())) if handles.is_dir() else 2 * RESERVED
    return max(1, min(MOST, limit - in_use - RESERVED - ACCEPTED))


class Connection(H11Protocol):
    """uvicorn's connection with two more limits.

    Each request's header must arrive within `Limits.header` seconds. If an address has too many connections, or all
    together are too many, a new one takes the place of the one that has waited longest for its client, if possible
    of one that has never asked.
    """

    def __init__(self, limits: Limits, most: int, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.limits, self.most = limits, most
        self.waiting_since = 0.0
        self.deadline: asyncio.TimerHandle | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has to send something, the header or the rest of a request, and has sent nothing yet."""
        if self.cycle and not self.cycle.response_complete and not self.cycle.more_body:
            return False
        socket = self.transport.get_extra_info("socket")
        if not hasattr(select, "poll"):  # on Windows
            return not select.select([socket], [], [], 0)[0]
        arrived = select.poll()
        arrived.register(socket.fileno(), select.POLLIN)
        return not arrived.poll(0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit a connection, if need be in the place of one that waits for its client; otherwise answer 503."""
        super().connection_made(transport)
        self._expect_header()
        others = [other for other in self.connections if isinstance(other, Connection) and other is not self]
        of_client = [other for other in others if other.client and self.client and other.client[0] == self.client[0]]
        if len(of_client) >= self.limits.per_client:
            self._replace_one_of(of_client)
        elif len(others) >= self.most:
            self._replace_one_of(others)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request; once its header is whole, the deadline is over."""
        super().data_received(data)
        if self.deadline and self.cycle and not self.cycle.response_complete:
            self.deadline.cancel()

    def on_response_complete(self) -> None:
        """Expect the next request, unless it has come already."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        super().connection_lost(exc)
        if self.deadline:
            self.deadline.cancel()

    def _expect_header(self) -> None:
        if self.deadline:
            self.deadline.cancel()
        self.waiting_since = self.loop.time()
        self.deadline = self.loop.call_later(self.limits.header, self._close)

    def _close(self) -> None:
        """Close at once, even if the client does not read what was sent."""
        self.connections.discard(self)
        self.transport.abort()

    def _replace_one_of(self, others: "list[Connection]") -> None:
        by_waiting = sorted(others, key=lambda c: (c.cycle is not None, c.waiting_since))  # the silent ones first
        if idle := next((connection for connection in by_waiting if connection.waits_for_client), None):
            idle._close()
            return
        expected = f"at most {len(others)} connections at once"
        response = Refused(503, "too many connections", expected, "more", retry_after=1).response()
        head = h11.Response(status_code=response.status_code, headers=response.raw_headers)
        for event in (head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
