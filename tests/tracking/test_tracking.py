import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakes
import pytest

from nmt.plan.layout import Layout
from nmt.plan.systems import flatten
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json
from nmt.tracking import follow as following
from nmt.tracking import prepare as preparing
from nmt.tracking.follow import follow
from nmt.tracking.prepare import prepare
from nmt.tracking.publish import publish, publish_ensemble
from nmt.tracking.store import connect, deletions

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
DEAD = "http://127.0.0.1:9"
POINTS = 8 * 5 + 4 * 4  # of a log of 400 updates: training and validation records times their curves


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(following, "POLL", 0.02)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store takes MLflow seconds to make; most tests start from a copy."""
    folder = tmp_path_factory.mktemp("store")
    prepare(f"sqlite:///{folder}/mlflow.db", folder, {"other": fakes.table()}, [1])
    return folder / "mlflow.db"


class Case:
    """A trained system, scored, and a store."""

    def __init__(self, folder: Path, seeds: list[int], uri: str | None = None) -> None:
        self.layout, self.table, self.seeds = Layout(folder / "results"), fakes.table(), seeds
        self.tracking = self.layout.results / "tracking.json"
        fakes.write_results(self.layout, "toy", self.table, seeds)
        self.store = prepare(uri, self.layout.results, {"toy": self.table}, seeds)

    def run(self, seed: int) -> Path:
        return self.layout.run("toy", "small", seed)

    def scores(self, seed: int) -> Path:
        return self.layout.scores("toy", self.table.rows[0], "test", seed)

    def publish(self, seed: int = 1, figures: list[Path] | None = None) -> dict[str, Any]:
        return publish(self.run(seed), self.tracking, "toy", "small", seed, [self.scores(seed)], figures or [])

    def follow(self, pid: int, seed: int = 1) -> None:
        follow(self.run(seed), self.tracking, "toy", "small", seed, pid)

    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.store["uri"])

    def runs(self) -> list[Any]:
        return list(self.client().search_runs([self.store["experiments"]["toy"]]))

    def points(self, run: str) -> list[tuple[str, int, float]]:
        client = self.client()
        keys = client.get_run(run).data.metrics
        return [(p.key, p.step, p.value) for key in keys for p in client.get_metric_history(run, key)]


@pytest.fixture
def case(tmp_path: Path, empty_store: Path) -> Case:
    (tmp_path / "results").mkdir()
    shutil.copy(empty_store, tmp_path / "results" / "mlflow.db")
    return Case(tmp_path, [1])


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that stand for a training: they live until told to end."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def ended() -> int:
    """The id of a process that is no more."""
    one = subprocess.Popen([sys.executable, "-c", ""])
    one.wait()
    return one.pid


def test_prepare(tmp_path: Path) -> None:
    case = Case(tmp_path, [1, 2])
    again = prepare(None, case.layout.results, {"toy": case.table}, [1, 2])
    assert again == case.store == read_json(case.tracking)
    assert case.store["uri"] == f"sqlite:///{tmp_path}/results/mlflow.db"
    assert sorted(case.store["parents"]) == ["toy/large", "toy/small"]
    location = case.client().get_experiment(case.store["experiments"]["toy"]).artifact_location
    assert location == (tmp_path / "results" / "mlartifacts").as_uri()


def test_other_tables_keep_their_parents_and_get_no_experiment(case: Case) -> None:
    prepare(None, case.layout.results, {"toy": case.table}, [1, 2])
    store = prepare(None, case.layout.results, {"one": case.table}, [1])
    assert list(store["experiments"]) == ["one"]
    assert store["parents"] == {"toy/small": None, "toy/large": None}  # `publish` finds them again
    assert sorted(e.name for e in case.client().search_experiments()) == ["Default", "one", "other", "toy"]


def test_a_deleted_store_is_made_again_once(
    case: Case, empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = case.layout.results / "mlflow.db"
    write_json(case.run(1) / "tracked.json", case.publish())
    assert deletions(case.tracking) == 0
    database.unlink()
    assert deletions(case.tracking) == 1
    # MLflow would make the same in seconds.
    monkeypatch.setattr(preparing, "connect", lambda uri: shutil.copy(empty_store, database) and connect(uri))
    for _ in range(2):
        store = prepare(None, case.layout.results, {"toy": case.table}, [1])
        assert store["deletions"] == deletions(case.tracking) == 1
    assert capsys.readouterr().err.count("mlflow.db: was deleted; it is made anew") == 1
    assert case.publish()["status"] == "published"


def test_the_uri_of_the_environment(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{empty_store}")
    assert prepare(None, tmp_path, {}, [1])["uri"] == f"sqlite:///{empty_store}"
    shutil.copy(empty_store, tmp_path / "given.db")
    assert prepare(f"sqlite:///{tmp_path}/given.db", tmp_path, {}, [1])["uri"].endswith("given.db")


def test_a_deleted_experiment_is_restored(case: Case) -> None:
    case.client().delete_experiment(case.store["experiments"]["toy"])
    assert prepare(None, case.layout.results, {"toy": case.table}, [1]) == case.store
    assert case.publish()["status"] == "published"


def test_publish_is_complete(case: Case, tmp_path: Path) -> None:
    figure = tmp_path / "loss.png"
    figure.write_bytes(b"")
    run = case.client().get_run(case.publish(figures=[figure])["run"])
    assert run.info.status == "FINISHED"
    expected = {
        "model.layers": "6",
        "cleaning.lowercase": "true",
        "subwords.size": "8192",
        "seed": "1",
        "corpus": "toy",
    }
    assert expected.items() <= run.data.params.items()
    tags = run.data.tags
    assert (tags["nmt.table"], tags["nmt.system"], tags["nmt.seed"], tags["nmt.device"]) == ("toy", "small", "1", "cpu")
    assert tags["nmt.code_version"] == "0123456789ab"
    assert tags["nmt.data.train.source_sha256"] == "a" * 64
    assert tags["nmt.hardware.processor"] == "Abacus"
    place = f"test/test/epoch-2/{case.scores(1).name}"
    bleu = read_json(case.scores(1) / "scores.json")["tokenised"]["bleu"]["score"]
    assert run.data.metrics[f"{place}/tokenised.bleu"] == bleu
    assert run.data.metrics["training/seconds"] == 40
    artifacts = [file.path for file in case.client().list_artifacts(run.info.run_id)]
    assert artifacts == ["config.json", "figures", "log.jsonl", "test", "training.json"]
    inner = [file.path for file in case.client().list_artifacts(run.info.run_id, place)]
    assert inner == [f"{place}/samples.txt", f"{place}/scores.json"]


def curves(points: list[tuple[str, int, float]]) -> list[tuple[str, int, float]]:
    return [point for point in points if point[0].startswith(("train/", "valid/"))]


def test_curves(case: Case) -> None:
    points = curves(case.points(case.publish()["run"]))
    assert len(points) == len(set(points)) == POINTS
    assert ("train/learning_rate", 100, 0.001) in points
    assert ("valid/bleu", 400, 20) in points


def test_times_follow_the_log(case: Case) -> None:
    run = case.publish()["run"]
    assert [p.timestamp for p in case.client().get_metric_history(run, "valid/loss")] == [
        int(1000 * (1e9 + seconds)) for seconds in (10, 20, 30, 40)
    ]
    info = case.client().get_run(run).info
    assert (info.start_time, info.end_time) == (1_000_000_000_000, 1_000_000_040_000)


def test_publish_twice_is_the_same(case: Case) -> None:
    first = case.publish()
    before = case.points(first["run"])
    assert case.publish() == first
    assert case.points(first["run"]) == before
    assert len(case.runs()) == 1


def test_another_score_is_logged(case: Case) -> None:
    run = case.publish()["run"]
    scores = read_json(case.scores(1) / "scores.json")
    scores["tokenised"]["bleu"]["score"] = 12.5
    write_json(case.scores(1) / "scores.json", scores)
    assert case.publish()["run"] == run
    key = f"test/test/epoch-2/{case.scores(1).name}/tokenised.bleu"
    assert case.client().get_run(run).data.metrics[key] == 12.5


def test_another_configuration_is_another_run(case: Case) -> None:
    run = case.publish()["run"]
    training = read_json(case.run(1) / "training.json")
    training["identity"]["config"]["training"]["clip"] = 1.0
    write_json(case.run(1) / "training.json", training)
    assert case.publish()["run"] != run


@pytest.mark.integration
def test_a_longer_training_goes_on_in_its_run(case: Case, process: Callable[[], subprocess.Popen[bytes]]) -> None:
    run = case.publish()["run"]
    system = case.table.systems["small"]
    longer = system.model_copy(update={"training": system.training.model_copy(update={"epochs": 6})})
    fakes.write_run(case.run(1), longer, 1, updates=600)
    assert live(case, process(), 600) == run
    assert case.publish()["run"] == run
    found = case.client().get_run(run)
    assert (found.info.status, found.data.tags["nmt.training.epochs"]) == ("FINISHED", "6")
    points = curves(case.points(run))
    assert len(points) == len(set(points)) == POINTS * 1.5


def live(case: Case, process: subprocess.Popen[bytes], updates: int) -> str:
    """Follow a training that has come so far, see its curves while it runs, then kill it; give its run."""
    log = case.run(1) / "state" / "log.jsonl"
    fakes.write_log(log, fakes.records(updates, process=process.pid))
    with log.open("a") as stream:
        stream.write('{"event": "train", "upd')  # half written
    thread = threading.Thread(target=case.follow, args=(process.pid,))
    thread.start()
    until = time.monotonic() + 60
    while not case.runs() or ("train/loss", updates, 6 - updates / 200) not in case.points(case.runs()[0].info.run_id):
        assert time.monotonic() < until and thread.is_alive()
        time.sleep(0.05)
    assert case.runs()[0].info.status == "RUNNING"  # read while the follower holds the store
    process.kill()
    process.wait()
    thread.join()
    return str(case.runs()[0].info.run_id)


@pytest.mark.integration
def test_follow_then_publish(case: Case, process: Callable[[], subprocess.Popen[bytes]]) -> None:
    run = live(case, process(), 200)
    assert len(curves(case.points(run))) == POINTS / 2
    assert case.publish()["run"] == run
    points = curves(case.points(run))
    assert len(points) == len(set(points)) == POINTS


@pytest.mark.integration
def test_a_killed_training_goes_on_in_its_run(case: Case, process: Callable[[], subprocess.Popen[bytes]]) -> None:
    """It rewinds to a checkpoint and repeats steps: same values, other times."""
    (case.run(1) / "training.json").rename(case.run(1) / "later.json")
    run = live(case, process(), 300)
    assert case.runs()[0].info.status == "KILLED"
    again = process()
    kept = fakes.records(200)
    rest = [record | {"seconds": record.get("seconds", 0) + 7} for record in fakes.records(400)[len(kept) :]]
    resumed = {"event": "start", "update": 200, "time": 2e9, "process": again.pid}
    fakes.write_log(case.run(1) / "log.jsonl", [*kept, resumed, *rest])
    fakes.write_log(case.run(1) / "state" / "log.jsonl", [*kept, resumed, *rest])
    again.kill()
    again.wait()
    case.follow(again.pid)
    (case.run(1) / "later.json").rename(case.run(1) / "training.json")
    assert case.publish()["run"] == run
    points = curves(case.points(run))
    assert len(points) == len(set(points)) == POINTS
    assert case.runs()[0].info.status == "FINISHED"


@pytest.mark.integration
def test_a_log_of_another_training_is_not_followed(case: Case) -> None:
    case.follow(ended())
    assert case.runs() == []


def test_several_seeds(case: Case, tmp_path: Path) -> None:
    case = Case(tmp_path, [1, 2])
    runs = [case.publish(seed)["run"] for seed in (1, 2, 1)]
    assert runs[0] == runs[2] != runs[1]
    parent = case.client().get_run(case.store["parents"]["toy/small"])
    key = f"test/test/epoch-2/{case.scores(1).name}/tokenised.bleu"
    one, two = (read_json(case.scores(seed) / "scores.json")["tokenised"]["bleu"]["score"] for seed in (1, 2))
    assert parent.data.metrics[f"{key}.mean"] == pytest.approx((one + two) / 2)
    assert parent.data.metrics[f"{key}.std"] == pytest.approx(abs(one - two) / 2**0.5)
    assert len(case.client().get_metric_history(parent.info.run_id, f"{key}.mean")) == 2
    assert case.client().get_run(runs[0]).data.tags["mlflow.parentRunId"] == parent.info.run_id


def test_an_ensemble_is_a_run_below_those_of_its_seeds_parent(case: Case, tmp_path: Path) -> None:
    case = Case(tmp_path, [1, 2])
    both = fakes.write_scores(case.layout, "toy", case.table.rows[0], case.table.systems["small"], "1-2", 0)
    scores = read_json(both / "scores.json")
    scores["provenance"] |= {"seed": "1-2", "members": ["a" * 64, "b" * 64]}
    write_json(both / "scores.json", scores)

    def publish_it() -> dict[str, Any]:
        return publish_ensemble(case.layout.run("toy", "small", "1-2"), case.tracking, "toy", "small", "1-2", [both])

    seeds, made = [case.publish(seed)["run"] for seed in (1, 2)], publish_it()
    assert publish_it() == made and made["run"] not in seeds
    parent = case.client().get_run(case.store["parents"]["toy/small"])
    run = case.client().get_run(made["run"])
    assert run.info.run_name == "small, seeds 1-2 together" and run.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert run.data.params.items() >= {"seed": "1-2", "model.layers": "6", "corpus": "toy"}.items()
    key = f"test/test/epoch-2/{both.name}/tokenised.bleu"
    assert run.data.metrics[key] >= 100 > parent.data.metrics[f"{key}.mean"], "and it is no part of the seeds' mean"
    assert len(case.runs()) == 5, "two seeds, their ensemble, and a parent of each system"


def test_scores_of_one_model_are_no_ensemble(case: Case) -> None:
    with pytest.raises(DataError, match="expected the scores of an ensemble, got those of one model"):
        publish_ensemble(case.layout.run("toy", "small", "1-2"), case.tracking, "toy", "small", "1-2", [case.scores(1)])


@pytest.mark.integration
def test_a_dead_server_costs_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path, [1, 2], DEAD)
    parents = {"toy/small": None, "toy/large": None}
    assert case.store == {"uri": DEAD, "live": True, "experiments": {}, "parents": parents}
    pid = ended()
    fakes.write_log(case.run(1) / "state" / "log.jsonl", fakes.records(400, process=pid))
    case.follow(pid)
    marker = case.publish()
    assert marker["status"] == "failed"
    assert marker["later"].startswith(f"nmt track publish {case.run(1)} {case.scores(1)} --tracking")
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 3
    assert all(line.startswith("nmt: warning: ") and "MLflow" in line for line in warnings)


def test_what_a_dead_server_missed_is_made_up_for(tmp_path: Path, empty_store: Path) -> None:
    case = Case(tmp_path, [1, 2], DEAD)
    shutil.copy(empty_store, tmp_path / "back.db")
    write_json(case.tracking, case.store | {"uri": f"sqlite:///{tmp_path}/back.db"})
    assert case.publish()["status"] == "published"


@pytest.mark.integration
def test_a_store_left_for_later_is_written_by_publish_alone(tmp_path: Path, empty_store: Path) -> None:
    case = Case(tmp_path, [1, 2])
    folder = tmp_path / "later"
    case.store, case.tracking = prepare(None, folder, {"toy": case.table}, [1, 2], later=True), folder / "tracking.json"
    assert case.store["live"] is False and case.store["experiments"] == {}
    case.follow(ended())
    assert not (folder / "mlflow.db").exists()
    shutil.copy(empty_store, folder / "mlflow.db")
    for seed in (1, 2):
        assert case.publish(seed)["status"] == "published"
    experiment = case.client().get_experiment_by_name("toy").experiment_id
    assert len(case.client().search_runs([experiment])) == 3  # two seeds, and the one above them


def test_a_server_is_used_at_once_also_by_jobs_elsewhere(tmp_path: Path) -> None:
    assert prepare(DEAD, tmp_path, {}, [1], later=True)["live"] is True


def test_missing_results_are_errors(case: Case) -> None:
    (case.scores(1) / "scores.json").unlink()
    with pytest.raises(DataError, match=r"scores\.json: no such file"):
        case.publish()


@pytest.mark.integration
def test_mlflow_is_imported_late() -> None:
    code = "import nmt.tracking.prepare, nmt.tracking.follow, nmt.tracking.publish, sys; "
    code += "print([name for name in ('mlflow', 'torch', 'sacrebleu') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_flatten() -> None:
    nested = {"a": {"b": 1, "c": [0.9, 0.98]}, "d": None, "e": "text", "f": True}
    assert flatten(nested) == {"a.b": "1", "a.c": "[0.9, 0.98]", "d": "null", "e": "text", "f": "true"}
    assert flatten({"a": 1}, "p") == {"p.a": "1"}
    assert json.loads(flatten({"x": 1e-9})["x"]) == 1e-9
