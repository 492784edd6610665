"""Measure training speed on a GPU: a plain PyTorch loop, and ours with and without CUDA graphs. Draw a timeline.

    python -m benchmarks.gpu.comparison ENCODED FIGURE [--recipes small,tiny,large]

ENCODED is encoded text, which `snakemake inputs_multi30k_transformer` writes to results/encoded. All sides train models
of the same sizes on the same forty batches. Two passes over the batches come first, to warm up and to record graphs.

Peak share is defined as in `benchmarks.training`, relative to square matrix products in bfloat16 in the same run.
PyTorch's profiler gives the number of kernels per update and their time. Memory is the GPU memory that PyTorch
reserves. It includes the memory of graphs, but not what the driver needs for each graph.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.measure import environment, table
from benchmarks.training import RECIPES, flops, plain
from nmt.data.batches import Parallel
from nmt.report.figures.plots import COLOURS, STYLE, save
from nmt.system import machine
from nmt.system.files import read_json
from nmt.training.cuda_graphs import GraphPerShape
from nmt.training.experiment import Experiment
from nmt.training.trainer import Trainer
from nmt.training.updates import Update, dropout_seed

BATCHES = {"small": "4096 tokens", "tiny": "8192 tokens", "large": "16384 tokens"}
"""The batch of each recipe. For the large model it is larger than in `benchmarks.training`."""
SIDES = ("plain", "plain, bf16", "ours without graphs", "ours", "ours without graphs, bf16", "ours, bf16")
HEADINGS = ("recipe", "side", "ms an update", "pieces/s", "peak share", "kernels", "ms in kernels", "memory, MiB")
UPDATES = 40  # which each pass repeats
PROFILED = 8
SHOWN = 12.0  # length of the timeline in milliseconds
GPU = torch.device("cuda")
Kernels = list[tuple[float, float]]  # start and duration, in milliseconds
TrainOn = Callable[[Update], Any]


def settings(recipe: str, precision: str) -> Experiment:
    """Return the settings of our training."""
    training = {"batch": BATCHES[recipe], "epochs": 1000, "precision": precision}
    return Experiment.model_validate({"model": RECIPES[recipe]["model"], "training": training})


@contextmanager
def ours(encoded: Path, recipe: str, side: str) -> Iterator[TrainOn]:
    """Give the update function of `nmt.training.trainer`, with or without CUDA graphs."""
    precision = "bf16" if "bf16" in side else "fp32"
    with tempfile.TemporaryDirectory() as state:
        trainer = Trainer(encoded, Path(state), settings(recipe, precision), 1, GPU)
        gradients = trainer.gradients
        assert isinstance(gradients._accumulate, GraphPerShape)
        if "without" in side:
            gradients._accumulate, gradients._optimize = gradients._forward_backward, gradients._clip_and_optimize
        trainer.model.train()
        yield trainer.train_on


@contextmanager
def theirs(encoded: Path, recipe: str, side: str) -> Iterator[TrainOn]:
    """Give the update function of a plain loop: `torch.nn.Transformer`, the scores of all words, and torch's Adam."""
    with GPU:
        model, loss = plain(RECIPES[recipe]["model"], read_json(encoded / "meta.json")["vocabulary"])
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def train_on(update: Update) -> None:
        with GPU, torch.autocast("cuda", torch.bfloat16, enabled="bf16" in side):
            value = loss(update.batches[0].to(GPU))
        value.backward()
        adam.step()
        adam.zero_grad()

    yield train_on


def first_updates(encoded: Path, recipe: str) -> list[Update]:
    """Return the first updates of an epoch, in pinned memory as in training."""
    data, updates = Parallel(encoded, "train"), []
    for number, indices in enumerate(data.batches(BATCHES[recipe], (1, 0))[:UPDATES], 1):
        batch = data.batch(indices).map_tensors(torch.Tensor.pin_memory)
        updates.append(
            Update(number, 0, number, 0.0, batch.pieces, len(batch.source), dropout_seed(1, number, 0), [batch])
        )
    return updates


def seconds(train_on: TrainOn, updates: Sequence[Update]) -> float:
    """Return the seconds that the updates take."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for update in updates:
        train_on(update)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def profile(train_on: TrainOn, updates: Sequence[Update]) -> Kernels:
    """Return the kernels of the updates in order; times count from the start of the first kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        seconds(train_on, updates)
    events = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((e.time_range.start / 1e3, e.time_range.elapsed_us() / 1e3) for e in events)
    return [(start - spans[0][0], duration) for start, duration in spans]


def line(encoded: Path, recipe: str, side: str, rounds: int, peak: float) -> tuple[list[Any], Kernels]:
    """Return the table line of a side, and its kernels."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    updates = first_updates(encoded, recipe)
    with (theirs if "plain" in side else ours)(encoded, recipe, side) as train_on:
        for _ in range(2):
            seconds(train_on, updates)
        duration = statistics.median(seconds(train_on, updates) for _ in range(rounds))
        memory = torch.cuda.max_memory_reserved() / 2**20
        kernels = profile(train_on, updates[:PROFILED])
    vocabulary = read_json(encoded / "meta.json")["vocabulary"]["target"]
    flops_per_piece = flops(
        RECIPES[recipe]["model"], vocabulary, [batch for update in updates for batch in update.batches]
    )
    speed = sum(update.pieces for update in updates) / duration
    kernel_time = sum(duration for _, duration in kernels) / PROFILED
    return [
        recipe, side, f"{1e3 * duration / len(updates):.2f}", f"{speed:,.0f}", f"{speed * flops_per_piece / peak:.1%}",
        f"{len(kernels) / PROFILED:,.0f}", f"{kernel_time:.2f}", f"{memory:,.0f}",
    ], kernels  # fmt: skip


def draw(timelines: dict[str, Kernels], figure: Path) -> None:
    """Draw when kernels run, from the middle of the profiled updates, one row per side."""
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        canvas, axes = pyplot.subplots(figsize=(9, 0.7 * len(timelines) + 1.1), layout="constrained")
        for row, kernels in enumerate(timelines.values()):
            first = kernels[len(kernels) // 2][0]
            spans = [(start - first, duration) for start, duration in kernels if 0 <= start - first < SHOWN]
            axes.broken_barh(spans, (row - 0.35, 0.7), linewidth=0, color=COLOURS[row], rasterized=True)
        axes.set(xlabel="milliseconds", xlim=(0, SHOWN), yticks=range(len(timelines)), yticklabels=list(timelines))
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        save(canvas, figure)


@click.command()
@click.argument("encoded", type=click.Path(path_type=Path))
@click.argument("figure", type=click.Path(path_type=Path))
@click.option("--recipes", default=",".join(BATCHES))
@click.option("--rounds", default=3)
def main(encoded: Path, figure: Path, recipes: str, rounds: int) -> None:
    """Print a table, each line when it is measured, and draw the timeline of the first recipe in bfloat16."""
    machine.prepare("cuda")
    peak, timelines = 1e9 * machine.matrix_speed(torch.bfloat16, size=8192, device="cuda"), {}
    print(table(HEADINGS, []))
    for recipe in recipes.split(","):
        for side in SIDES:
            cells, kernels = line(encoded, recipe, side, rounds, peak)
            print(f"| {' | '.join(cells)} |", flush=True)
            if recipe == recipes.split(",")[0] and "bf16" in side:
                timelines[side] = kernels
    draw(timelines, figure)
    print(f"\nPeak {peak / 1e12:.0f} TFLOP/s. {torch.cuda.get_device_name()}; {environment(torch.get_num_threads())}")


if __name__ == "__main__":
    main()
