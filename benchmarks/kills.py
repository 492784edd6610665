"""Kill stages of the pipeline at random moments, run them again, and compare every file with an undisturbed run.

Each stage is a fork of this process, which has loaded all libraries. So nearly all kills hit the work of a stage, and
a hundred of them take minutes. A stage is killed several times, then runs to its end.

    python -m benchmarks.kills --kills 120
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import torch
import yaml

from benchmarks.faults import DECODING, MODEL, STAGES, TABLE, TIMES, TRAINING, same, stored
from nmt.cli.main import main as run_command
from nmt.system.files import read_records

BUSY = {
    **TRAINING, "updates": 120, "checkpoint_every": "5 updates", "validate_every": "30 updates", "keep_last": 5,
    "validation_bleu": True,
}  # fmt: skip
SHARES = {"training": 8, "encode": 3, "averaging": 3, "decoding": 3, "scoring": 3, "tracking import": 2}
"""How the kills are shared among the stages."""
ROUND = 4  # most kills before a stage may end
NEVER_EQUAL = {*TIMES, "digest"}  # the digest of a checkpoint's progress covers its seconds


def arguments(stage: str) -> list[str]:
    """The command of a stage; the training saves more often than that of `benchmarks.faults`."""
    command = list(STAGES[stage][0])
    if stage == "training":
        command[command.index("--config") + 1] = json.dumps({"model": MODEL, "training": BUSY})
    if stage == "decoding":
        command[command.index("--config") + 1] = json.dumps(DECODING | {"batch": "64 tokens"})
    return command


def preload() -> None:
    """Import what the stages import, so that their forks start at once."""
    for name in (
        "torch._dynamo", "mlflow", "sacrebleu", "sacremoses", "nmt.corpora.catalogue", "nmt.text.clean",
        "nmt.data.encode", "nmt.training.train", "nmt.training.average", "nmt.translation.decode_file",
        "nmt.scoring.score", "nmt.tracking.prepare", "nmt.tracking.publish",
    ):  # fmt: skip
        __import__(name)
    torch.set_num_threads(1)
    os.fsync = lambda _: None  # the system survives a kill, and with it what was written
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.pop("MLFLOW_TRACKING_URI", None)


def start(folder: Path, stage: str) -> int:
    """Start a stage in a fork; return its process id."""
    if child := os.fork():
        return child
    os.chdir(folder)
    with open("output", "w") as output:  # noqa: PTH123
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    try:
        run_command(arguments(stage))
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(70)
    os._exit(0)


def finish(folder: Path, stage: str) -> float:
    """Run a stage to its end; return its seconds. Exit if it fails."""
    started = time.monotonic()
    _, status = os.waitpid(start(folder, stage), 0)
    if status:
        raise SystemExit(f"{stage} failed with status {status}:\n{(folder / 'output').read_text()}")
    return time.monotonic() - started


def killed(folder: Path, stage: str, moment: float) -> bool:
    """Start a stage and kill it after some seconds; return whether it had not ended before."""
    process = start(folder, stage)
    time.sleep(moment)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


def contents(folder: Path, stage: str) -> dict[str, str]:
    """All files that a stage has written, hidden ones too, without times."""
    if stage == "tracking import":
        return stored(folder)
    outputs = [folder / name for name in STAGES[stage][1]]
    files = [file for output in outputs for file in output.rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {str(file.relative_to(folder)): content(file) for file in sorted(files)}


def content(file: Path) -> str:
    """A file as text to compare; a log without the starts, one of which each attempt adds."""
    if file.suffix == ".jsonl":
        return json.dumps([timeless(record) for _, record in read_records(file) if record["event"] != "start"])
    if file.suffix == ".json":
        return json.dumps(timeless(json.loads(file.read_text())))
    return file.read_bytes().hex()


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in NEVER_EQUAL}
    return [timeless(part) for part in value] if isinstance(value, list) else value


@contextlib.contextmanager
def copied(base: Path, stage: str) -> Iterator[Path]:
    """A copy of the undisturbed run without the outputs of a stage; for the import, with an empty store."""
    with tempfile.TemporaryDirectory(dir=base.parent) as parent:
        folder = Path(shutil.copytree(base, Path(parent) / "copy"))
        for output in [*STAGES[stage][1], *(STAGES["prepare"][1] if stage == "tracking import" else [])]:
            shutil.rmtree(folder / output, ignore_errors=True)
            (folder / output).unlink(missing_ok=True)
        if stage == "tracking import":
            finish(folder, "prepare")
        yield folder


@click.command()
@click.option("--kills", default=120, show_default=True, help="Number of kills, at least.")
@click.option("--seed", default=1, show_default=True, help="Seed of the random moments.")
def main(kills: int, seed: int) -> None:
    """Print one table: stage, kills, comparisons, and how many were identical; exit code 1 if one was not."""
    preload()
    chance, failed = random.Random(seed), False
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "undisturbed"
        base.mkdir()
        (base / "t.yaml").write_text(yaml.safe_dump(TABLE))
        for stage in STAGES:
            finish(base, stage)
        print("| stage | seconds | kills | compared | identical |\n|---|---|---|---|---|", flush=True)
        for stage, share in SHARES.items():
            expected, done, compared, identical = contents(base, stage), 0, 0, 0
            with copied(base, stage) as folder:
                seconds = finish(folder, stage)
            while done < kills * share / sum(SHARES.values()):
                with copied(base, stage) as folder:
                    for _ in range(ROUND):
                        if not killed(folder, stage, chance.uniform(0, seconds)):
                            break
                        done += 1
                    finish(folder, stage)
                    compared += 1
                    identical += same(contents(folder, stage), expected)
            failed |= identical < compared
            print(f"| {stage} | {seconds:.2f} | {done} | {compared} | {identical} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
