"""Trainings within a budget, without Snakemake, which then takes what is there as done."""

import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forks
import pytest
import yaml
from snakes import ROOT, Project, jobs

from nmt.cli.main import main
from nmt.config.system import System
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.plan.plan import Plan
from nmt.reproduce import budget
from nmt.reproduce.budget import Clock
from nmt.reproduce.cost import remaining_pieces, total_pieces
from nmt.reproduce.runs import Run
from nmt.system.locks import exclusive

SYSTEM: dict[str, Any] = {
    "corpus": "scenes",
    "languages": "en-de",
    "subwords": {"size": 200},
    "model": {"layers": 1, "width": 32, "ffn": 64, "heads": 2},
    "training": {
        "batch": "512 tokens",
        "updates": 12,
        "checkpoint_every": "6 updates",
        "validation_bleu": False,
        "schedule": {"kind": "constant", "peak": 0.001, "warmup": 0},
    },
}
DECODING = {"beam": 1, "length_factor": 1.0, "length_extra": 5}


def table(**systems: dict[str, Any]) -> dict[str, Any]:
    rows = [{"label": name, "system": name, "at": "average 2", "decoding": DECODING} for name in systems]
    return {"caption": "A trial", "tests": ["test"], "systems": systems, "rows": rows, "figures": ["loss"]}


def changed(**training: object) -> dict[str, Any]:
    return {**SYSTEM, "training": {**SYSTEM["training"], **training}}


TRIAL = table(short=SYSTEM)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A folder with encoded text, as it would be carried to a machine that can train and nothing else."""
    found = Project(tmp_path_factory.mktemp("lent"), {"trial": TRIAL}, limit=60)
    planned = found.snakemake("-n").stdout
    assert jobs(planned)["train"] == 1
    made = found.snakemake("inputs_trial")  # as docs/how-to/reproduce-without-snakemake.md says
    assert made.returncode == 0 and "train" not in jobs(made.stdout), made.stdout
    return found


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which Snakemake and MLflow cannot be imported."""
    for name in ("snakemake", "mlflow"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not here')\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "OMP_NUM_THREADS": "1"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nmt", "reproduce", *arguments]


def reproduce(
    project: Project, env: dict[str, str], *arguments: str, expected: int = 0
) -> subprocess.CompletedProcess[str]:
    """The command and its stages, forked, to its end, where Snakemake and MLflow cannot be imported."""
    out, err = project.folder / "out", project.folder / "err"
    out.unlink(missing_ok=True)
    process = forks.start(out, env, _reproduce, project.folder, err, arguments)
    process.join()
    assert process.exitcode == expected, err.read_text()
    return subprocess.CompletedProcess(arguments, expected, out.read_text(), err.read_text())


def _reproduce(folder: Path, err: Path, arguments: tuple[str, ...]) -> None:
    sys.modules |= {"snakemake": None, "mlflow": None}  # type: ignore[dict-item]
    budget.subprocess = types.SimpleNamespace(**vars(subprocess) | {"Popen": forks.Command})  # type: ignore[assignment]
    os.chdir(folder)
    with err.open("w", buffering=1) as sys.stderr:
        main(["reproduce", *arguments])


@pytest.mark.integration
def test_what_is_reproduced_without_the_workflow_is_done_for_it(project: Project, bare: dict[str, str]) -> None:
    assert "unfinished  trial/short seed 1" in reproduce(project, bare, "trial", "--minutes", "0.000001").stdout
    assert "done        trial/short seed 1" in reproduce(project, bare, "trial", "--minutes", "5").stdout
    assert (project.folder / "results/records/trial/short/seed1/training.json").is_file()
    left = jobs(project.snakemake("-n").stdout)
    assert left == {"all": 1, "track": 1, "track_table": 1}
    training = project.folder / "results/runs/trial/short/seed1/training.json"
    earlier = json.loads(training.read_text())
    del earlier["config"]["training"]["on_nan"]  # written before there was this key
    training.write_text(json.dumps(earlier))
    project.write("workflow/tables/trial.yaml", TRIAL | {"metrics": ["bleu", "bleu1"]})
    again = reproduce(project, bare, "trial", "trial", "--at-once", "9")
    assert ": training" not in again.stderr
    assert "BLEU-1" in (project.folder / "results/tables/trial.md").read_text()  # scored again
    assert reproduce(project, bare, "trial").stderr == "trial/short seed 1: done\n"  # nothing is made once more
    project.write("workflow/tables/trial.yaml", TRIAL)


@pytest.mark.integration
def test_a_test_set_that_has_changed_is_translated_and_scored_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    run = Run(Plan.load({"tables": ["trial"], "limit": 60}, "config.yaml"), "trial", "short", 1)
    row = run.rows[0]
    stages = lambda: [command[1] for command in run.scoring(row, "cpu", 1)]  # noqa: E731
    assert stages() == []
    raw, clean = run.texts(row)
    for text, made_anew in ((raw / "test.de", ["score"]), (clean / "test.en", ["decode"])):
        whole = text.read_bytes()
        text.write_bytes(whole + b"more\n")
        assert stages() == made_anew
        text.write_bytes(whole)


@pytest.mark.integration
def test_an_emptied_output_of_a_training_is_to_be_made_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    run = Run(Plan.load({"tables": ["trial"], "limit": 60}, "config.yaml"), "trial", "short", 1)
    assert run.is_trained()
    for name in ("training.json", "log.jsonl"):
        aside = (run.folder / name).rename(run.folder / "aside")  # with its time
        (run.folder / name).write_text("")
        assert not run.is_trained()
        aside.replace(run.folder / name)


@pytest.mark.integration
def test_lines_whose_attention_is_shown_are_translated_again_if_they_lack_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    for lines, made_anew in (([1], []), ([2], ["decode"])):  # of 60 lines, the first has attention, the second none
        project.write("workflow/tables/trial.yaml", TRIAL | {"sample_lines": lines})
        run = Run(Plan.load({"tables": ["trial"], "limit": 60}, "config.yaml"), "trial", "short", 1)
        assert [command[1] for command in run.scoring(run.rows[0], "cpu", 1)] == made_anew
    project.write("workflow/tables/trial.yaml", TRIAL)


@pytest.mark.integration
def test_what_is_restored_is_done_too(project: Project, bare: dict[str, str]) -> None:
    reproduce(project, bare, "trial")
    runs = project.folder / "results/runs/trial"
    runs.rename(runs.with_name("aside"))
    command = [sys.executable, "-m", "nmt", "restore", "trial", "--seed", "1", "--seed", "2"]
    done = subprocess.run(command, cwd=project.folder, env=bare, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "restored  trial/short seed 1"
    assert done.stdout.splitlines()[3] == "lacking   trial/short seed 2"
    left = jobs(project.snakemake("-n", "--config", "seeds=[1,2]").stdout)
    assert left == {
        "all": 1,
        "report": 1,
        "train": 1,
        "average": 1,
        "decode": 1,
        "score": 1,
        "track": 2,
        "track_table": 1,
    }
    assert "trial/short seed 1: done" in reproduce(project, bare, "trial").stderr
    shutil.rmtree(runs)
    runs.with_name("aside").rename(runs)


@pytest.mark.integration
@pytest.mark.long
def test_an_ensemble_is_made_when_all_its_models_are(project: Project, bare: dict[str, str]) -> None:
    system = changed(updates=4, checkpoint_every="4 updates") | {"seeds": [1, 2]}
    row = {"label": "both", "system": "short", "at": "last", "ensemble": True, "decoding": DECODING}
    project.write("workflow/tables/both.yaml", table(short=system) | {"rows": [row]})
    assert "both/short seed 1-2: done\nboth: results/tables/both.md\n" in reproduce(project, bare, "both").stderr
    assert "Nothing to be done" in project.snakemake("-n", "results/tables/both.md").stdout


@pytest.mark.integration
def test_a_later_end_goes_on_and_makes_the_rows_again(project: Project, bare: dict[str, str]) -> None:
    reproduce(project, bare, "trial")
    project.write("workflow/tables/trial.yaml", table(short=changed(updates=15)))
    done = reproduce(project, bare, "trial")
    assert ": training" in done.stderr
    run = project.folder / "results/runs/trial/short/seed1"
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [record["update"] for record in log if record["event"] == "start"] == [0, 12]
    (decoded,) = run.glob("average-2/test/greedy-*/decoding.json")
    assert json.loads((run / "training.json").read_text())["updates"] == 15
    assert decoded.stat().st_mtime > (run / "training.json").stat().st_mtime
    project.write("workflow/tables/trial.yaml", TRIAL)


@contextmanager
def started(project: Project, env: dict[str, str], *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The command under way, with SIGHUP as a terminal gives it, not as nohup does; ended in any case."""
    process = subprocess.Popen(
        command(*arguments), cwd=project.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def endless(project: Project) -> Path:
    """The folder of a training that only a signal or a budget can end."""
    project.write(
        "workflow/tables/endless.yaml", table(endless=changed(updates=100_000, checkpoint_every="9000 updates"))
    )
    folder = project.folder / "results/runs/endless/endless/seed1"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.long)])
def test_a_training_that_a_signal_ends_saves_what_it_has(
    project: Project, bare: dict[str, str], endless: Path, number: signal.Signals
) -> None:
    log = endless / "state/log.jsonl"
    with started(project, bare, "endless") as process:
        while not log.is_file() or '"train"' not in log.read_text():
            time.sleep(0.05)
        process.send_signal(number)
        err = process.communicate(timeout=200)[1]
    assert process.returncode == 128 + number and "run the same command again" in err
    assert list(endless.glob("state/checkpoints/update-*")) and not (endless / "training.json").exists()


@pytest.mark.integration
def test_a_training_whose_budget_is_spent_saves_what_it_has(
    project: Project, bare: dict[str, str], endless: Path
) -> None:
    for minutes in ("0.05", "0.2", "0.6", "1.8"):  # a busy machine may need more than the first to begin
        done = reproduce(project, bare, "endless", "--minutes", minutes)
        assert "unfinished  endless/endless" in done.stdout and not (endless / "training.json").exists()
        if list(endless.glob("state/checkpoints/update-*")):
            return
    pytest.fail(f"no checkpoint in {endless}")


@pytest.mark.integration
def test_a_run_that_another_command_makes_is_left_to_it(project: Project, bare: dict[str, str]) -> None:
    folder = project.folder / "results/runs/trial/short/seed1"
    with exclusive(folder / "reproduce.lock", folder):
        done = reproduce(project, bare, "trial", "--seed", "1", expected=1)
    assert (
        f"process {os.getpid()} on {platform.node()} is at work here" in done.stderr
        and "failed      trial/short seed 1" in done.stdout
    )


@pytest.mark.integration
def test_text_that_is_not_there_is_asked_for(tmp_path: Path, bare: dict[str, str]) -> None:
    lacking = Project(tmp_path / "lacking", {"trial": table(short=SYSTEM)}, limit=60)
    told = reproduce(lacking, bare, "trial", expected=1).stderr
    assert "left out, inputs are missing: results/encoded" in told
    assert "copy them here: snakemake --cores all inputs_trial\n" in told
    assert (
        "trail.yaml: no such file; here are: trial; did you mean 'trial'?"
        in reproduce(lacking, bare, "trail", expected=1).stderr
    )


@pytest.mark.integration
def test_a_failed_training_is_named_and_the_others_go_on(project: Project, bare: dict[str, str]) -> None:
    whole = changed(updates=2, checkpoint_every="1 updates")
    broken = whole | {"model": {**SYSTEM["model"], "max_positions": 3}}  # no sentence is that short
    project.write("workflow/tables/broken.yaml", table(broken=broken, whole=whole))
    done = reproduce(project, bare, "broken", expected=1)
    assert "failed      broken/broken seed 1" in done.stdout and "done        broken/whole seed 1" in done.stdout
    assert "logs/reproduce/broken/broken-seed1.log" in done.stderr


@pytest.mark.integration
@pytest.mark.long
def test_a_parent_is_trained_before_the_system_that_starts_from_it(project: Project, bare: dict[str, str]) -> None:
    child = SYSTEM | {"initialise": {"system": "trial/short", "at": "last"}, "model": {"layers": 2}}
    project.write("workflow/tables/tuned.yaml", table(tuned=child))
    shutil.rmtree(project.folder / "results/runs/trial", ignore_errors=True)
    said = reproduce(project, bare, "tuned", "--at-once", "2")
    assert said.stdout.splitlines()[0] == "done        trial/short seed 1, tuned/tuned seed 1"
    runs = project.folder / "results/runs"
    parent = json.loads((runs / "trial/short/seed1/last/model/provenance.json").read_text())
    made = json.loads((runs / "tuned/tuned/seed1/training.json").read_text())
    assert made["initialise"]["weights_sha256"] == parent["weights_sha256"]
    assert made["initialise"]["decoder_layers"] == {"taken": 1, "new": 1, "left_out": 0}
    assert not list(runs.glob("trial/short/seed1/*/test"))  # no row of the parent's table is made
    assert jobs(project.snakemake("-n", "table_tuned").stdout) == {"table_tuned": 1, "track": 1, "track_table": 1}
    page = (project.folder / "results/tables/tuned.md").read_text()
    assert parent["weights_sha256"][:12] in page and "starts from the weights" in page
    (project.folder / "workflow/tables/tuned.yaml").unlink()


@pytest.mark.integration
def test_what_is_cheaper_to_finish_comes_first(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    wide = SYSTEM | {"model": {**SYSTEM["model"], "width": 64}}
    project.write("workflow/tables/costs.yaml", table(short=SYSTEM, long=changed(updates=24), wide=wide))
    plan = Plan.load({"tables": ["costs"], "limit": 60}, "config.yaml")
    costs = {run.name: run.cost() for run in (Run(plan, "costs", *run) for run in plan.runs("costs"))}
    assert costs["long"] == 2 * costs["short"]
    assert 2 * costs["short"] < costs["wide"]  # embeddings twice, the matrices between them four times
    shutil.copytree("results/runs/trial/short/seed1/state", "results/runs/costs/long/seed1/state")
    damaged = sorted(Path("results/runs/costs/long/seed1/state/checkpoints").glob("update-*"))[-1] / "progress.json"
    run = Run(plan, "costs", "long", 1)
    left = run.cost()
    assert left < costs["long"]
    damaged.write_text("")
    assert left < run.cost() < costs["long"]  # the checkpoint before it counts


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"epochs": 3, "batch": "64 sentences"}, 3 * 1200),
        ({"updates": 5, "batch": "10 sentences"}, 5 * 10 * 12),
        ({"updates": 5, "batch": "50 tokens", "accumulate": 2}, 5 * 100),
        ({"updates": 5, "epochs": 100, "batch": "50 tokens"}, 250),
    ],
)
def test_pieces_of_a_training(training: dict[str, Any], expected: float) -> None:
    system = System.model_validate(yaml.safe_load("{corpus: scenes, languages: en-de}") | {"training": training})
    assert total_pieces(system, {"sentences": 100, "target_pieces": 1200}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("consistency", "done", "expected"),
    [(None, 100, 400), ({}, 100, 800), ({"last": 3}, 100, 400 + 300), ({"last": 3}, 300, 400), ({"last": 3}, 600, 0)],
)
def test_pieces_of_two_passes_count_twice(consistency: dict[str, int] | None, done: int, expected: float) -> None:
    training = {"updates": 5, "batch": "50 tokens", "accumulate": 2, "consistency": consistency}
    system = System.model_validate({"corpus": "scenes", "languages": "en-de", "training": training})
    assert remaining_pieces(system, {"sentences": 100, "target_pieces": 1200}, done) == expected


def test_trainings_share_the_cores_also_where_the_system_does_not_count_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")  # as on macOS
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    called: list[list[str]] = []
    monkeypatch.setattr(budget, "_call", lambda command, *_: called.append(command))
    plan = Plan(Workflow.model_validate({"tables": ["trial"]}), {"trial": Table.model_validate(TRIAL)})
    budget._make(Run(plan, "trial", "short", 1, rowless=True), Clock(0.0), 2)
    [command] = called
    assert command[:2] == ["nmt", "train"] and command[command.index("--threads") + 1] == "3"


def test_a_table_whose_name_has_a_dot_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("workflow/tables").mkdir(parents=True)
    Path("workflow/tables/mine.v2.yaml").write_text(yaml.safe_dump(TRIAL))
    Path("config.yaml").write_text("tables: [mine.v2]\n")
    plan = Plan.load({"tables": ["mine.v2"]}, "config.yaml")
    other = Path("results/tables/mine.html")  # of a table with the first part of the name
    for file in (*plan.training_files("mine.v2"), *plan.scores("mine.v2"), other):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text("{}")
    called: list[list[str]] = []
    monkeypatch.setattr(budget, "_call", lambda command, *_: called.append(command))
    assert budget._report(plan, "mine.v2", Clock(math.inf))
    assert [command[:3] for command in called] == [["nmt", "report", "workflow/tables/mine.v2.yaml"]]
