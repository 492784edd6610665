"""Compare our cross-entropy of the output layer with PyTorch's: seconds of forward and backward pass, memory.

    python -m benchmarks.loss [--threads 1] [--rounds 7]

The sides take turns on the same numbers, in one process. Times are of the processor. The memory is what the peak of a
process grows by in two calls. Ours also counts correct predictions. With options, `F.linear_cross_entropy` has chunks,
but not with label smoothing. Compiled is the plain form through `torch.compile`, without the time of compiling.
"""

import json
import statistics
import time
from collections.abc import Callable

import click
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions

from benchmarks.measure import environment, peak_memory, process, table
from nmt.models.loss import cross_entropy
from nmt.system import machine

CASES = {  # positions, vocabulary, width, label smoothing
    "small": (2000, 8192, 128, 0.1),
    "small, no smoothing": (2000, 8192, 128, 0.0),
    "base": (2000, 32000, 512, 0.1),
}
Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def ours(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Compute the loss as trainings do."""
    return cross_entropy(hidden, weight, targets, smoothing)[0]


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Compute the loss from all scores at once."""
    return F.cross_entropy(hidden @ weight.T, targets, reduction="sum", label_smoothing=smoothing)


def chunked(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Compute the loss by PyTorch's own chunks."""
    return F.linear_cross_entropy(
        hidden, weight, targets, reduction="sum", label_smoothing=smoothing, options=LinearCrossEntropyOptions()
    )


SIDES: dict[str, Callable[[], Loss]] = {
    "ours": lambda: ours,
    "plain": lambda: plain,
    "linear_cross_entropy": lambda: chunked,
    "compiled": lambda: torch.compile(plain, dynamic=True),
}


def call(side: str, case: str, bf16: bool) -> Callable[[], float]:
    """Return a function that computes loss and gradients once, and returns the loss of a position."""
    positions, vocabulary, width, smoothing = CASES[case]
    torch.manual_seed(1)
    hidden = torch.randn(positions, width, requires_grad=True)
    weight = torch.nn.Parameter(torch.randn(vocabulary, width) * width**-0.5)
    targets, loss = torch.randint(vocabulary, (positions,)), SIDES[side]()

    def once() -> float:
        hidden.grad = weight.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            total = loss(hidden, weight, targets, smoothing)
        total.backward()  # type: ignore[no-untyped-call]
        return total.item() / positions

    return once


def by_turns(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each call after two for warming up."""
    times: dict[str, list[float]] = {side: [] for side in calls}
    for number in range(2 + rounds):
        for side, once in calls.items():
            started = time.process_time()
            once()
            if number >= 2:
                times[side].append(1000 * (time.process_time() - started))
    return times


def memory(side: str, case: str, bf16: bool) -> float:
    """Return what the peak of this process grows by in two calls, in MiB."""
    once, before = call(side, case, bf16), peak_memory()
    once()
    once()
    return peak_memory() - before


@click.command()
@click.option("--threads", default=1)
@click.option("--rounds", type=click.IntRange(2), default=7)
@click.option("--memory", "only", nargs=3, hidden=True)
def main(threads: int, rounds: int, only: tuple[str, str, str] | None) -> None:
    """Measure all sides and print a table."""
    machine.prepare("cpu", threads)
    if only:
        print(json.dumps(memory(only[0], only[1], only[2] == "bf16")))
        return
    rows = []
    for case, (*_, smoothing) in CASES.items():
        sides = [side for side in SIDES if not smoothing or side != "linear_cross_entropy"]
        for precision in ("fp32", "bf16"):
            calls = {side: call(side, case, precision == "bf16") for side in sides}
            values = {side: once() for side, once in calls.items()}
            for side, times in by_turns(calls, rounds).items():
                peak = process("loss", "--threads", threads, "--memory", side, case, precision)
                spread = f"{statistics.median(times):.1f} ({min(times):.1f}–{max(times):.1f})"
                rows.append([f"{case}, {precision}", side, spread, f"{peak:,.0f}", f"{values[side]:.5f}"])
    print(table(("size", "loss", "ms, least and most", "memory, MiB", "value"), rows))
    print(f"\n{environment(threads)}")


if __name__ == "__main__":
    main()
