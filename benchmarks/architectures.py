"""Compare the systems of the table multi30k_architectures: speed of training and of search, memory, arithmetic.

    python -m benchmarks.architectures [--updates 12]

Each system trains on the same batches of Multi30K English→German. The systems take turns, update by update, in one
process; then they take turns in searching. A step of search feeds a piece to five hypotheses of each of 64 sentences,
with random weights. A ratio is the median over the turns. Times are of the processor, of one thread, so other programs
on the machine count little. The memory is the peak of a process that only trains one system.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import ROOT, environment, peak_memory, process, table
from benchmarks.training import flops, prepare
from nmt.config.system import System
from nmt.config.table import load_table
from nmt.system import machine
from nmt.system.files import read_json

HEADINGS = (
    "system", "parameters", "MFLOP a piece", "updates/s", "of baseline", "search steps/s", "of baseline", "memory, MiB",
    "of baseline",
)  # fmt: skip
WARM, SENTENCES, BEAM, STEPS = 2, 64, 5, 10
Times = dict[str, list[float]]


def systems() -> dict[str, System]:
    """Return the systems of the table by name, the baseline first."""
    return dict(load_table(ROOT / "workflow" / "tables" / "multi30k_architectures.yaml").systems)


def make(encoded: Path, state: Path, system: System) -> Any:
    """Return a trainer at the beginning of a training."""
    from nmt.training.experiment import Experiment
    from nmt.training.trainer import Trainer

    config = Experiment(model=system.model, training=system.training)
    trainer = Trainer(encoded, state, config, 1, machine.prepare("cpu", 1))
    trainer.model.train()
    return trainer


def seconds(function: Callable[[], Any]) -> float:
    """Return the processor time of a call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def memory(encoded: Path, name: str, updates: int) -> float:
    """Return the peak memory of this process, which trains one system, in MiB."""
    with tempfile.TemporaryDirectory() as state:
        trainer = make(encoded, Path(state), systems()[name])
        for _, update in zip(range(updates), trainer.updates.after(trainer.progress), strict=False):
            trainer.train_on(update)
    return peak_memory()


def train_by_turns(trainers: dict[str, Any], updates: int) -> Times:
    """Return the seconds of each update after the warm-up."""
    times: Times = {name: [] for name in trainers}
    streams = {name: trainer.updates.after(trainer.progress) for name, trainer in trainers.items()}
    for number in range(WARM + updates):
        for name, trainer in trainers.items():
            update = next(streams[name])
            taken = seconds(lambda trainer=trainer, update=update: trainer.train_on(update))
            if number >= WARM:
                times[name].append(taken)
    return times


def search_by_turns(trainers: dict[str, Any], turns: int) -> Times:
    """Return the seconds of a step in each turn."""
    import torch

    times: Times = {name: [] for name in trainers}
    rows = torch.arange(SENTENCES).repeat_interleave(BEAM)
    pieces = torch.full((len(rows),), 5)
    with torch.inference_mode():
        for trainer in trainers.values():
            trainer.model.eval().lay_out_for_search()
        for _ in range(turns):
            for name, trainer in trainers.items():
                data, model = trainer.updates.data, trainer.model
                state = model.reorder(model.start(data.batch(data.indices[:SENTENCES]).source), rows)
                started = time.process_time()
                for _ in range(STEPS):
                    _, state = model.step(state, pieces)
                times[name].append((time.process_time() - started) / STEPS)
    return times


def rows(encoded: Path, updates: int) -> list[list[Any]]:
    """Measure, and return the lines of the table."""
    peaks = {
        name: process("architectures", "--encoded", encoded, "--side", name, "--updates", 6)["memory"]
        for name in systems()
    }
    with ExitStack() as stack:
        trainers = {
            name: make(encoded, Path(stack.enter_context(tempfile.TemporaryDirectory())), system)
            for name, system in systems().items()
        }
        first = next(iter(trainers.values())).updates
        sizes = {name: sum(p.numel() for p in trainer.model.parameters()) for name, trainer in trainers.items()}
        trained, searched = train_by_turns(trainers, updates), search_by_turns(trainers, updates)
        batches = [first.data.batch(indices) for indices in first.data.batches("4096 tokens")[:20]]
    vocabulary = read_json(encoded / "meta.json")["vocabulary"]["target"]
    return [
        [
            name, f"{sizes[name]:,}", f"{flops(system.model.model_dump(), vocabulary, batches) / 1e6:.1f}",
            f"{1 / statistics.median(trained[name]):.2f}", of_baseline(trained, name),
            f"{1 / statistics.median(searched[name]):.1f}", of_baseline(searched, name),
            f"{peaks[name]:,.0f}", f"{peaks[name] / next(iter(peaks.values())):.2f}",
        ]
        for name, system in systems().items()
    ]  # fmt: skip


def of_baseline(times: Times, name: str) -> str:
    """Return the median ratio of speeds, and the quartiles."""
    ratios = [base / mine for base, mine in zip(next(iter(times.values())), times[name], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


@click.command()
@click.option("--updates", type=click.IntRange(2), default=12)
@click.option("--encoded", type=click.Path(path_type=Path), show_default="Multi30K, downloaded and encoded")
@click.option("--side", hidden=True)
def main(updates: int, encoded: Path | None, side: str | None) -> None:
    """Print a table of the systems."""
    if side and encoded:
        print(json.dumps({"memory": memory(encoded, side, updates)}))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(table(HEADINGS, rows(encoded or prepare(Path(folder), words=False), updates)))
    print(f"\nIn brackets: the quartiles. {environment(1)}.")


if __name__ == "__main__":
    main()
