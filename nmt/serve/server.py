"""Bind, load, say where to look, serve until told to stop."""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click
import uvicorn

from nmt.serve.app import build
from nmt.serve.limits import Limits
from nmt.serve.models import load
from nmt.system.errors import ConfigError

CONNECTIONS = 64
"""Open at once; the server library answers 503 to more."""


def serve(folders: Sequence[Path], host: str, port: int, device: str, threads: int | None, limits: Limits) -> None:
    """Serve model directories until interrupted.

    Args:
        folders: model directories.
        host: a name or address of this machine.
        port: 0 takes a free one.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPU threads; None leaves the choice to PyTorch.
        limits: rate, line and times.

    Raises:
        ConfigError: the address cannot be had; a GPU was asked for and there is none.
        DataError: a model directory is missing or damaged.
    """
    with bind(host, port) as listener:  # before the models: a port in use is said at once
        models = load(folders, device, threads)
        listener.listen()
        click.echo(f"nmt: {', '.join(model.name for model in models)}")
        click.echo(f"nmt: open {address(listener, host)} (Ctrl+C ends)")
        with suppress(KeyboardInterrupt):
            server(build(models, limits, host)).run(sockets=[listener])


def server(app: object) -> uvicorn.Server:
    """Uvicorn for this application: no access log, no headers believed that a proxy would set."""
    return uvicorn.Server(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            http="h11", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
            proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=3,
        )
    )  # fmt: skip


def bind(host: str, port: int) -> socket.socket:
    """A socket of this address; raises ConfigError."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
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
        errno.EADDRINUSE: "the port is in use; end the program that has it, or give another (0 takes a free one)",
        errno.EACCES: "the port is reserved; give one above 1023 (0 takes a free one)",
        errno.EADDRNOTAVAIL: "this machine does not have that address; 127.0.0.1 is itself, 0.0.0.0 all it has",
    }
    return advice.get(error.errno or 0, f"cannot be bound: {error.strerror or error}")


def address(listener: socket.socket, host: str) -> str:
    """Where a browser on this machine finds the page."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"
