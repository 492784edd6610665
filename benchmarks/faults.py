"""Test recovery from faults: cause a fault, run the same command again, and compare the files.

A tiny system is built once without faults. Each try starts from a copy of it without the outputs of the tested stage.
Two faults need root to mount a small file system, and one needs libfaketime. If these are missing, the table omits the
faults.

    python -m benchmarks.faults > benchmarks/faults.md
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import yaml

from nmt.system.files import read_json

ROOT = Path(__file__).parent.parent
MODEL = {"layers": 1, "width": 32, "ffn": 64, "heads": 2}
TRAINING = {
    "batch": "512 tokens", "updates": 300, "checkpoint_every": "20 updates", "validate_every": "100 updates",
    "validation_bleu": False, "schedule": {"peak": 0.005, "warmup": 10},
}  # fmt: skip
DECODING = {"beam": 4, "length_factor": 1.0, "length_extra": 5}
TIMES = {
    "seconds",
    "training_seconds",
    "decoding_seconds",
    "tokens_per_second",
    "time",
    "process",
}  # keys whose values differ between any two runs
NAMED = ["--name", "t/s", "--seed", "1"]

#: For each stage: its command, its outputs, and the outputs that are compared.
STAGES: dict[str, tuple[list[str], list[str], list[str]]] = {
    "download": (["download", "scenes", "en-de", "raw", "--limit", "300"], ["raw"], ["raw/*"]),
    "clean": (["clean", "raw", "clean", "--languages", "en-de"], ["clean"], ["clean/*"]),
    "subwords": (
        ["subwords", "clean", "subwords", "--languages", "en-de", "--config", "{size: 300}"],
        ["subwords"], ["subwords/*"],
    ),
    "encode": (["encode", "clean", "subwords", "encoded", "--languages", "en-de"], ["encoded"], ["encoded/*"]),
    "prepare": (
        ["track", "prepare", "--tables", "t.yaml", "--config", "{tables: [t]}", "--out", "tracking.json"],
        ["tracking.json", "mlflow.db", "mlartifacts"], [],
    ),
    "training": (
        ["train", "encoded", "run", "--config", json.dumps({"model": MODEL, "training": TRAINING}), "--device", "cpu",
         "--threads", "1", *NAMED],
        ["run"], ["run/log.jsonl", "run/state/checkpoints/update-*/weights.safetensors"],
    ),
    "averaging": (
        ["average", "run", "model", "--at", "average 5", "--encoded", "encoded"], ["model"], ["model/*"],
    ),
    "decoding": (
        ["decode", "model", "clean/test.en", "out/hypotheses.txt", "--device", "cpu", "--threads", "1", "--config",
         json.dumps(DECODING)],
        ["out"], ["out/hypotheses.txt", "out/alignments.json", "out/decoding.json"],
    ),
    "scoring": (
        ["score", "out/hypotheses.txt", "--clean", "clean", "--raw", "raw", "--test", "test", "--languages", "en-de",
         "--model", "model", "--out", "scores"],
        ["scores"], ["scores/*"],
    ),
    "tracking import": (
        ["track", "publish", "run", "--tracking", "tracking.json", "--out", "tracked.json", *NAMED],
        ["tracked.json"], [],
    ),
}  # fmt: skip
TABLE = {
    "caption": "A tiny table",
    "tests": ["test"],
    "systems": {
        "s": {"corpus": "scenes", "languages": "en-de", "subwords": {"size": 300}, "model": MODEL, "training": TRAINING}
    },
    "rows": [{"label": "tiny", "system": "s", "at": "best", "decoding": DECODING}],
    "figures": ["loss"],
}


@dataclass
class Try:
    """One try of a fault: whether the rerun gave the same files as the undisturbed run, and what was done again."""

    identical: bool
    lost: str = "nothing"


class Workshop:
    """The undisturbed run, and copies of it for the faults."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.seconds = folder, random.Random(seed), dict.fromkeys(STAGES, 0.0)
        self.base = folder / "undisturbed"
        self.base.mkdir()
        (self.base / "t.yaml").write_text(yaml.safe_dump(TABLE))
        for stage in STAGES:
            started = time.monotonic()
            check(run(self.base, stage))
            self.seconds[stage] = time.monotonic() - started

    @contextmanager
    def copy(self, *stages: str) -> Iterator[Path]:
        """A copy without the outputs of some stages."""
        folder = Path(tempfile.mkdtemp(dir=self.folder)) / "copy"
        shutil.copytree(self.base, folder)
        for stage in stages:
            for name in STAGES[stage][1]:
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).unlink(missing_ok=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder.parent)

    def same(self, folder: Path, stage: str) -> bool:
        """Whether a stage's files equal those of the undisturbed run; print the names of those that differ."""
        return same(contents(folder, stage), contents(self.base, stage))

    def killed(self, folder: Path, stage: str) -> None:
        """Start a stage and kill it at a random moment. Try again if it had already ended."""
        while True:
            process = start(folder, stage)
            time.sleep(self.random.uniform(0, self.seconds[stage]))
            kill(process)
            if process.wait() == -signal.SIGKILL:
                return
            for name in STAGES[stage][1]:
                shutil.rmtree(folder / name, ignore_errors=True)
                (folder / name).unlink(missing_ok=True)


def same(actual: dict[str, str], expected: dict[str, str]) -> bool:
    """Whether files are equal; print the names of those that differ to standard error."""
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            print(f"differs: {name}", file=sys.stderr)
    return actual == expected


def command(stage: str) -> list[str]:
    return [sys.executable, "-m", "nmt", *STAGES[stage][0]]


def environment(**more: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key not in ("MLFLOW_TRACKING_URI", "NMT_MIRROR")}
    path = f"{Path(sys.executable).parent}:{inherited.get('PATH', '')}"
    settings = {"OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": str(ROOT), "PATH": path}
    return inherited | settings | more


def start(folder: Path, stage: str, *options: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command(stage), *options], cwd=folder, env=environment(**env), start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run(folder: Path, stage: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    process = start(folder, stage, *options, **env)
    output, _ = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def check(done: subprocess.CompletedProcess[str]) -> str:
    """Return the output of a command; exit if it failed."""
    if done.returncode:
        raise SystemExit(f"{done.args}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    """Check that a command ended with one message that matches a pattern."""
    if done.returncode != 1 or not re.search(why, done.stdout) or "Traceback" in done.stdout:
        raise SystemExit(f"expected exit code 1 and '{why}', got {done.returncode}:\n{done.stdout}")


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and its children if it is alive."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(what: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + 300
    while not what():
        if time.monotonic() > until or (process and process.poll() is not None):
            raise SystemExit("the expected state was not reached: timeout, or the process has ended")
        time.sleep(0.02)


def contents(folder: Path, stage: str) -> dict[str, str]:
    """Return the outputs of a stage without times: each file's digest, or the content of the MLflow store."""
    if stage == "tracking import":
        return stored(folder)
    paths = sorted(path for pattern in STAGES[stage][2] for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): non_defaults(path) for path in paths}


def non_defaults(path: Path) -> str:
    if path.suffix == ".json":
        return json.dumps(timeless(json.loads(path.read_text())))  # one of them is a list
    if path.suffix == ".jsonl":
        records = [json.loads(line) for line in path.read_text().splitlines()]
        return json.dumps([timeless(record) for record in records if record["event"] != "start"])
    return sha256(path.read_bytes()).hexdigest()


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def stored(folder: Path) -> dict[str, str]:
    """Return the parameters and all points of the curves of a store's only run, without times, with duplicates."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    (stored_run,) = client.search_runs([client.get_experiment_by_name("t").experiment_id])
    curves = {
        key: sorted((point.step, point.value) for point in client.get_metric_history(stored_run.info.run_id, key))
        for key in stored_run.data.metrics
        if not key.endswith(("seconds", "tokens_per_second"))
    }
    return {
        "status": stored_run.info.status,
        "params": json.dumps(stored_run.data.params),
        "curves": json.dumps(curves),
    }


def updates_done(folder: Path) -> int:
    """Return the update of a training's newest checkpoint, or 0."""
    checkpoints = sorted(folder.glob("run/state/checkpoints/update-*"))
    return int(checkpoints[-1].name.removeprefix("update-")) if checkpoints else 0


def in_mid_training(folder: Path, checkpoints: int = 3, **env: str) -> subprocess.Popen[str]:
    """Start a training and wait until it has written some checkpoints."""
    process = start(folder, "training", **env)
    wait_for(lambda: len(list(folder.glob("run/state/checkpoints/update-*"))) >= checkpoints, process)
    return process


def killed(stage: str) -> Callable[[Workshop], Try]:
    def fault(shop: Workshop) -> Try:
        store = ["prepare"] if stage == "tracking import" else []  # each copy needs its own store
        with shop.copy(stage, *store) as folder:
            for first in store:
                check(run(folder, first))
            shop.killed(folder, stage)
            check(run(folder, stage))
            lost = "updates since the last checkpoint, made again" if stage == "training" else "the stage, run again"
            return Try(shop.same(folder, stage), lost)

    return fault


def two_trainings(shop: Workshop) -> Try:
    with shop.copy("training") as folder:
        first = in_mid_training(folder)
        refused(run(folder, "training"), "is at work here")
        first.communicate()
        return Try(first.returncode == 0 and shop.same(folder, "training"))


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """Mount a file system of ``size`` bytes at a folder."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def disk_full(shop: Workshop) -> Try:
    checkpoint = shop.base / "run/state/checkpoints/update-00000300"
    size = sum(file.stat().st_size for file in checkpoint.iterdir())
    with shop.copy("training") as folder, small_disk(folder / "run", int(size * shop.random.uniform(3.0, 4.0))):
        refused(run(folder, "training"), "make room|No space left|check space")
        before = updates_done(folder)
        remount(folder / "run", "size=1g")
        check(run(folder, "training"))
        return Try(shop.same(folder, "training") and before > 0, "updates since the last checkpoint, made again")


def read_only(shop: Workshop) -> Try:
    with shop.copy("decoding") as folder, small_disk(folder / "out", 2**20):
        remount(folder / "out", "ro")
        refused(run(folder, "decoding"), "Read-only file system")
        remount(folder / "out", "rw")
        check(run(folder, "decoding"))
        return Try(shop.same(folder, "decoding"), "the stage, run again")


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server that answers all requests in the same way."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http_server.server_port}"
    finally:
        http_server.shutdown()


def slow(request: BaseHTTPRequestHandler) -> None:
    time.sleep(15)  # longer than the timeout of a request
    request.close_connection = True


def failing(request: BaseHTTPRequestHandler) -> None:
    request.send_error(500)


def tracking(answer: Callable[[BaseHTTPRequestHandler], None] | None) -> Callable[[Workshop], Try]:
    """A tracking server that is down (no answer function), slow or failing, during a training and its import."""

    def fault(shop: Workshop) -> Try:
        with shop.copy("prepare", "training", "tracking import") as folder:
            with server(answer or failing) as uri:
                env = {"MLFLOW_TRACKING_URI": uri if answer else "http://127.0.0.1:9"}
                check(run(folder, "prepare", **env))
                check(run(folder, "training", "--tracking", "tracking.json", **env))
                check(run(folder, "tracking import", **env))
            failed = read_json(folder / "tracked.json")["status"] == "failed"
            check(run(folder, "prepare"))  # another store without faults
            check(run(folder, "tracking import"))
            return Try(failed and all(shop.same(folder, stage) for stage in ("training", "tracking import")))

    return fault


def clock(shop: Workshop) -> Try:
    """The clock jumps ten days ahead, then thirty back. The training is stopped and continues with the right time."""
    with shop.copy("training") as folder:
        (folder / "clock").write_text("+0")
        library = next(Path("/usr/lib").rglob("libfaketimeMT.so.1"))
        fake = {
            "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        process = in_mid_training(folder, 2, **fake)
        for jump, checkpoints in (("+10d", 4), ("-30d", 6)):
            (folder / "clock").write_text(jump)
            wait_for(lambda n=checkpoints: len(list(folder.glob("run/state/checkpoints/update-*"))) >= n, process)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        stopped = process.returncode == 128 + signal.SIGTERM
        check(run(folder, "training"))
        # There is one more checkpoint, from the moment of the stop.
        return Try(stopped and weights(shop.base) <= weights(folder))


def weights(folder: Path) -> set[tuple[str, str]]:
    return set(contents(folder, "training").items())


def damaged(truncate: bool) -> Callable[[Workshop], Try]:
    def fault(shop: Workshop) -> Try:
        with shop.copy("training") as folder:
            process = in_mid_training(folder)
            kill(process)
            process.wait()
            newest = sorted(folder.glob("run/state/checkpoints/update-*"))[-1]
            file = shop.random.choice(sorted(newest.iterdir()))
            data = bytearray(file.read_bytes())
            place = shop.random.randrange(len(data))
            if truncate:
                del data[place:]
            else:
                data[place] ^= 1 << shop.random.randrange(8)
            file.write_bytes(data)
            check(run(folder, "training"))
            return Try(shop.same(folder, "training"), "updates since the checkpoint before, made again")

    return fault


def corrupted_download(shop: Workshop) -> Try:
    """A download that is cut short, then has a flipped bit, then is whole; another always has a flipped bit."""
    content = b"".join(f"sentence {number}\n".encode() for number in range(2000))
    flipped = bytes([content[0] ^ 4]) + content[1:]
    bodies = [content[:1000], flipped, content, flipped, flipped, flipped]

    def serve(request: BaseHTTPRequestHandler) -> None:
        body = bodies.pop(0)
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    code = (
        "import sys\nfrom nmt.system.errors import DataError\nfrom nmt.corpora.sources import Source\n"
        "source = Source(url=sys.argv[1] + '/{language}', mirror='x/' + sys.argv[2], sha256={'en': sys.argv[3]})\n"
        "try:\n    sys.stdout.writelines(line + '\\n' for line in source.text('en').lines())\n"
        "except DataError as error:\n    print(error); sys.exit(1)\n"
    )
    cache = Path(tempfile.mkdtemp(dir=shop.folder))

    def fetch(uri: str, name: str) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, "-c", code, uri, name, sha256(content).hexdigest()]
        return subprocess.run(
            arguments, env=environment(XDG_CACHE_HOME=str(cache)), stdout=subprocess.PIPE, text=True, check=False
        )

    with server(serve) as uri:
        text = check(fetch(uri, "once"))
        refused(fetch(uri, "always"), "wrong checksum")
    return Try(text.encode() == content and not list(cache.rglob("always")), "the download, made again")


def nan(shop: Workshop) -> Try:
    """A single gradient that is not a number."""
    code = (
        "import sys\nfrom nmt.cli.main import main\nfrom nmt.training.trainer import Trainer\n"
        "train_on = Trainer.train_on\n"
        "def spoiled(self, update):\n"
        "    if update.number == 151:\n"
        "        next(self.model.parameters()).register_hook(lambda gradient: gradient * float('nan'))\n"
        "    train_on(self, update)\n"
        "Trainer.train_on = spoiled\nmain(sys.argv[1:])\n"
    )
    with shop.copy("training") as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, *STAGES["training"][0]], cwd=folder, env=environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        refused(done, "at update 151: expected finite loss and gradients")
        reports = list(folder.glob("run/state/not-a-number-00000151.json"))
        check(run(folder, "training"))
        return Try(len(reports) == 1 and shop.same(folder, "training"), "updates since the last checkpoint, made again")


class Workflow:
    """The same system as a table that Snakemake builds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "workflow/tables").mkdir(parents=True)
        (folder / "workflow/tables/t.yaml").write_text(yaml.safe_dump(TABLE))
        (folder / "config.yaml").write_text(yaml.safe_dump({"tables": ["t"], "device": "cpu", "limit": 300}))

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1", *options]
        return subprocess.Popen(
            command, cwd=self.folder, env=environment(), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*options)
        output, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def files(self) -> dict[str, str]:
        """Return the outputs without times. Pages and figures show times, and a subword model contains its path."""
        outputs = {}
        for path in sorted(self.folder.glob("results/**/*")):
            inner = path.relative_to(self.folder / "results")
            whole = path.suffix in (".json", ".txt", ".tok", ".detok", ".safetensors", ".npy", ".vocab")
            if path.is_file() and whole and inner.parts[0] != "mlartifacts" and not path.name.startswith("track"):
                outputs[str(inner)] = non_defaults(path)
        return outputs


def undisturbed_workflow(shop: Workshop) -> tuple[dict[str, str], float]:
    """Return the table's files, built once, and the seconds of the build."""
    if not hasattr(shop, "workflow"):
        started = time.monotonic()
        whole = Workflow(shop.folder / "workflow")
        check(whole.run())
        shop.workflow = (whole.files(), time.monotonic() - started)  # type: ignore[attr-defined]
    return shop.workflow  # type: ignore[attr-defined,no-any-return]


def workflow_killed(shop: Workshop) -> Try:
    expected, seconds = undisturbed_workflow(shop)
    broken = Workflow(Path(tempfile.mkdtemp(dir=shop.folder)))
    process = broken.start()
    time.sleep(shop.random.uniform(0.2, 0.9) * seconds)
    kill(process)
    process.wait()
    check(broken.run("--unlock"))
    check(broken.run())
    return Try(same(broken.files(), expected), "the stage under way, run again")


def two_workflows(shop: Workshop) -> Try:
    expected, _ = undisturbed_workflow(shop)
    shared = Workflow(Path(tempfile.mkdtemp(dir=shop.folder)))
    first, second = shared.start(), shared.start()
    outputs = [process.communicate()[0] for process in (first, second)]
    locked = ["cannot be locked" in output for output in outputs]
    # The process with the lock builds everything. If both had the lock in turn, the second had nothing to do.
    check(shared.run())
    codes = sorted([first.returncode, second.returncode])
    whole = any(locked) or codes == [0, 0]
    return Try(same(shared.files(), expected) and whole, "nothing: one of them is refused")


def always() -> bool:
    return True


def root() -> bool:
    return os.getuid() == 0


def faketime() -> bool:
    return any(Path("/usr/lib").rglob("libfaketimeMT.so.1"))


#: For each fault: the tries with `--tries 1`, its function, and whether it is possible here.
FAULTS: dict[str, tuple[int, Callable[[Workshop], Try], Callable[[], bool]]] = {
    "`kill -9` in training": (3, killed("training"), always),
    "`kill -9` in averaging": (2, killed("averaging"), always),
    "`kill -9` in decoding": (2, killed("decoding"), always),
    "`kill -9` in scoring": (2, killed("scoring"), always),
    "`kill -9` in the tracking import": (2, killed("tracking import"), always),
    "`kill -9` of the whole workflow": (1, workflow_killed, always),
    "two workflows started at once in one folder": (1, two_workflows, always),
    "two trainings started by hand in one folder": (1, two_trainings, always),
    "disk full in the middle of a checkpoint": (2, disk_full, root),
    "results on a read-only file system": (1, read_only, root),
    "tracking server down": (1, tracking(None), always),
    "tracking server too slow": (1, tracking(slow), always),
    "tracking server answers 500": (1, tracking(failing), always),
    "clock jumps 10 days ahead, then 30 back": (1, clock, faketime),
    "newest checkpoint cut short": (2, damaged(True), always),
    "a bit of the newest checkpoint flipped": (2, damaged(False), always),
    "download cut short, then with a flipped bit": (1, corrupted_download, always),
    "a gradient that is no number, once": (1, nan, always),
}


@click.command()
@click.option("--tries", default=1, help="Factor for the number of tries of each fault.")
@click.option("--seed", default=1, help="Seed of the random moments and places.")
@click.option("--only", help="Only faults whose name contains this text.")
def main(tries: int, seed: int, only: str | None) -> None:
    """Print one table: fault, tries, tries whose rerun gave the same files, and what was made again."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), seed)
        print("| fault | tried | identical after a rerun | made again |\n|---|---|---|---|", flush=True)
        for name, (times, fault, possible) in FAULTS.items():
            if not possible() or (only and only not in name):
                continue
            tries_of_fault = [fault(shop) for _ in range(times * tries)]
            identical = sum(attempt.identical for attempt in tries_of_fault)
            failed |= identical < len(tries_of_fault)
            lost = "; ".join(dict.fromkeys(attempt.lost for attempt in tries_of_fault))
            print(f"| {name} | {len(tries_of_fault)} | {identical} | {lost} |", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
