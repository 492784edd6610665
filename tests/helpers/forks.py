"""Processes that are forked from one that has imported torch and Snakemake, which takes a new process seconds."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any

import guards

from nmt.cli.main import main
from nmt.system.interrupt import SIGNALS

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.cli", "nmt.training.train", "nmt.translation.decode_file"])


def start(said: Path, env: Mapping[str, str], target: Callable[..., object], *arguments: object) -> BaseProcess:
    """Call a module's function in a process of its own, with this environment; its output is added to a file."""
    process = FORKS.Process(target=_run, args=(said, dict(env), target, arguments))
    process.start()
    return process


def stop(process: BaseProcess, number: int) -> int | None:
    """Send a signal, 0 for none, to a process that may have ended; return its exit code at its end."""
    with suppress(ProcessLookupError):
        os.kill(process.pid or 0, number)
    process.join()
    return process.exitcode


class Command:
    """What `subprocess.Popen` makes of ``python -m nmt STAGE …``, but forked from this process, which has torch."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], stdout: IO[str], **_: object) -> None:
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_run_stage, args=(command[3:], dict(env), stdout.fileno()))
        self._process.start()
        self.terminate, self.kill = self._process.terminate, self._process.kill

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float | None = None) -> None:
        self._process.join(seconds)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("nmt", seconds or 0)


def _run_stage(arguments: Sequence[str], env: dict[str, str], output: int) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    os.environ.update(env)
    os._exit(exit_code(arguments))  # a thread of a pool may have forked this process, whose end waits for the pool's


def exit_code(arguments: Sequence[str]) -> int:
    """Run a command of ``nmt`` in this process, which shall end with the code returned."""
    code: Any = 0
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code)


def _run(said: Path, env: dict[str, str], target: Callable[..., object], arguments: tuple[object, ...]) -> None:
    stream = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.environ.clear()
    os.environ.update(env)
    target(*arguments)
    peak = max(resource.getrusage(who).ru_maxrss for who in guards.KINDS.values())
    assert peak < guards.LIMIT * 1024, f"a process of {peak} KiB"
