"""Servers on this machine that stand for S3 and for a cluster of Kubernetes."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from ports import free_port


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run moto's server; yield the variables of the environment that lead to it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)])
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "the-key",
            "AWS_SECRET_ACCESS_KEY": "the-secret", "AWS_DEFAULT_REGION": "us-east-1", "NMT_BUCKET": "s3://bucket/nmt",
        }  # fmt: skip
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run moto's server for a test; the environment's variables lead to it."""
    pytest.importorskip("moto.server", reason="python3 envs/install.py dev moto")
    with s3_server() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield


class Kubernetes(BaseHTTPRequestHandler):
    """Takes every object that is posted, and says of each job that it has failed."""

    posted: list[tuple[str, dict[str, Any]]]

    def _reply(self, code: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.posted.append((self.path.split("/")[-1], body))
        self._reply(201, body)

    def do_GET(self) -> None:
        self._reply(200, {"metadata": {"name": self.path.split("/")[-1]}, "status": {"failed": 1}, "items": []})

    def do_DELETE(self) -> None:
        self._reply(200, {})

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def kubernetes() -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Run such a server; yield its address, and what is posted: kind and object."""
    posted: list[tuple[str, dict[str, Any]]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Kubernetes,), {"posted": posted}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posted
    finally:
        server.shutdown()
        server.server_close()
