"""A tracking server that answers a byte at a time costs a warning, not a run."""

import os
import signal
import threading
import time
import types
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmt.tracking import store
from nmt.tracking.prepare import prepare

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"


class Dripping(BaseHTTPRequestHandler):
    """Never silent for longer than a client waits for a byte, and never done."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.02)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def dripping() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dripping)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.integration
def test_a_server_that_drips_is_given_up(dripping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DEADLINE", 0.5)
    started, handler = time.monotonic(), signal.getsignal(signal.SIGALRM)
    prepare(dripping, tmp_path, {})
    with pytest.raises(Exception, match=r"no whole answer within 0\.5 seconds"):
        store.open_experiment(tmp_path / "tracking.json", "toy")
    assert time.monotonic() - started < 20
    assert signal.getsignal(signal.SIGALRM) is handler


def test_calls_that_send_files_have_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DEADLINE", 0.1)
    client = store._Bounded(types.SimpleNamespace(log_artifacts=time.sleep, get_run=time.sleep))
    client.log_artifacts(0.3)
    with pytest.raises(store.SlowStoreError):
        client.get_run(0.3)


def test_calls_in_other_threads_have_no_deadline() -> None:
    """Python delivers signals to the first thread alone."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(store._within_deadline(int, 60.0, "5")))
    thread.start()
    thread.join()
    assert found == [5] == [store._within_deadline(int, 60.0, "5")]
