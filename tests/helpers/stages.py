"""Commands of a workflow, forked from a process that has imported torch, which takes a new process seconds."""

import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from forks import exit_code

CLIENT = Path(__file__).with_name("ask.py")
SOCKET = "NMT_TEST_STAGES"
ASK = f'"{sys.executable}" -IS "{CLIENT}" "$@"'
FORKED = f"() {{ {ASK}; }}"
"""The function `nmt` of a shell whose commands are all forked."""
FIRST_ALONE = f'() {{ if mkdir "${{{SOCKET}}}-$1" 2> /dev/null; then command nmt "$@"; else {ASK}; fi; }}'
"""Likewise, but the first command of each stage is the user's: a process of its own."""

IMPORTED = {"score": "nmt.scoring.score", "track": "mlflow.store.tracking.sqlalchemy_store"}
"""What the first command of a stage imports for all of them."""


@contextmanager
def forking() -> Iterator[None]:
    """Serve the commands of the shells that are started meanwhile."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        os.environ[SOCKET] = f"{folder}/socket"
        listener.bind(os.environ[SOCKET])
        listener.listen(16)
        if not (server := os.fork()):
            _serve(listener)
        try:
            yield
        finally:
            os.kill(server, signal.SIGTERM)
            os.waitpid(server, 0)


def _serve(listener: socket.socket) -> None:
    """Fork a process for each command, until SIGTERM or the end of the tests.

    Their memory and time count as those of this process's children.
    """
    tests = os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGCHLD, lambda *_: _reap(os.WNOHANG))
    listener.settimeout(5)
    try:
        while os.getppid() == tests:
            try:
                link, _ = listener.accept()
            except TimeoutError:
                continue
            size, streams, *_ = socket.recv_fds(link, 8, 3)
            with link.makefile("rb") as sent:
                arguments, folder, environment = json.loads(sent.read(int.from_bytes(size)))
            if module := IMPORTED.get(arguments[0]):
                import_module(module)
            if not os.fork():
                _run(link, streams, arguments, folder, environment)
            for opened in (link.detach(), *streams):
                os.close(opened)
    finally:
        _reap(0)
        os._exit(0)


def _reap(options: int) -> None:
    """Take note of the children that have ended, or of the end of all."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _run(
    link: socket.socket, streams: list[int], arguments: list[str], folder: str, environment: dict[str, str]
) -> None:
    """Run a client's command, with its folder, environment and streams; send it the exit code."""
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    link.sendall(str(exit_code(arguments)).encode())
    os._exit(0)
