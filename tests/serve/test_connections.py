"""Silent, slow and many connections; the names that requests may use; the text of a model from somebody else."""

import http.client
import json
import logging
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nmt.serve.app import build
from nmt.serve.connections import MOST, capacity
from nmt.serve.limits import Limits
from nmt.serve.models import ServedModel, _name
from nmt.serve.server import bind, serve, server
from nmt.system.errors import ConfigError
from nmt.system.files import write_json

STUB = cast(ServedModel, SimpleNamespace(name="stub", description=lambda: {"name": "stub"}))
GET = b"GET /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def live(allowed: tuple[str, ...] = (), **limits: Any) -> Iterator[int]:
    """A server without a model in a thread of its own; gives its port."""
    chosen = Limits(rate=1e6, **limits)
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        running = server(build([STUB], chosen, "127.0.0.1", allowed), chosen)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def get(port: int, path: str = "/api/models", host: str = "localhost") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": host})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def open_to(port: int, first: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.sendall(first)
    return connection


def seconds_until_closed(connection: socket.socket) -> float:
    started = time.monotonic()
    try:
        while connection.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - started


@pytest.mark.integration
@pytest.mark.parametrize("count", [64, 300])
def test_a_crowd_of_silent_connections_keeps_nobody_out(count: int) -> None:
    with live(header=60.0) as port, ExitStack() as crowd:
        for _ in range(count):
            crowd.enter_context(open_to(port))
        started = time.monotonic()
        assert [get(port)[0] for _ in range(5)] == [200] * 5 and time.monotonic() - started < 5


@pytest.mark.integration
@pytest.mark.parametrize("first", [b"", b"GET /api/models HT", GET, GET + b"GET / HT"])
def test_a_header_that_does_not_come_ends_the_connection(first: bytes) -> None:
    """The first one, and the next one on the same connection."""
    with live(header=0.3) as port, open_to(port, first) as silent:
        assert 0.2 < seconds_until_closed(silent) < 3


def test_a_byte_now_and_then_does_not_stretch_the_deadline() -> None:
    with live(header=0.4) as port, open_to(port) as slow:
        started = time.monotonic()
        with pytest.raises(OSError):
            for byte in GET * 9:
                slow.sendall(bytes([byte]))
                time.sleep(0.05)
        assert time.monotonic() - started < 3


def test_whole_requests_are_never_closed_for_others() -> None:
    """With all places taken by requests in work, a new connection is refused with a reason."""
    go, started = threading.Event(), threading.Semaphore(0)

    def describe() -> dict[str, str]:
        return {"name": "stub"}

    def translate_all(texts: list[str], _: object) -> list[bytes]:
        started.release()
        assert go.wait(10)
        return [json.dumps({"text": text}).encode() for text in texts]

    parts = {"description": describe, "translate_all": translate_all, "languages": ["en", "de"]}
    stub = SimpleNamespace(name="stub", **parts)
    stub.toward = lambda *_: stub
    model = cast(ServedModel, stub)
    body = b'{"model": "stub", "text": "a"}'
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.STUB", model)
        with live(per_client=3) as port, ExitStack() as open_ones:
            clients = [open_ones.enter_context(open_to(port, whole)) for _ in range(3)]
            assert started.acquire(timeout=10)
            time.sleep(0.2)  # the other two wait in the queue
            status, answer = get(port)
            assert status == 503 and json.loads(answer)["error"] == "too many connections"
            go.set()
            assert all(b"200 OK" in client.recv(2**16) for client in clients)
            assert get(port)[0] == 200


def test_places_follow_the_file_handles_that_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert capacity() == MOST or hard < 1024
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        assert 1 <= capacity() < 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.integration
def test_a_lack_of_file_handles_is_one_line_and_passes(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with live() as port, ExitStack() as crowd:
        assert get(port)[0] == 200
        clients = [crowd.enter_context(socket.socket()) for _ in range(5)]
        highest = max(int(handle.name) for handle in Path("/proc/self/fd").iterdir())
        spare = [crowd.enter_context(Path("/dev/null").open("rb")) for _ in range(highest)]
        with caplog.at_level(logging.WARNING):
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(file.fileno() for file in spare) + 1, hard))
                for client in clients:
                    client.connect(("127.0.0.1", port))
                time.sleep(0.3)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            time.sleep(1)  # asyncio tries again after a second
        assert get(port)[0] == 200
    assert "Traceback" not in capfd.readouterr().err + caplog.text
    assert len(caplog.records) == 1 and "out of system resource" in caplog.text


def test_an_error_in_the_page_is_one_line(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(STUB, "description", fail)
    with live() as port, caplog.at_level(logging.WARNING):
        status, body = get(port)
        assert status == 500 and json.loads(body)["got"] == "OSError"
    assert "Traceback" not in capfd.readouterr().err + caplog.text and "OSError in" in caplog.text


def test_names_of_this_machine_are_answered_if_allowed() -> None:
    with live(("mybox.local", "192.0.2.7")) as port:
        for host in ("mybox.local", "MYBOX.local:8000", "mybox.local.", "192.0.2.7:80", "localhost"):
            assert get(port, host=host)[0] == 200, host
        for host in ("box.local", "mybox.local.evil.example", "192.0.2.8"):
            status, body = get(port, host=host)
            assert status == 400 and b"--allow-host" in body


@pytest.mark.parametrize("name", ["http://mybox", "mybox:8000", "*", "", "my box", "mybox/", "-x", "a\x1b"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"--allow-host: expected a name or address without http:// and port"
    ) as wrong:
        serve([], "127.0.0.1", 0, "cpu", 1, Limits(), [name])
    assert "\x1b" not in str(wrong.value)


def test_the_name_of_a_strangers_model_obeys_no_terminal(tmp_path: Path) -> None:
    parts = {"table": "\x1b[2J\u202eevil", "system": "a\nb", "seed": 1, "selection": "x" * 1000}
    write_json(tmp_path / "model" / "provenance.json", parts)
    name = _name(tmp_path / "model")
    assert name.isprintable() and len(name) < 250 and "evil" in name
