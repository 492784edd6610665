"""Warnings of the stages: a line on the terminal, and a record beside the output that is degraded.

The last words of the workflow and the notes of a table are made of these records. A record belongs to one output: the
warnings of ``hypotheses.txt`` are in ``hypotheses.txt.warnings.json``, those of the folder ``raw/`` in
``raw.warnings.json`` beside it. An output without warnings has no record.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nmt.system.errors import ConfigError, DataError
from nmt.system.files import build_stored, read_json, write_json

SUFFIX = ".warnings.json"


@dataclass(frozen=True)
class StageWarning:
    """What degrades the result of a stage, and what a reader can do about it."""

    stage: str  # name of the command
    kind: str  # a few words, the same for all warnings of a kind
    file: str  # what the warning is about
    count: int  # of lines, pairs, pictures …, as the text says
    text: str  # what happened, as a part of a sentence
    remedy: str  # what to do
    split: str = ""  # the split that the warning is about; empty: all of the output
    scores: bool = True  # whether scores made from the output can be affected

    def __str__(self) -> str:
        return f"{self.file}: {self.text}; {self.remedy}"


@dataclass
class _Recorder:
    """The warnings of a stage that is running; the record is written at each warning, before the stage's output."""

    stage: str
    output: Path | None
    warnings: list[StageWarning] = field(default_factory=list)

    def add(self, warning: StageWarning) -> None:
        self.warnings.append(warning)
        if self.output:
            write_json(record_of(self.output), [asdict(warning) for warning in self.warnings])


_NOBODY = _Recorder("", None)
_recorder: ContextVar[_Recorder] = ContextVar("recorder", default=_NOBODY)
_renamed: ContextVar[tuple[str, str]] = ContextVar("renamed", default=("", ""))


def record_of(output: Path) -> Path:
    """Return the file with the warnings of an output, which exists only if there are any."""
    return output.with_name(output.name + SUFFIX)


def read_warnings(output: Path) -> list[StageWarning]:
    """Return the warnings of an output; raises DataError if their record is damaged."""
    record = record_of(output)
    found = read_json(record, list) if record.is_file() else []
    return [build_stored(StageWarning, warning, record) for warning in found]


def say(text: str) -> None:
    """Print a warning on the terminal that no result depends on."""
    print(f"nmt: warning: {text.replace(*_renamed.get())}", file=sys.stderr)


def warn(
    kind: str, file: Path | str, count: int, text: str, remedy: str, *, split: str = "", scores: bool = True
) -> None:
    """Print a warning and record it, once if a stage is running; for the arguments see `StageWarning`."""
    recorder = _recorder.get()
    warning = StageWarning(recorder.stage, kind, str(file).replace(*_renamed.get()), count, text, remedy, split, scores)
    if warning in recorder.warnings:
        return
    say(str(warning))
    if recorder is not _NOBODY:
        recorder.add(warning)


@contextmanager
def renamed(folder: Path, name: str) -> Iterator[None]:
    """Let the warnings and errors of a block call a temporary folder by a name that tells the reader what it was."""
    token = _renamed.set((str(folder), name))
    try:
        yield
    except (ConfigError, DataError) as error:
        raise type(error)(str(error).replace(str(folder), name)) from None
    finally:
        _renamed.reset(token)


@contextmanager
def recorded(stage: str, output: Path | None) -> Iterator[None]:
    """Record the warnings of a block beside its output; without any, delete the record of an earlier run.

    Args:
        stage: the name of the stage's command.
        output: the file or folder that the stage writes. None for a process that does part of the work: it only prints.
    """
    recorder = _Recorder(stage, output)
    token = _recorder.set(recorder)
    if output and record_of(output).is_symlink():  # the record of shared results, which are made anew here
        record_of(output).unlink()
    try:
        yield
        outdated = not recorder.warnings
    except BaseException:
        outdated = bool(recorder.warnings) and output is not None and not output.exists()
        raise
    finally:
        _recorder.reset(token)
        if output and outdated:
            record_of(output).unlink(missing_ok=True)
