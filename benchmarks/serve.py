"""`nmt serve` under load: several clients at once, each asking as the page does, a translation and then its attention.

    python -m benchmarks.serve [--model DIR] [--clients 8] [--requests 2000] [--threads 1]

Sentences are new ones of the built-in corpus. An error is a refusal or an answer to another question; lost is what
was never answered. The default model is the one that `make run` trains.
"""

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import TRAINED
from nmt.config.data import Cleaning
from nmt.corpora.scenes.corpus import scenes, sentence
from nmt.system.files import read_json
from nmt.text.clean import Cleaner

SEED = 97  # not the corpus's
PATIENCE = 60  # seconds until an answer counts as lost


@dataclass
class Asked:
    """One request: of which kind, how long it took, and how it ended."""

    kind: str
    seconds: float
    end: str  # right | error | lost


@contextmanager
def serving(model: Path, threads: int) -> Iterator[tuple[int, float]]:
    """The server in a process of its own; gives its port and how many seconds it took to start."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--port", "0", "--rate", "1e6", "--device", "cpu"]
    process = subprocess.Popen([*command, "--threads", str(threads)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        found = next(filter(None, (re.search(r"open http://.*:(\d+)", line) for line in process.stdout)), None)
        if not found:
            raise SystemExit(f"nmt serve ended with {process.wait()} before it served")
        yield int(found[1]), time.perf_counter() - started
    finally:
        process.terminate()
        process.wait()


class Client:
    """One client with one connection; asks about one sentence after another."""

    def __init__(self, port: int, model: Path) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.connection.request("GET", "/api/models")
        [described] = json.loads(self.connection.getresponse().read())["models"]
        self.name, self.language, self.looks = (
            described["name"],
            described["source"],
            "source" in described["attention"],
        )
        self.cleaner = Cleaner(Cleaning(**read_json(model / "cleaning.json")["cleaning"]), self.language)

    def visit(self, texts: Sequence[str]) -> list[Asked]:
        """A translation of each text and where its words come from."""
        found = []
        for text in texts:
            question = {"model": self.name, "text": text}
            asked, answer = self.ask("translate", question)
            if asked.end == "right" and answer["source"] != self.cleaner(text):
                asked.end = "error"
            found.append(asked)
            if self.looks:
                ids = answer["translations"][0]["ids"] if asked.end == "right" else []
                asked, answer = self.ask("attention", question | {"ids": ids, "sublayer": "source", "layer": 1})
                if asked.end == "right" and len(answer["rows"]) != len(ids) + 1:
                    asked.end = "error"
                found.append(asked)
        return found

    def ask(self, kind: str, question: dict[str, Any]) -> tuple[Asked, Any]:
        """One request."""
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
        return Asked(kind, time.perf_counter() - started, end), answer


def load(port: int, model: Path, clients: int, requests: int) -> tuple[list[Asked], float]:
    """All requests, by so many clients at the same time, and the seconds that took."""
    everyone = [Client(port, model) for _ in range(clients)]
    count = requests // 2 if everyone[0].looks else requests
    texts = [sentence(scene, everyone[0].language) for scene in scenes(SEED, count)]
    everyone[0].visit(texts[:1])  # the first translation loads the tokeniser's rules
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        visits = [pool.submit(client.visit, texts[i::clients]) for i, client in enumerate(everyone)]
        found = [asked for visit in visits for asked in visit.result()]
    return found, time.perf_counter() - started


def row(kind: str, asked: Sequence[Asked]) -> str:
    """A line of the table."""
    milliseconds = sorted(1000 * a.seconds for a in asked)
    ends = [sum(a.end == end for a in asked) for end in ("error", "lost")]
    high = milliseconds[min(len(milliseconds) - 1, round(0.99 * len(milliseconds)))]
    return f"| {kind} | {len(asked):,} | {ends[0]} | {ends[1]} | {statistics.median(milliseconds):.1f} | {high:.1f} |"


@click.command()
@click.option("--model", type=click.Path(path_type=Path), default=TRAINED, show_default=True)
@click.option("--clients", type=click.IntRange(1, 60), default=8, show_default=True)
@click.option("--requests", type=click.IntRange(2), default=2000, show_default=True)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
def main(model: Path, clients: int, requests: int, threads: int) -> None:
    """Print one table: errors, lost requests and latency; exit code 1 if any request failed."""
    if not model.is_dir():
        raise click.ClickException(f"{model}: no such model directory; first: make run, or give --model")
    with serving(model, threads) as (port, start):
        found, seconds = load(port, model, clients, requests)
    print(f"start-up {start:.2f} s; {clients} clients, {len(found) / seconds:.1f} requests/s\n")
    print("| request | count | errors | lost | median, ms | 99th percentile, ms |\n|---|---|---|---|---|---|")
    kinds = sorted({a.kind for a in found})
    for kind in kinds:
        print(row(kind, [a for a in found if a.kind == kind]))
    print(row("all", found))
    sys.exit(any(a.end != "right" for a in found))


if __name__ == "__main__":
    main()
