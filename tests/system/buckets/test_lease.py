"""The lock in a bucket: one owner, a lost machine's lock expires, and an owner that was replaced ends."""

import json
import sys
import threading
import time
from itertools import count
from pathlib import Path

import pytest

from nmt.system.buckets import lease as module
from nmt.system.buckets.lease import Lease, S3Object
from nmt.system.buckets.state import StoredState, run_with_state
from nmt.system.errors import DataError

LATER = 30.0


class Memory:
    """An object in memory, with conditional writes like S3's."""

    def __init__(self) -> None:
        self.content, self.version, self.lock = b"", "", threading.Lock()
        self.versions = count(1)

    def create(self, content: bytes) -> str | None:
        return Memory.replace(self, content, "")

    def replace(self, content: bytes, version: str) -> str | None:
        with self.lock:
            if self.version != version:
                return None
            self.content, self.version = content, f"v{next(self.versions)}"
            return self.version

    def read(self) -> tuple[bytes, str] | None:
        with self.lock:
            return (self.content, self.version) if self.version else None

    def delete(self) -> None:
        with self.lock:
            self.version = ""

    def change(self, **facts: object) -> None:
        """Write it as another process would."""
        with self.lock:
            self.content = json.dumps(json.loads(self.content or b"{}") | facts).encode()
            self.version = f"v{next(self.versions)}"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RENEWED", 0.05), ("EXPIRY", 0.4), ("LOOK", 0.02)):
        monkeypatch.setattr(module, name, value)


def other(place: Memory, **facts: object) -> None:
    """Let a process of another machine hold the lock."""
    place.change(**{"user": "eva", "host": "gpu7", "process": 12, "since": "today"} | facts)


def ignored() -> None:
    raise AssertionError("the lock was lost")


def test_a_lock_is_there_while_it_is_held_and_names_its_owner() -> None:
    place = Memory()
    with Lease(place, "s3://b/lock").held(ignored):
        assert place.version and json.loads(place.content).keys() >= {"user", "host", "process", "since"}
        first, end = place.version, time.monotonic() + LATER
        while place.version == first and time.monotonic() < end:
            time.sleep(0.01)
        assert place.version != first, "it is renewed"
    assert not place.version


def test_a_second_run_is_refused_while_the_first_is_alive(capsys: pytest.CaptureFixture[str]) -> None:
    place, ended = Memory(), threading.Event()
    other(place)

    def renew() -> None:
        while not ended.wait(0.05):
            other(place)

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        message = r"s3://b/lock: expected no other run .*, got one by eva on gpu7, process 12, since today; wait until"
        with pytest.raises(DataError, match=message), Lease(place, "s3://b/lock").held(ignored):
            raise AssertionError("two runs")
    finally:
        ended.set()
        thread.join()
    assert json.loads(place.content)["user"] == "eva"
    assert "locked by eva on gpu7" in capsys.readouterr().err


def test_the_lock_of_a_lost_machine_expires() -> None:
    place = Memory()
    other(place)
    begun = time.monotonic()
    with Lease(place, "s3://b/lock").held(ignored):
        assert time.monotonic() - begun >= 0.4 and json.loads(place.content)["user"] != "eva"


def test_the_lock_of_a_process_that_was_killed_here_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY", 3600.0)
    place, lease = Memory(), Lease(Memory(), "x")
    other(place, host=lease._facts["host"], process=2**22 + 1)  # above the largest number of a process
    with Lease(place, "s3://b/lock").held(ignored):
        assert json.loads(place.content)["user"] != "eva"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such facts")
@pytest.mark.parametrize("fact", ["boot", "namespace"])
def test_a_process_of_another_machine_or_container_of_that_name_is_not_taken_for_dead(fact: str) -> None:
    place = Memory()
    with Lease(place, "x").held(ignored):
        facts = json.loads(place.content)
    other(place, **facts | {fact: "another", "process": 2**22 + 1})
    begun = time.monotonic()
    with Lease(place, "s3://b/lock").held(ignored):
        assert time.monotonic() - begun >= 0.4, "it may be alive until its lock expires"


@pytest.mark.parametrize("lost", ["create", "replace"])
def test_a_lock_stays_ones_own_if_the_answer_to_a_write_was_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    place, taken, known = Memory(), list[str](), set[str]()
    write = getattr(place, lost)
    monkeypatch.setattr(place, lost, lambda *request: [write(*request), write(*request)][1])  # as boto3 repeats it
    with Lease(place, "s3://b/lock").held(lambda: taken.append("lost")):
        end = time.monotonic() + LATER
        while len(known) < 4 and not taken and time.monotonic() < end:
            known.add(place.version)
            time.sleep(0.01)
    assert len(known) == 4 and not taken and not capsys.readouterr().err
    assert not place.version, "it is released"


@pytest.mark.integration
def test_a_run_that_was_replaced_ends_and_sends_nothing_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Unused:
        def sizes(self) -> dict[str, int]:
            return {}

        def __getattr__(self, name: str) -> object:
            raise AssertionError(name)

    (tmp_path / "state").mkdir()
    (tmp_path / "state/log.jsonl").write_text("x")
    place = Memory()
    code = []
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    stored = StoredState(tmp_path / "state", Unused())  # type: ignore[arg-type]
    taker = threading.Timer(0.5, other, (place,))
    taker.start()
    code.append(run_with_state(stored, command, 60, Lease(place, "s3://b/lock")))
    taker.join()
    assert code == [143] and json.loads(place.content)["user"] == "eva"
    assert "another run has taken the lock, so this one ends" in capsys.readouterr().err


def test_a_server_without_conditions_costs_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    class Old(Memory):
        def create(self, content: bytes) -> str | None:
            raise NotImplementedError

    with Lease(Old(), "s3://b/lock").held(ignored):
        assert "no conditional writes" in capsys.readouterr().err


@pytest.mark.long
def test_a_real_server_writes_under_conditions(s3: None) -> None:
    import boto3

    boto3.resource("s3").create_bucket(Bucket="bucket")
    place = S3Object("s3://bucket/runs/state.lock")
    assert place.read() is None
    version = place.create(b"one")
    assert version and place.create(b"two") is None and place.read() == (b"one", version)
    renewed = place.replace(b"three", version)
    assert renewed and place.replace(b"four", version) is None and place.read() == (b"three", renewed)
    with Lease(S3Object("s3://bucket/runs/other.lock"), "other").held(ignored):
        assert S3Object("s3://bucket/runs/other.lock").read()
    place.delete()
    assert place.read() is None and place.replace(b"five", renewed) is None
