"""Compare the systems of the table multi30k_architectures: speed of training and of search, memory, arithmetic.

    python -m benchmarks.architectures [--rounds 5]

Each system trains on the same batches of Multi30K English→German, in a process of its own. The systems take turns in
each round. Every ratio is within one round; the table has the medians. A second is one of processor time by one thread,
so other programs on the machine count little. The memory is the peak of a training process. A step of search feeds a
piece to five hypotheses of each of 64 sentences, with random weights.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import ROOT, environment, middle, peak_memory, process, table
from benchmarks.training import flops, prepare
from nmt.config.system import System
from nmt.config.table import load_table
from nmt.system.files import read_json

HEADINGS = (
    "system", "parameters", "MFLOP a piece", "updates/s", "of baseline", "least–most", "memory, MiB", "of baseline",
    "search steps/s", "of baseline",
)  # fmt: skip
WARM, UPDATES = 3, 20
SENTENCES, BEAM, STEPS = 64, 5, 30
Measured = dict[str, float]


def systems() -> dict[str, System]:
    """Return the systems of the table by name, the baseline first."""
    return dict(load_table(ROOT / "workflow" / "tables" / "multi30k_architectures.yaml").systems)


def measure(encoded: Path, name: str) -> Measured:
    """Train a system for some updates, then search with it."""
    from nmt.system import machine
    from nmt.training.experiment import Experiment
    from nmt.training.trainer import Trainer

    device, system = machine.prepare("cpu", 1), systems()[name]
    with tempfile.TemporaryDirectory() as state:
        config = Experiment(model=system.model, training=system.training)
        trainer = Trainer(encoded, Path(state), config, 1, device)
        trainer.model.train()
        updates = trainer.updates.after(trainer.progress)
        chosen = [next(updates) for _ in range(WARM + UPDATES)]
        for update in chosen[:WARM]:
            trainer.train_on(update)
        started = time.process_time()
        for update in chosen[WARM:]:
            trainer.train_on(update)
        speed, memory = UPDATES / (time.process_time() - started), peak_memory()
    vocabulary = read_json(encoded / "meta.json")["vocabulary"]["target"]
    return {
        "updates": speed, "memory": memory, "steps": steps_per_second(trainer),
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "flops": flops(system.model.model_dump(), vocabulary, [batch for u in chosen for batch in u.batches]),
    }  # fmt: skip


def steps_per_second(trainer: Any) -> float:
    """Search without choosing: each step of every hypothesis is fed the same piece."""
    import torch

    data, times = trainer.updates.data, []
    source = data.batch(data.indices[:SENTENCES]).source
    with torch.inference_mode():
        model = trainer.model.eval().lay_out_for_search()
        for _ in range(3):
            state, rows = model.start(source), torch.arange(SENTENCES).repeat_interleave(BEAM)
            state = model.reorder(state, rows)
            started = time.process_time()
            for _ in range(STEPS):
                _, state = model.step(state, torch.full((len(rows),), 5))
            times.append(time.process_time() - started)
    return STEPS / min(times)


def rows(results: dict[str, list[Measured]]) -> list[list[Any]]:
    """Return the lines of the table from the figures of each round, the baseline's first."""
    lines, baseline = [], next(iter(results.values()))
    for name, rounds in results.items():
        ratios = {
            key: [mine[key] / theirs[key] for mine, theirs in zip(rounds, baseline, strict=True)]
            for key in ("updates", "memory", "steps")
        }
        of, spread = middle(ratios["updates"], 2)
        memory, steps = (statistics.median(each[key] for each in rounds) for key in ("memory", "steps"))
        lines.append([
            name, f"{rounds[0]['parameters']:,}", f"{rounds[0]['flops'] / 1e6:.1f}",
            middle([each["updates"] for each in rounds], 2)[0], of, spread, f"{memory:,.0f}",
            middle(ratios["memory"], 2)[0], f"{steps:.1f}", middle(ratios["steps"], 2)[0],
        ])  # fmt: skip
    return lines


@click.command()
@click.option("--rounds", default=5)
@click.option("--encoded", type=click.Path(path_type=Path), show_default="Multi30K, downloaded and encoded")
@click.option("--side", hidden=True)
def main(rounds: int, encoded: Path | None, side: str | None) -> None:
    """Print a table of the systems."""
    if side and encoded:
        print(json.dumps(measure(encoded, side)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = encoded or prepare(Path(folder), words=False)
        results: dict[str, list[Measured]] = {name: [] for name in systems()}
        for _ in range(rounds):
            for name, found in results.items():
                found.append(process("architectures", "--encoded", text, "--side", name))
    print(table(HEADINGS, rows(results)))
    print(f"\n{environment(1)}.")


if __name__ == "__main__":
    main()
