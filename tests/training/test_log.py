"""The log of a training: what a kill or a faulty disk may do to it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from nmt.system.files import read_json, read_records
from nmt.training.checkpoint import Checkpoints, Progress
from nmt.training.experiment import Experiment
from nmt.training.log import RECORD_EVERY, Log, ProgressMeter
from nmt.training.train import train

pytestmark = pytest.mark.integration  # whole trainings, killed at many places

TRAINING = {
    "batch": "512 tokens", "updates": 54, "checkpoint_every": "9 updates", "validate_every": "18 updates",
    "validation_bleu": False, "keep_last": 2, "keep_best": 1,
}  # fmt: skip
CONFIG = Experiment.model_validate(
    {"model": {"layers": 1, "width": 16, "ffn": 16, "heads": 2}, "training": TRAINING | {"schedule": {"warmup": 10}}}
)
TIMES = ("time", "process", "seconds", "tokens_per_second", "hardware")


class Killed(BaseException):
    """Ends a training as a kill does: nothing handles it."""


def run_to_end(encoded: Path, run: Path) -> Any:
    train(encoded, run, CONFIG, 1, "cpu", 1, "copy/small")
    return read_json(run / "training.json")


def content(run: Path) -> list[dict[str, Any]]:
    """The log without times, and without the starts, one of which each attempt adds."""
    records = [record for _, record in read_records(run / "log.jsonl") if record["event"] != "start"]
    return [{key: value for key, value in record.items() if key not in TIMES} for record in records]


@pytest.fixture(scope="module")
def undisturbed(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed")
    run_to_end(small_corpus, run)
    return run


@pytest.mark.parametrize("call", [2, 6])  # in the middle, and the last one
@pytest.mark.parametrize("saved", [False, True])
def test_a_kill_beside_a_checkpoint_loses_no_record(
    small_corpus: Path,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: int,
    saved: bool,
) -> None:
    """The process ends just before, or just after, a checkpoint has its name; the next one writes the same log."""
    save, calls = Checkpoints.save, [0]

    def killed(self: Checkpoints, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == call and not saved:
            raise Killed
        save(self, *arguments)
        if calls[0] == call:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Checkpoints, "save", killed)
        run_to_end(small_corpus, tmp_path)
    assert capsys.readouterr().err.startswith("copy/small, seed 1  begins; 54 updates at most\n")
    resumed = run_to_end(small_corpus, tmp_path)
    assert (
        f"copy/small, seed 1  goes on after update {9 * (call if saved else call - 1)}; 54" in capsys.readouterr().err
    )
    assert content(tmp_path) == content(undisturbed) and len(content(undisturbed)) == 2 + 3 + 6
    expected = read_json(undisturbed / "training.json")
    assert resumed["checkpoints"] == expected["checkpoints"]
    losses = {record["loss"]: record["update"] for record in content(undisturbed) if record["event"] == "valid"}
    kept = {checkpoint["update"] for checkpoint in expected["checkpoints"]}
    assert len(losses) == 3 and kept == {45, 54, losses[min(losses)]}  # the last two and the best


def test_a_damaged_log_costs_its_damaged_lines_and_not_the_training(
    small_corpus: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_end(small_corpus, tmp_path)
    log = tmp_path / "state" / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    odd = [b"\xff\xfe\n", b"5\n", b'{"update": 1}\n', b'{"event": "train", "update": "9"}\n', b"[" * 100_000 + b"\n"]
    log.write_bytes(b"".join([*lines[:3], *odd, *lines[3:], b'{"event": "tr\xe9']))
    (tmp_path / "training.json").unlink()
    run_to_end(small_corpus, tmp_path)
    assert f"5 of {len(lines) + 5} lines are no records and are left out" in capsys.readouterr().err
    assert content(tmp_path) == content(undisturbed)
    assert all(json.loads(line) for line in log.read_text().splitlines())


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*/log\.jsonl'"):
        Log(tmp_path / "log.jsonl").write({"event": "train", "update": 1})


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.001, [200, 220]), (0.4, [100, 200, 220]), (1.0, [50, 100, 150, 200, 220])]
)
def test_a_slow_training_shows_more_of_its_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: float, shown: list[int]
) -> None:
    """Nobody waits longer for a line than 30 seconds and the updates up to the next record."""
    clock, progress = [0.0], Progress()
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    with ProgressMeter(220, progress) as meter:
        for progress.update in range(1, 221):
            clock[0] += seconds
            meter.tick(progress)
            if progress.update % RECORD_EVERY == 0 or progress.update == 220:
                meter.show_training(
                    {"event": "train", "update": progress.update, "epoch": 1.0, "loss": 1.0, "accuracy": 0.5,
                     "learning_rate": 0.1, "tokens_per_second": 100, "seconds": clock[0]}
                )  # fmt: skip
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "begins; 220 updates at most"
    assert [int(line.split()[2]) for line in lines[1:]] == shown


def test_a_validation_loss_that_is_no_number_is_the_worst() -> None:
    progress = Progress()
    assert [progress.add_validation(loss, None, "loss") for loss in (math.nan, 3.0, math.nan, 1.0)] == [
        True, True, False, True,
    ]  # fmt: skip
