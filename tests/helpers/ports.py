"""Ports of this machine."""

import socket


def free_port() -> int:
    """Return a port that no program listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
