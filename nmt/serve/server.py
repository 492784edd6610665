"""The server: bind the address, load the models, print the page's address, serve until interrupted."""

import asyncio
import errno
import logging
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import uvicorn

from nmt.config.choices import Engine
from nmt.serve.app import build
from nmt.serve.connections import ACCEPTED, Connection, capacity
from nmt.serve.limits import Limits, shown
from nmt.serve.models import load
from nmt.system.errors import ConfigError

log = logging.getLogger("nmt.serve")


def serve(
    folders: Sequence[Path],
    host: str,
    port: int,
    device: str,
    threads: int | None,
    limits: Limits,
    allowed: Sequence[str] = (),
    token: str | None = None,
    engine: Engine = "torch",
) -> None:
    """Serve model directories until interrupted.

    Args:
        folders: model directories.
        host: a name or address of this machine.
        port: the port; 0 chooses a free one.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPU threads; None: PyTorch's default.
        limits: rate, queue and times.
        allowed: further names of this machine, by which requests may address it.
        token: what every request must bring; None if nothing.
        engine: see `nmt.config.decoding.Decoding`.

    Raises:
        ConfigError: the address cannot be bound; a host name is not valid; ``device`` is cuda, but PyTorch can use no
            GPU; or the engine does not support a model.
        DataError: a model directory is missing or damaged.
    """
    names = [_host_name(name) for name in allowed]
    with bind(host, port) as listener:  # bind before loading, so that a port in use is reported at once
        models = load(folders, device, threads, engine)
        listener.listen()
        click.echo("".join(f"nmt: {model.name}\n" for model in models), nl=False)
        click.echo(f"nmt: open {address(listener, host)}{'/?token=TOKEN' if token else ''} (Ctrl+C ends)")
        with suppress(KeyboardInterrupt):
            server(build(models, limits, host, names, token), limits).run(sockets=[listener])


def _host_name(name: str) -> str:
    """Check a name of this machine; raises ConfigError."""
    if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f:]+", name):
        raise ConfigError(
            f"--allow-host: expected a name or address without http:// and port, e.g. mybox.local, got '{shown(name)}'"
        )
    return name.lower()


def server(app: object, limits: Limits) -> uvicorn.Server:
    """Return a uvicorn server for this application, without access log and without trust in proxy headers."""
    return _Server(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            http=partial(Connection, limits, capacity()),  # type: ignore[arg-type]
            ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, backlog=ACCEPTED, timeout_graceful_shutdown=3,
        )
    )  # fmt: skip


class _Server(uvicorn.Server):
    """A uvicorn server that reports each kind of error of the event loop once, in one line."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        reported = set[str]()

        def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            problem = f"{context['message']}: {context.get('exception', 'no exception')}"
            if problem not in reported:
                log.error("nmt serve: %s; open requests go on", problem)
            reported.add(problem)

        asyncio.get_running_loop().set_exception_handler(report)
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(socket.SOMAXCONN)  # asyncio has set the queue as short as a round of accepting


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to this address; raises ConfigError."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(f"--host: expected a name or address of this machine, got '{host}' ({error})") from None
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        return listener
    except OSError as error:
        listener.close()
        raise ConfigError(f"--host {host} --port {port}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    advice = {
        errno.EADDRINUSE: "the port is in use; end the program that uses it, or give another port (0: any free one)",
        errno.EACCES: "the port is reserved; give a port above 1023 (0: any free one)",
        errno.EADDRNOTAVAIL: "this machine does not have that address; 127.0.0.1 serves this machine only, 0.0.0.0 "
        "all its addresses",
    }
    return advice.get(error.errno or 0, f"cannot be bound: {error.strerror or error}")


def address(listener: socket.socket, host: str) -> str:
    """Return the URL of the page for a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"
