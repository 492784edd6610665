"""Measure `nmt serve` under load: several clients ask for translations and their attention, as the page does.

    python -m benchmarks.serve [--model DIR] [--clients 8] [--requests 4000] [--threads 1] [--idle 400 --seconds 60]

Several clients ask, and one with as many requests as each of them: first of a server that computes each request alone
(``nmt serve --batch 1``), then of one that computes waiting requests together. The sentences are new sentences
of the built-in corpus. An error is a refusal or an answer to another question. A lost request has no answer. The
default model is that of `make run`. ``--no-attention`` asks for translations only. With ``--idle``, one client asks
before, while and after so many connections are held open that send nothing; the server closes them, and each is opened
again at once.
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
from nmt.serve.limits import Limits
from nmt.system.files import read_json
from nmt.text.cleaner import Cleaner

SEED = 97  # differs from the seed of the corpus
PATIENCE = 60  # seconds until a request counts as lost


@dataclass
class Request:
    """One request: its kind, its duration and its result."""

    kind: str
    seconds: float
    end: str  # right | error | lost


@contextmanager
def serving(model: Path, *options: str) -> Iterator[tuple[int, float]]:
    """Run the server in its own process; give its port and the seconds of its start."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--port", "0", "--rate", "1e6", "--device", "cpu"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
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

    def __init__(self, port: int, model: Path, attention: bool = True) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.connection.request("GET", "/api/models")
        [described] = json.loads(self.connection.getresponse().read())["models"]
        self.name, self.language, self.has_attention = (
            described["name"],
            described["source"],
            attention and "source" in described["attention"],
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


def load(port: int, model: Path, clients: int, requests: int, attention: bool) -> tuple[list[Request], float]:
    """Send all requests from several clients at once; return the results and the total seconds."""
    all_clients = [Client(port, model, attention) for _ in range(clients)]
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
@click.option("--requests", type=click.IntRange(2), default=4000, show_default=True)
@click.option("--threads", default="1", show_default=True)
@click.option("--attention/--no-attention", default=True, show_default=True, help="Whether the attention is asked for.")
@click.option("--idle", type=click.IntRange(0), default=0, show_default=True, help="Silent connections held open.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long they are held.")
def main(model: Path, clients: int, requests: int, threads: str, attention: bool, idle: int, seconds: float) -> None:
    """Print one table: errors, lost requests, throughput and latency; exit code 1 if any request failed."""
    if not model.is_dir():
        raise click.ClickException(f"{model}: no such model directory; run `make run` first, or give --model")
    heading = "| request | count | errors | lost | median, ms | 99th percentile, ms |"
    if idle:
        with serving(model, "--threads", threads) as (port, _):
            print(heading, rule(heading), sep="\n", flush=True)
            sys.exit(any(request.end != "right" for request in ask_beside_crowd(port, model, idle, seconds)))
    heading = heading.replace("|", "| requests together | clients | requests/s |", 1)
    print(heading, rule(heading), sep="\n", flush=True)
    failed = False
    for batch in (1, Limits().batch):
        for count in sorted({1, clients}):
            with serving(model, "--threads", threads, "--batch", str(batch)) as (port, _):
                results, total = load(port, model, count, requests * count // clients, attention)
            for kind in sorted({request.kind for request in results}):
                of_kind = [request for request in results if request.kind == kind]
                speed = f"{len(of_kind) / total:.1f}"
                print(f"| {batch} | {count} | {speed} {row(kind, of_kind)}", flush=True)
            failed |= any(request.end != "right" for request in results)
    sys.exit(failed)


def rule(heading: str) -> str:
    """The line below the heading of a Markdown table."""
    return re.sub(r"[^|]+", "---", heading)


if __name__ == "__main__":
    main()
