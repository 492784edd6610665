"""Work that copies of this process share out."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from copytask import copy_lines

from nmt.system.errors import DataError
from nmt.system.files import read_json
from nmt.system.interrupt import signal_handlers
from nmt.system.workers import PER_CORE, parallel_map, prefetch, processes_for, stream_map


@pytest.mark.integration
def test_results_come_in_order_whoever_made_them() -> None:
    held = list(range(1000))  # what a copy has without being sent it

    def work(n: int) -> tuple[int, int]:
        time.sleep(0.01 * (n % 3))
        return held[n] ** 2, os.getpid()

    found = list(parallel_map(work, range(20), 3))
    assert [square for square, _ in found] == [n**2 for n in range(20)]
    makers = {maker for _, maker in found}
    assert len(makers) > 1 and os.getpid() not in makers
    assert {maker for _, maker in parallel_map(work, range(20), 1)} == {os.getpid()}


@pytest.mark.integration
def test_an_error_is_the_callers_and_a_killed_process_is_named() -> None:
    def fail(n: int) -> int:
        return 1 // n

    def die(n: int) -> None:
        if n == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ZeroDivisionError):
        list(parallel_map(fail, [2, 1, 0], 2))
    with pytest.raises(DataError, match="expected 2 processes, one was killed, most likely because"):
        list(parallel_map(die, [0, 1, 2], 2))


@pytest.mark.integration
def test_a_process_that_only_notes_signals_outlives_a_killed_copy() -> None:
    def work(n: int) -> None:
        if n == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    started = time.monotonic()
    with signal_handlers(lambda *_: None), pytest.raises(DataError, match="one was killed"):
        list(parallel_map(work, [0, 1], 2))
    assert time.monotonic() - started < 30


@pytest.mark.integration
def test_a_stream_is_never_read_far_ahead() -> None:
    taken = 0

    def numbers() -> Iterator[int]:
        nonlocal taken
        while taken < 50:
            taken += 1
            yield taken

    with stream_map(2) as run:
        for done, root in enumerate(run(math.isqrt, numbers()), 1):
            assert root == math.isqrt(done) and taken - done <= 4
    assert taken == 50


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.integration
def test_a_killed_worker_of_a_stream_is_reported() -> None:
    with pytest.raises(DataError, match=r"expected 2 processes, one was killed.*fewer jobs"), stream_map(2) as run:
        list(run(die, [1]))


ENDLESS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from nmt.system.workers import parallel_map, stream_map
import torch
torch.set_num_threads(1)
def work(n):
    open(f"{sys.argv[2]}/{os.getpid()}", "w").close()
    time.sleep(600)
if sys.argv[3] == "copies":
    list(parallel_map(work, [1, 2], 2))
with stream_map(2) as run:
    list(run(work, [1, 2]))
"""


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["copies", "stream"])
def test_processes_end_with_their_parent_that_is_killed(tmp_path: Path, kind: str) -> None:
    here = Path(__file__).parent.parent.parent
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(here), str(tmp_path), kind])
    while len(copies := [int(file.name) for file in tmp_path.iterdir()]) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(_alive(copy) for copy in copies) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_alive(copy) for copy in copies)


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.integration
@pytest.mark.parametrize("command", ["decode", "translate"])
def test_translations_do_not_depend_on_how_many_share_them_out(model: Path, tmp_path: Path, command: str) -> None:
    lines = copy_lines(400, 5)
    (tmp_path / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    for threads in (1, 2):
        out = tmp_path / str(threads) / "hypotheses.txt"
        rest = [str(tmp_path / "source.txt"), *([str(out)] if command == "decode" else ["--out", str(out)])]
        call = [sys.executable, "-m", "nmt", command, str(model), *rest, "--device=cpu", f"--threads={threads}"]
        out.parent.mkdir()
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    one, two = ((tmp_path / str(threads) / "hypotheses.txt").read_bytes() for threads in (1, 2))
    assert one == two and one.count(b"\n") == 400
    if command == "decode":
        assert [read_json(tmp_path / n / "decoding.json")["hardware"]["workers"] for n in ("1", "2")] == [1, 2]


def test_one_item_is_made_while_the_one_before_it_is_in_use() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(4):
            made.append(number)
            yield number

    found = []
    for item in prefetch(items()):
        found.append(item)
        for _ in range(500):
            if made == list(range(min(item + 2, 4))):
                break
            time.sleep(0.01)
        assert made == list(range(min(item + 2, 4)))
    assert found == made == [0, 1, 2, 3]


def test_what_goes_wrong_while_an_item_is_made_is_told_when_it_is_asked_for() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise DataError("row 2 is damaged")

    found = prefetch(items())
    assert next(found) == 1
    with pytest.raises(DataError, match="row 2"):
        next(found)


def test_processes_are_bounded_by_the_cores() -> None:
    cores = len(os.sched_getaffinity(0))
    assert processes_for("cpu", 1) == 1 and processes_for("cpu", 1024) == PER_CORE * cores
