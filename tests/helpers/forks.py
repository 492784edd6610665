"""Processes that are forked from one that has imported torch and Snakemake, which takes a new process seconds."""

import multiprocessing
import os
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import guards

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


def _run(said: Path, env: dict[str, str], target: Callable[..., object], arguments: tuple[object, ...]) -> None:
    stream = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.environ.clear()
    os.environ.update(env)
    target(*arguments)
    peak = max(resource.getrusage(who).ru_maxrss for who in guards.KINDS.values())
    assert peak < guards.LIMIT * 1024, f"a process of {peak} KiB"
