"""Common parts of the benchmarks: processes, memory, the machine's peak speed, tables, the document."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config.data import Cleaning
from nmt.system import machine
from nmt.system.files import write_text

ROOT = Path(__file__).parent.parent
ARCHIVE = Path(__file__).with_name("archive")
# Results of `make run`:
TRAINED = Path("results/runs/scenes/tiny/seed1/best/model")
TEXT = Path("results/corpora/scenes/en-de", Cleaning().slug("clean"), "test.en")


class Failed(Exception):
    """A process failed. The message gives the reason in a few words."""


def process(module: str, *arguments: Any, path: Path | None = None) -> Any:
    """Run ``python -m benchmarks.{module} ARGUMENTS`` and return the JSON of its last line.

    Args:
        module: a module of this package.
        arguments: its command line.
        path: a folder with packages that take precedence over those of this environment.

    Raises:
        Failed: the process ended with an error; the message is the last line of the error.
    """
    places = [str(ROOT), *([str(path)] if path else [])]
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Failed(next(iter(reversed(done.stderr.strip().splitlines())), f"exit code {done.returncode}"))
    return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> float:
    """Return the peak memory of this process in MiB (VmHWM)."""
    match = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match, "Linux only"
    return int(match[1]) / 1024


def matrix_peak(threads: int) -> dict[str, float]:
    """Return the GFLOP/s of square matrix products, in fp32 with the faster of torch's two kernels, and in bf16.

    A processor without instructions for bf16 has no number for it: trainings compute in fp32 there.
    """
    import torch

    device = machine.prepare("cpu", threads)
    chosen, fp32 = torch.get_float32_matmul_precision(), []
    for precision in ("highest", chosen):
        torch.set_float32_matmul_precision(precision)
        fp32.append(machine.matrix_speed(torch.float32))
    torch.set_float32_matmul_precision(chosen)
    speeds = {"fp32": max(fp32)}
    return speeds | ({"bf16": machine.matrix_speed(torch.bfloat16)} if machine.has_bfloat16(device) else {})


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def middle(values: Sequence[float], digits: int = 0) -> tuple[str, str]:
    """Return the median of some values, and their minimum and maximum, as text."""
    return f"{statistics.median(values):,.{digits}f}", f"{min(values):,.{digits}f}–{max(values):,.{digits}f}"


def environment(threads: int) -> str:
    """Describe the hardware, the versions and the code; without a date."""
    import torch

    torch.set_num_threads(threads)
    hardware = machine.hardware(torch.device("cpu"))
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions().items())
    return (
        f"{hardware['processor']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB; {threads} threads; "
        f"{versions}; code {machine.code_version()}"
    )


def section(document: Path, heading: str, title: str, text: str) -> None:
    """Write a section into a document: in place of the section with its title, else at the end.

    Args:
        document: the file; a new one begins with the heading.
        heading: title of the document.
        title: title of the section.
        text: the section.
    """
    whole = document.read_text(encoding="utf-8") if document.is_file() else f"# {heading}\n"
    head, *parts = re.split(r"^## ", whole, flags=re.MULTILINE)
    sections = dict(part.split("\n", 1) for part in parts)
    sections[title] = f"\n{text.strip()}\n\n"
    write_text(document, head.rstrip() + "\n\n" + "".join(f"## {name}\n{body}" for name, body in sections.items()))
