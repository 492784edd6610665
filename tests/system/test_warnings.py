"""Warnings: printed, recorded beside the output, and gone when a run has none."""

from pathlib import Path

import pytest

from nmt.system.errors import DataError
from nmt.system.warnings import read_warnings, record_of, recorded, warn


def build(output: Path, *counts: int, fails: bool = False) -> None:
    with recorded("stage", output):
        for count in counts:
            warn("kind", "some.file", count, f"{count} lines are wrong", "mend them", split="test")
        if fails:
            raise DataError("failed")
        output.write_text("made")


def test_a_record_lies_beside_the_output_and_goes_with_the_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.txt"
    build(output, 3, 3, 2)
    assert [(w.stage, w.count, w.split) for w in read_warnings(output)] == [("stage", 3, "test"), ("stage", 2, "test")]
    assert "nmt: warning: some.file: 2 lines are wrong; mend them\n" in capsys.readouterr().err
    with pytest.raises(DataError):
        build(output, fails=True)
    assert len(read_warnings(output)) == 2  # the output is still that of the first run
    output.unlink()
    with pytest.raises(DataError):
        build(output, fails=True)
    assert len(read_warnings(output)) == 2  # perhaps of a process that is at work on the output
    build(output)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_a_linked_record_of_shared_results_is_replaced(tmp_path: Path) -> None:
    shared, output = tmp_path / "shared.txt", tmp_path / "out.txt"
    build(shared, 2)
    record_of(output).symlink_to(record_of(shared))
    build(output, 3)
    assert [w.count for w in (*read_warnings(shared), *read_warnings(output))] == [2, 3]


def test_a_stage_that_fails_leaves_no_record_without_output(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        build(tmp_path / "out.txt", 1, fails=True)
    assert list(tmp_path.iterdir()) == []


def test_outside_a_stage_a_warning_is_only_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with recorded("stage", None):  # one of several processes
        warn("kind", "some.file", 1, "text", "remedy")
    warn("kind", "some.file", 1, "text", "remedy")
    assert len(capsys.readouterr().err.splitlines()) == 2 and list(tmp_path.iterdir()) == []


def test_a_record_that_does_not_fit_is_named(tmp_path: Path) -> None:
    record_of(tmp_path / "out").write_text('[{"what": 1}]')
    with pytest.raises(DataError, match=r"out\.warnings\.json: does not fit"):
        read_warnings(tmp_path / "out")
