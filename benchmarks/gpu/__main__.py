"""Measure search and training on a GPU, without network.

    python -m benchmarks.gpu --out results.jsonl [--parts search,training] [--seconds 300] [--model FOLDER --text FILE]

Each result is a JSON line of ``--out``, written as soon as it is measured, the most valuable first. A part takes about
``--seconds``. What fails or finds no time left is recorded, and the rest goes on. Tables follow at the end.

Search translates sentences with random weights, or a model folder's cleaned text in fp32. Latency is the median time
of a batch. Training uses `nmt.training.trainer` in bf16 on synthetic text. ``tflops`` counts matrix products with
attention and output scores, without padding (`benchmarks.training.flops`). ``tflops_6np`` is 6 × parameters × target
pieces. ``peak_share`` compares ``tflops`` with square matrix products of 8,192 rows in bf16 in the same run.
``kernels`` is their number in an update of training or a step of search. ``busy`` is the time in them, as the profiler
measures it, as a share of the time that an update or step takes without the profiler.
"""

from importlib import metadata
from pathlib import Path

import click
import torch

from benchmarks.gpu import search, training
from benchmarks.gpu.records import Record, Records
from nmt.system import machine

COLUMNS = {"search": search.COLUMNS, "training": training.COLUMNS}


def environment(device: torch.device, peak: float) -> Record:
    """Describe hardware, versions and code; the code is unknown without git and without an installed package."""
    try:
        code = machine.code_version()
    except metadata.PackageNotFoundError:
        code = "unknown"
    known = {"part": "environment", "peak_tflops": peak, "code": code, "cuda": torch.version.cuda}
    return known | machine.hardware(device) | machine.versions()


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Results as JSON lines.")
@click.option("--parts", default=",".join(COLUMNS), show_default=True, help="Parts, in their order.")
@click.option("--seconds", default=300.0, show_default=True, help="Time for each part.")
@click.option("--model", type=click.Path(path_type=Path, exists=True), help="Model folder for search.")
@click.option("--text", type=click.Path(path_type=Path, exists=True), help="Cleaned source text for --model.")
@click.option("--sentences", default=1000, show_default=True, help="Sentences that search translates.")
@click.option("--dry-run", is_flag=True, help="Tiny sizes, to try the script, on the CPU too.")
def main(
    out: Path, parts: str, seconds: float, model: Path | None, text: Path | None, sentences: int, dry_run: bool
) -> None:
    """Write results to --out, and print a table for each part."""
    names = parts.split(",")
    if unknown := [name for name in names if name not in COLUMNS]:
        raise click.BadParameter(f"expected {' or '.join(COLUMNS)}, got {unknown[0]!r}", param_hint="--parts")
    if bool(model) != bool(text):
        raise click.UsageError("--model and --text belong together: give both, or neither for random weights")
    device = machine.prepare("auto" if dry_run else "cuda")
    peak = machine.matrix_speed(torch.bfloat16, size=256 if dry_run else 8192, device=device.type) / 1e3
    records = Records(out)
    records.add(environment(device, peak))
    for name in names:
        if name == "search":
            records.measure(name, search.cases(device, model, text, sentences, dry_run), seconds)
        else:
            records.measure(name, training.cases(device, peak, dry_run), seconds)
    for name in names:
        print(f"\n{name}\n\n{records.table(name, COLUMNS[name])}")


if __name__ == "__main__":
    main()
