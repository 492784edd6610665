"""Workflows at once on one results folder wait for each other's files, and for nothing else."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from snakes import ROOT, SYSTEM, TABLE, Project

from nmt.plan import claims
from nmt.plan.claims import Claims
from nmt.plan.load import load_settings
from nmt.system.errors import ConfigError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "POLL", 0.01)


def workflow(results: Path, name: str) -> Claims:
    """Another process's claims, as far as one process can stand for several."""
    made = Claims(results)
    made._own = made._folder / name
    return made


def taken(some: Claims, reads: list[str], writes: list[str]) -> bool:
    return some.take(some.files([some.results / name for name in reads], [some.results / name for name in writes]))


def test_files_that_nobody_else_writes_are_had_at_once(tmp_path: Path) -> None:
    assert taken(workflow(tmp_path, "a"), ["text"], ["model_a"])
    assert taken(workflow(tmp_path, "b"), ["text"], ["model_b"])


@pytest.mark.parametrize(
    ("reads", "writes"), [([], ["model"]), (["model"], []), ([], ["text"])], ids=["both write", "reads", "overwrites"]
)
def test_a_workflow_waits_until_the_other_has_finished_the_job(
    tmp_path: Path,
    reads: list[str],
    writes: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = workflow(tmp_path, "a"), workflow(tmp_path, "b")
    assert taken(first, ["text"], ["model", "other"])
    naps: list[float] = []

    def finish(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            first.keep(first.files([], [tmp_path / "other"]))

    monkeypatch.setattr(claims.time, "sleep", finish)
    assert taken(second, reads, writes)
    said = capsys.readouterr().err
    assert len(naps) == 3 and said.count(f"waiting for process {os.getpid()} on ") == 1
    assert ("jobs with model" in said) == ("text" not in writes)


def test_a_killed_workflow_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / ".workflows").mkdir()
    killed = tmp_path / ".workflows" / "vm-1"
    killed.write_text('{"host": "vm", "process": 1, "reads": [], "writes": ["model"]}')
    assert taken(workflow(tmp_path, "b"), [], ["model"]) and not killed.exists()
    killed.write_text("{")  # killed while it wrote
    assert taken(workflow(tmp_path, "c"), [], ["text"])


def test_a_plan_from_before_a_change_is_made_again(tmp_path: Path) -> None:
    late = workflow(tmp_path, "b")
    time.sleep(2 * claims.MARGIN)
    (tmp_path / "model").write_text("by another workflow")
    os.utime(tmp_path / "model", (0, 0))  # its date does not count
    assert not taken(late, [], ["model"])
    time.sleep(2 * claims.MARGIN)
    assert taken(workflow(tmp_path, "b"), [], ["model"])


def test_one_file_has_one_name_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "runs").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("real")
    monkeypatch.chdir(tmp_path / "real")
    here, there = Claims(Path()), Claims(tmp_path / "linked")
    assert here.files(["runs/model"], []) == there.files([tmp_path / "linked/runs/model"], [])
    assert not here.files(["/elsewhere"], []).conflicts(there.files(["/elsewhere"], []))


@pytest.mark.integration
def test_two_workflows_at_once_share_their_stages(tmp_path: Path) -> None:
    other = {**TABLE, "systems": {name: {**SYSTEM, "subwords": {"size": 99}} for name in TABLE["systems"]}}
    stub = f'"{sys.executable}" "{ROOT}/tests/helpers/stub.py" "$@"'
    wait = f"[ $1 != download ] || until grep -qs 'waiting for' {tmp_path}/said_*; do sleep 0.1; done"
    (tmp_path / "results/tables").mkdir(parents=True)
    (tmp_path / "results/tables/earlier.json").write_text("{}")  # for the last words
    running, said = [], [tmp_path / "said_one", tmp_path / "said_two"]
    for target, output in zip(("inputs_one", "inputs_two"), said, strict=True):  # they share raw and cleaned text
        project = Project(tmp_path / target, {"one": TABLE, "two": other}, results=str(tmp_path / "results"))
        project.env["BASH_FUNC_nmt%%"] = f'() {{ echo "$1 $2 $3" >> {tmp_path}/calls; {wait}; {stub}; }}'
        where = ["--snakefile", str(ROOT / "Snakefile"), "--directory", target, "--cores", "1", target]
        with output.open("w") as stream:
            command = [sys.executable, "-m", "snakemake", *where]
            running.append(subprocess.Popen(command, cwd=tmp_path, env=project.env, stdout=stream, stderr=stream))
    texts = [(process.wait(), output.read_text()) for process, output in zip(running, said, strict=True)]
    assert [code for code, _ in texts] == [0, 0], texts
    assert sum("planning again" in text for _, text in texts) == 1
    assert all("\nreport   nmt page results report.html" in text for _, text in texts)  # from the user's folder
    stages = [call.split()[0] for call in (tmp_path / "calls").read_text().splitlines()]
    assert sorted(stages) == ["clean", "download", "encode", "encode", "subwords", "subwords"]


def test_a_results_folder_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "config.yaml").write_text("tables: [scenes]\n")
    with pytest.raises(ConfigError, match=r"results: .*file/mine: expected a folder.*file is a file"):
        load_settings({"tables": ["scenes"], "results": str(tmp_path / "file" / "mine")}, str(tmp_path / "config.yaml"))
    held = Claims(tmp_path / "file")
    with pytest.raises(ConfigError, match="expected a folder that can be made and written"):
        held.take(held.files([], []))
