"""A pytest plugin that guards the test lanes: unit tests start no process, and no test process grows above 2 GB."""

import gc
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STARTS_PROCESS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
"""Python's audit events of a process that starts another one."""
ALLOWED = {"git", "nvidia-smi", "uname"}
"""Programs that only tell something, and end at once: the version of the code, the GPUs, the system."""
LIMIT = 2000  # MiB
KINDS = {"test process": resource.RUSAGE_SELF, "process that a test started": resource.RUSAGE_CHILDREN}
started: list[str] = []
"""What the current unit test has started."""
guarded, peaks = [False], dict.fromkeys(KINDS, 0)
forked = 0
"""Peak memory, in KiB, of the processes of forks, which are no children of this process."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in STARTS_PROCESS or not guarded[0]:
        return
    program = Path(str(arguments[0])).name if arguments else event
    if program not in ALLOWED:
        started.append(program)
        raise RuntimeError(f"a unit test starts {program}: mark it integration or long")


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_audit)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # libraries stay; without them each collection takes a fraction of the time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guard the whole test, with the fixtures that it makes."""
    guarded[0] = not any(item.get_closest_marker(name) for name in ("integration", "long"))
    started.clear()
    try:
        return (yield)
    finally:
        guarded[0] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a unit test that has started a process, even if the code under test hides it; and the first large test."""
    outcome = yield
    if started:
        pytest.fail(f"a unit test has started {', '.join(started)}: mark it integration or long", pytrace=False)
    for kind, memory in _measure().items():
        if memory > LIMIT >= peaks[kind]:
            peaks[kind] = memory
            pytest.fail(f"a {kind} has grown to {memory} MiB; expected at most {LIMIT}", pytrace=False)
    return outcome


def _measure() -> dict[str, int]:
    """Return the peak memory so far by kind, in MiB; of several processes it is that of the largest."""
    own, children = (resource.getrusage(who).ru_maxrss for who in KINDS.values())
    return dict(zip(KINDS, (own // 1024, max(children, forked) // 1024), strict=True))


def pytest_sessionfinish(session: pytest.Session) -> None:
    for kind, memory in _measure().items():
        peaks[kind] = max(peaks[kind], memory)
    if hasattr(session.config, "workeroutput"):  # a worker of xdist
        session.config.workeroutput["peaks"] = peaks


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the peaks of a worker of xdist that has ended."""
    for kind, memory in getattr(node, "workeroutput", {}).get("peaks", {}).items():
        peaks[kind] = max(peaks[kind], memory)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shown = ", ".join(f"{memory} MiB by a {kind}" for kind, memory in peaks.items())
    terminalreporter.write_line(f"largest memory: {shown} (at most {LIMIT})")
