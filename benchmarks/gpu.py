"""Training speed on a GPU: a plain PyTorch loop, ours call by call, and ours by CUDA graphs; a timeline of kernels.

    python -m benchmarks.gpu ENCODED FIGURE [--recipes small,tiny,large]

ENCODED is encoded text, as `snakemake inputs_multi30k_transformer` leaves it in results/encoded. All sides train models
of the same sizes on the same forty batches, after going over them twice to warm up and record graphs. Peak share:
as in `benchmarks.training`, of what square products in bfloat16 reach in the same run. Busy: the share of the time in
which a kernel runs, as PyTorch's profiler sees it, which also counts the kernels of an update.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.measure import middle, table
from benchmarks.training import RECIPES, flops, plain
from nmt import runtime
from nmt.data import Batch, Parallel
from nmt.files import read_json
from nmt.graphs import OfShapes
from nmt.report.plots import save
from nmt.training import Experiment, Step, Trainer

BATCHES = {"small": "4096 tokens", "tiny": "8192 tokens", "large": "16384 tokens"}
"""Of each recipe; a GPU takes a larger one of the large model than two cores do."""
SIDES = ("plain", "plain, bf16", "ours without graphs", "ours", "ours without graphs, bf16", "ours, bf16")
HEADINGS = ("recipe", "side", "ms an update", "pieces/s", "of plain", "peak share", "kernels", "busy", "memory, MiB")
UPDATES = 40  # that are made again and again
PROFILED = 8
SHOWN = 12.0  # milliseconds of the timeline
GPU = torch.device("cuda")
Kernels = list[tuple[float, float]]  # start and duration, in milliseconds
Update = Callable[[Step], Any]


def settings(recipe: str, precision: str) -> Experiment:
    """What our side trains."""
    training = {"batch": BATCHES[recipe], "epochs": 1000, "precision": precision}
    return Experiment.model_validate({"model": RECIPES[recipe]["model"], "training": training})


@contextmanager
def ours(encoded: Path, recipe: str, side: str) -> Iterator[Update]:
    """`nmt.training`, with its graphs or without."""
    precision = "bf16" if "bf16" in side else "fp32"
    with tempfile.TemporaryDirectory() as state:
        trainer = Trainer(encoded, Path(state), settings(recipe, precision), 1, GPU)
        assert isinstance(trainer._work, OfShapes)
        if "without" in side:
            trainer._work, trainer._move = trainer._accumulate_gradients, trainer._step
        trainer.model.train()
        yield trainer._update


@contextmanager
def theirs(encoded: Path, recipe: str, side: str) -> Iterator[Update]:
    """`torch.nn.Transformer`, all scores, and Adam as torch has it."""
    with GPU:
        model, loss = plain(RECIPES[recipe]["model"], read_json(encoded / "meta.json")["vocabulary"])
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def update(step: Step) -> None:
        with GPU, torch.autocast("cuda", torch.bfloat16, enabled="bf16" in side):
            found = loss(step.batches[0].to(GPU))
        found.backward()
        adam.step()
        adam.zero_grad()

    yield update


def steps(encoded: Path, recipe: str) -> list[Step]:
    """The first updates of an epoch, from pinned memory as in training."""
    data, found = Parallel(encoded, "train"), []
    for number, indices in enumerate(data.batches(BATCHES[recipe], (1, 0))[:UPDATES]):
        batch = data.batch(indices).each(torch.Tensor.pin_memory)
        found.append(Step(number + 1, 0, number + 1, 0.0, batch.pieces, [batch]))
    return found


def seconds(update: Update, epoch: Sequence[Step]) -> float:
    """Of some updates."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for step in epoch:
        update(step)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def profile(update: Update, epoch: Sequence[Step]) -> Kernels:
    """The kernels of some updates in their order, from the first one's start on."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        seconds(update, epoch)
    events = [e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((e.time_range.start / 1e3, e.time_range.elapsed_us() / 1e3) for e in events)
    return [(start - spans[0][0], duration) for start, duration in spans]


def busy(kernels: Kernels) -> float:
    """The share of the time from the first kernel's start to the last one's end in which one runs."""
    at, ran = 0.0, 0.0
    for start, duration in kernels:
        ran += max(0.0, start + duration - max(at, start))
        at = max(at, start + duration)
    return ran / at


def peak() -> float:
    """FLOP/s of square matrix products in bfloat16."""
    a, b = (torch.randn(8192, 8192, device=GPU, dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(12):
        torch.cuda.synchronize()
        started = time.perf_counter()
        a @ b
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return 2 * 8192**3 / statistics.median(times[2:])


def compare(encoded: Path, recipe: str, rounds: int, most: float) -> tuple[list[Any], dict[str, Kernels]]:
    """A recipe's lines of the table, and the kernels of each side."""
    epoch, lines, timelines = steps(encoded, recipe), [], {}
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    memory = {}
    for side in SIDES:  # one after the other, so that memory is each one's own
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        with (theirs if "plain" in side else ours)(encoded, recipe, side) as update:
            for _ in range(2):
                seconds(update, epoch)
            found[side] = [seconds(update, epoch) for _ in range(rounds)]
            timelines[side] = profile(update, epoch[:PROFILED])
        memory[side] = torch.cuda.max_memory_allocated() / 2**20
    pieces, sizes = sum(step.pieces for step in epoch), read_json(encoded / "meta.json")["vocabulary"]
    batches: list[Batch] = [batch for step in epoch for batch in step.batches]
    each = flops(RECIPES[recipe]["model"], sizes["target"], batches)
    plainly = statistics.median(found["plain"])
    for side, times in found.items():
        speed = pieces / statistics.median(times)
        lines.append((
            recipe, side, middle([1e3 * t / len(epoch) for t in times], 2)[0], f"{speed:,.0f}",
            f"{plainly / statistics.median(times):.2f}", f"{speed * each / most:.1%}",
            f"{len(timelines[side]) / PROFILED:,.0f}", f"{busy(timelines[side]):.0%}", f"{memory[side]:,.0f}",
        ))  # fmt: skip
    return lines, timelines


def draw(timelines: dict[str, Kernels], figure: Path) -> None:
    """When kernels run, from some updates' middle on, a row for each side."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(9, 0.6 * len(timelines) + 1))
    for row, (_, kernels) in enumerate(timelines.items()):
        first = kernels[len(kernels) // 2][0]
        spans = [(start - first, duration) for start, duration in kernels if 0 <= start - first < SHOWN]
        axes.broken_barh(spans, (row - 0.35, 0.7), linewidth=0)
    axes.set(xlabel="milliseconds", xlim=(0, SHOWN), yticks=range(len(timelines)), yticklabels=list(timelines))
    axes.invert_yaxis()
    save(fig, figure)


@click.command()
@click.argument("encoded", type=click.Path(path_type=Path))
@click.argument("figure", type=click.Path(path_type=Path))
@click.option("--recipes", default=",".join(BATCHES))
@click.option("--rounds", default=3)
def main(encoded: Path, figure: Path, recipes: str, rounds: int) -> None:
    """Print one table, and draw the timeline of the first recipe."""
    runtime.prepare("cuda")
    most, lines, drawn = peak(), [], None
    for recipe in recipes.split(","):
        more, timelines = compare(encoded, recipe, rounds, most)
        drawn = drawn or timelines
        lines += more
    assert drawn
    draw(drawn, figure)
    hardware = runtime.hardware(GPU)
    versions = ", ".join(f"{name} {version}" for name, version in runtime.versions().items())
    print(table(HEADINGS, lines))
    print(f"\nPeak {most / 1e12:.0f} TFLOP/s. {hardware['gpu']}; {hardware['processor']}, {hardware['cores']} cores; ")
    print(f"{versions}; code {runtime.code_version()}")


if __name__ == "__main__":
    main()
