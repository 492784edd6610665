"""Progress in a log: nothing for short stages, else lines with the time that is left."""

import pytest

from nmt.system import progress
from nmt.system.progress import Progress, remaining


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_long_stage_says_how_far_it_is_and_what_is_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("clean train", 1000, "line") as shown:
        for _ in range(10):
            clock[0] += 9
            shown.update(100)
    assert capsys.readouterr().err.splitlines() == [
        "nmt: clean train: 200 of 1,000 lines, 1:12 to go",
        "nmt: clean train: 600 of 1,000 lines, 0:36 to go",
        "nmt: clean train: 1,000 of 1,000 lines, 0:00 to go",
    ]


def test_what_an_earlier_run_has_done_does_not_count_for_the_speed(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("features", 1000, "image", done=900) as shown:
        clock[0] += 20
        shown.update(50)
    assert capsys.readouterr().err == "nmt: features: 950 of 1,000 images, 0:20 to go\n"


def test_a_short_stage_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("encode", 10, "line") as shown:
        clock[0] += 9.9
        shown.update(10)
    assert capsys.readouterr().err == ""


def test_remaining() -> None:
    assert [remaining(seconds) for seconds in (5, 65, 7205)] == ["0:05 to go", "1:05 to go", "2:00:05 to go"]
