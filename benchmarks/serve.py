"""Measure `nmt serve` under load: several clients ask for translations and their attention, as the page does.

    python -m benchmarks.serve [--model DIR] [--clients 8] [--requests 2000] [--threads 1] [--idle 400 --seconds 60]

The sentences are new sentences of the built-in corpus. An error is a refusal or an answer to another question. A lost
request has no answer. The default model is that of `make run`. With ``--idle``, one client asks before, while and after
so many connections are held open that send nothing; the server closes them, and each is opened again at once.
"""

import http.client
import json
import re
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from benchmarks.measure import TRAINED
from nmt.config.data import Cleaning
from nmt.corpora.scenes.corpus import scenes, sentence
from nmt.system.files import read_json
from nmt.text.clean import Cleaner

SEED = 97  # differs from the seed of the corpus
PATIENCE = 60  # seconds until a request counts as lost


@dataclass
class Request:
    """One request: its kind, its duration and its result."""

    kind: str
    seconds: float
    end: str  # right | error | lost


@contextmanager
def serving(model: Path, threads: int) -> Iterator[tuple[int, float]]:
    """Run the server in its own process; give its port and the seconds of its start."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--port", "0", "--rate", "1e6", "--device", "cpu"]
    process = subprocess.Popen([*command, "--threads", str(threads)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        match = next(filter(None, (re.search(r"open http://.*:(\d+)", line) for line in process.stdout)), None)
        if not match:
            raise SystemExit(f"nmt serve ended with {process.wait()} before it served")
        yield int(match[1]), time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()


class Client:
    """A client with one connection, which asks about one sentence after another."""

    def __init__(self, port: int, model: Path) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.connection.request("GET", "/api/models")
        [described] = json.loads(self.connection.getresponse().read())["models"]
        self.name, self.language, self.has_attention = (
            described["name"],
            described["source"],
            "source" in described["attention"],
        )
        self.cleaner = Cleaner(Cleaning(**read_json(model / "cleaning.json")["cleaning"]), self.language)

    def visit(self, texts: Sequence[str]) -> list[Request]:
        """Ask for the translation of each text and, if the model has attention, for its weights."""
        requests = []
        for text in texts:
            question = {"model": self.name, "text": text}
            request, answer = self.ask("translate", question)
            if request.end == "right" and answer["source"] != self.cleaner(text):
                request.end = "error"
            requests.append(request)
            if self.has_attention:
                ids = answer["translations"][0]["ids"] if request.end == "right" else []
                request, answer = self.ask("attention", question | {"ids": ids, "sublayer": "source", "layer": 1})
                if request.end == "right" and len(answer["rows"]) != len(ids) + 1:
                    request.end = "error"
                requests.append(request)
        return requests

    def ask(self, kind: str, question: dict[str, Any]) -> tuple[Request, Any]:
        """Send one request; return its result and the answer."""
        started = time.perf_counter()
        try:
            body, headers = json.dumps(question), {"Content-Type": "application/json"}
            self.connection.request("POST", f"/api/{kind}", body, headers)
            response = self.connection.getresponse()
            answer = json.loads(response.read())
            end = "right" if response.status == 200 else "error"
        except (OSError, http.client.HTTPException, ValueError):
            self.connection.close()
            answer, end = {}, "lost"
        return Request(kind, time.perf_counter() - started, end), answer


def load(port: int, model: Path, clients: int, requests: int) -> tuple[list[Request], float]:
    """Send all requests from several clients at once; return the results and the total seconds."""
    all_clients = [Client(port, model) for _ in range(clients)]
    count = requests // 2 if all_clients[0].has_attention else requests
    texts = [sentence(scene, all_clients[0].language) for scene in scenes(SEED, count)]
    all_clients[0].visit(texts[:1])  # warm-up: the first translation loads the rules of the tokeniser
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        visits = [pool.submit(client.visit, texts[i::clients]) for i, client in enumerate(all_clients)]
        results = [request for visit in visits for request in visit.result()]
    return results, time.perf_counter() - started


@contextmanager
def crowd(port: int, count: int) -> Iterator[list[int]]:
    """Hold silent connections to the server; each second, those that it closed are opened again. Gives their number."""
    opened, end = [0], threading.Event()

    def hold() -> None:
        with selectors.DefaultSelector() as watch:
            while not end.is_set():
                for _ in range(count - len(watch.get_map())):
                    with suppress(OSError):
                        watch.register(socket.create_connection(("127.0.0.1", port), 1), selectors.EVENT_READ)
                        opened[0] += 1
                end.wait(1)
                for key, _ in watch.select(0):
                    watch.unregister(key.fileobj)
                    cast(socket.socket, key.fileobj).close()
            for key in list(watch.get_map().values()):
                cast(socket.socket, key.fileobj).close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield opened
    finally:
        end.set()
        thread.join()


def ask_beside_crowd(port: int, model: Path, idle: int, seconds: float) -> list[Request]:
    """Print the response times before, while and after the crowd is there; return all requests."""

    def ask(name: str, seconds: float, note: str = "") -> list[Request]:
        results, until = list[Request](), time.monotonic() + seconds
        texts = (sentence(scene, language) for scene in scenes(SEED, 100_000))
        while time.monotonic() < until:
            results += Client(port, model).visit([next(texts)])  # as a new visitor, with a connection of its own
        print(row(f"{name}{note}", results), flush=True)
        return results

    language = Client(port, model).language
    ask("warm-up", 2)
    before = ask("before", seconds / 6)
    with crowd(port, idle) as opened:
        during = ask(f"beside {idle} silent connections", seconds)
    after = ask("after", seconds / 6, f" ({opened[0]:,} silent connections were opened)")
    return before + during + after


def row(kind: str, requests: Sequence[Request]) -> str:
    """Format a line of the table."""
    milliseconds = sorted(1000 * request.seconds for request in requests)
    ends = [sum(request.end == end for request in requests) for end in ("error", "lost")]
    high = milliseconds[min(len(milliseconds) - 1, round(0.99 * len(milliseconds)))]
    return (
        f"| {kind} | {len(requests):,} | {ends[0]} | {ends[1]} | {statistics.median(milliseconds):.1f} | {high:.1f} |"
    )


@click.command()
@click.option("--model", type=click.Path(path_type=Path), default=TRAINED, show_default=True)
@click.option("--clients", type=click.IntRange(1, 60), default=8, show_default=True)
@click.option("--requests", type=click.IntRange(2), default=2000, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
@click.option("--idle", type=click.IntRange(0), default=0, show_default=True, help="Silent connections held open.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long they are held.")
def main(model: Path, clients: int, requests: int, threads: int, idle: int, seconds: float) -> None:
    """Print one table: errors, lost requests and latency; exit code 1 if any request failed."""
    if not model.is_dir():
        raise click.ClickException(f"{model}: no such model directory; run `make run` first, or give --model")
    heading = "| request | count | errors | lost | median, ms | 99th percentile, ms |\n|---|---|---|---|---|---|"
    if idle:
        with serving(model, threads) as (port, _):
            print(heading, flush=True)
            sys.exit(any(request.end != "right" for request in ask_beside_crowd(port, model, idle, seconds)))
    with serving(model, threads) as (port, start):
        results, seconds = load(port, model, clients, requests)
    print(f"start-up {start:.2f} s; {clients} clients, {len(results) / seconds:.1f} requests/s\n")
    print(heading)
    kinds = sorted({a.kind for a in results})
    for kind in kinds:
        print(row(kind, [a for a in results if a.kind == kind]))
    print(row("all", results))
    sys.exit(any(a.end != "right" for a in results))


if __name__ == "__main__":
    main()
