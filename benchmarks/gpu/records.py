"""Results of the GPU benchmark: one JSON line each, written as soon as it is measured; a table at the end."""

import gc
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import table

LEAST = 0.02  # of a part's time; with less left, no measurement starts
Record = dict[str, Any]
Measurement = Callable[[float], Record]
"""From the seconds that the measurement should take to its results."""


class Records:
    """The results so far, also in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self.all: list[Record] = []

    def add(self, record: Record) -> None:
        """Write a result at once."""
        self.all.append(record)
        text = json.dumps(record, ensure_ascii=False)
        print(text, file=self._file, flush=True)
        print(text, flush=True)

    def measure(self, part: str, cases: Sequence[tuple[Record, Measurement]], seconds: float) -> None:
        """Measure the cases of a part one after the other, and share its time among them.

        A case that fails is recorded with its error. A case that no time is left for is recorded as skipped.

        Args:
            part: name of the part.
            cases: for each case, what describes it, and the measurement.
            seconds: for the whole part.
        """
        ends = time.perf_counter() + seconds
        for number, (case, measurement) in enumerate(cases):
            started = time.perf_counter()
            record = {"part": part} | case
            if ends - started < LEAST * seconds:
                self.add(record | {"skipped": "no time left"})
                continue
            free_memory()
            try:
                record |= measurement((ends - started) / (len(cases) - number))
            except Exception as error:  # the other cases may succeed
                record["error"] = f"{type(error).__name__}: {error}"[:500]
            self.add(record | {"took_s": round(time.perf_counter() - started, 2)})

    def table(self, part: str, columns: Sequence[str]) -> str:
        """Format the results of a part as a Markdown table; a case without results shows why."""
        rows = []
        for record in (record for record in self.all if record["part"] == part):
            cells = [_cell(record.get(column, "–")) for column in columns]
            if why := record.get("error") or record.get("skipped"):
                cells[cells.index("–")] = str(why).split("\n")[0][:80]
            rows.append(cells)
        return table(columns, rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def wait(device: torch.device) -> float:
    """Wait until the device has done all its work; return the clock in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def free_memory() -> None:
    """Free what an earlier case held on the GPU, and measure peak memory anew."""
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory() -> Record:
    """Return the peak GPU memory of tensors and of PyTorch's allocator in MiB; nothing without a GPU."""
    if not torch.cuda.is_available():
        return {}
    peaks = {"tensors": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    return {f"{name}_mib": round(size / 2**20) for name, size in peaks.items()}
