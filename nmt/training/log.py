"""The log of a training: JSON lines for programs, a progress bar or plain lines for people."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from nmt.system import machine
from nmt.system.files import named_if_full, read_records, write_text
from nmt.system.progress import remaining
from nmt.system.warnings import say
from nmt.training.checkpoint import Progress

RECORD_EVERY = 50  # updates between two training records
LINE_EVERY = 4 * RECORD_EVERY  # updates between two lines for people, without a terminal
LINE_SECONDS = 30.0  # a slow training shows a record as soon as this time has passed


class Log:
    """``log.jsonl`` in the state folder: one JSON record per line. Only the first process of a training writes."""

    def __init__(self, path: Path, writes: bool = True) -> None:
        self._path, self._writes = path, writes

    def start(self, progress: Progress, hardware: dict[str, Any]) -> None:
        """Drop the records after the progress, because the training repeats them, and add a start record."""
        if not self._writes:
            return
        self._warn_of_damage()
        records = read_records(self._path)
        write_text(self._path, "".join(f"{line}\n" for line, r in records if r["update"] <= progress.update))
        self.write(
            {"event": "start", "update": progress.update, "time": time.time(), "process": os.getpid(),
             "hardware": hardware, "code_version": machine.code_version()}
        )  # fmt: skip

    def write(self, record: dict[str, Any]) -> None:
        """Append a record; readers only see whole lines."""
        if self._writes:
            with named_if_full(self._path), self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(record) + "\n")

    def flush(self) -> None:
        """Force all records to disk."""
        if self._writes:
            with self._path.open("a") as stream:
                os.fsync(stream.fileno())

    def records(self, update: int) -> Iterator[dict[str, Any]]:
        """Yield the records up to an update."""
        return (record for _, record in read_records(self._path) if record["update"] <= update)

    def _warn_of_damage(self) -> None:
        """Warn of whole lines without a record; half a line at the end is normal after a kill."""
        lines = self._path.read_bytes().count(b"\n") if self._path.is_file() else 0
        if damaged := lines - sum(1 for _ in read_records(self._path)):
            say(
                f"{self._path}: {damaged} of {lines} lines are no records and are left out; the weights are "
                "not affected"
            )


class ProgressMeter:
    """Measures time and speed of a training and shows them: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, total: int, progress: Progress, shown: bool = True, name: str = "") -> None:
        self._total, self._shown, self._name, self._bleu = total, shown, name, ""
        self._first = progress.update
        hidden = not (shown and sys.stderr.isatty())
        self._bar = tqdm(total=total, initial=progress.update, unit="update", disable=hidden, dynamic_ncols=True)
        self._ticked = self._printed = time.perf_counter()
        self._seconds, self._pieces = progress.seconds, progress.pieces  # at the last call of `speed`

    def __enter__(self) -> Self:
        """Say where the training begins, because the first record may be minutes away."""
        most = f"{self._total:,} updates at most"
        self._print(f"goes on after update {self._first:,}; {most}" if self._first else f"begins; {most}")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def tick(self, progress: Progress) -> None:
        """Count the time since the last tick as training: updates, data, validation and checkpoints alike."""
        now = time.perf_counter()
        progress.seconds += now - self._ticked
        self._ticked = now
        self._bar.update(progress.update - self._bar.n)

    def speed(self, progress: Progress) -> float:
        """Return target pieces per second since the last call."""
        pieces, seconds = progress.pieces - self._pieces, progress.seconds - self._seconds
        self._seconds, self._pieces = progress.seconds, progress.pieces
        return pieces / max(seconds, 1e-9)

    def show_training(self, record: dict[str, Any]) -> None:
        """Show a training record."""
        done = record["update"]
        if not self._bar.disable:
            self._bar.set_postfix(loss=f"{record['loss']:.3f}", tokens_s=record["tokens_per_second"])
        elif done % LINE_EVERY == 0 or done == self._total or time.perf_counter() > self._printed + LINE_SECONDS:
            self._print(f"{format_record(record)}{self._bleu}  {done}/{self._total}  {self._left(record)}")

    def show_validation(self, record: dict[str, Any]) -> None:
        """Show a validation record, with its BLEU and the time that is left."""
        self._bleu = f"  BLEU {record['bleu']:.2f}" if record.get("bleu") is not None else ""
        self._print(f"{format_record(record)}  {self._left(record)}")

    def _left(self, record: dict[str, Any]) -> str:
        done = record["update"]
        return remaining(round(record["seconds"] / max(1, done) * (self._total - done)))

    def _print(self, line: str) -> None:
        if self._shown:
            self._printed = time.perf_counter()
            tqdm.write(f"{self._name}  {line}" if self._name else line, file=sys.stderr)  # leaves the bar whole


def format_record(record: dict[str, Any]) -> str:
    """Return a training or validation record as one line for people."""
    parts = [f"{record['event']:5}", f"update {record['update']:6}", f"epoch {record['epoch']:6.2f}"]
    parts += [f"loss {record['loss']:.4f}", f"accuracy {100 * record['accuracy']:.1f} %"]
    if record.get("bleu") is not None:
        parts.append(f"BLEU {record['bleu']:.2f}")
    if "learning_rate" in record:
        parts += [f"rate {record['learning_rate']:.2e}", f"{record['tokens_per_second']:,} tokens/s"]
    return "  ".join(parts)
