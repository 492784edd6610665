import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakes
import pytest

from nmt.config.table import Table
from nmt.plan.layout import Layout
from nmt.plan.systems import flatten
from nmt.report.records import Results, keep
from nmt.report.tables import build
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json, write_text
from nmt.tracking import follow as following
from nmt.tracking import store as stores
from nmt.tracking.feed import identity_of
from nmt.tracking.follow import follow
from nmt.tracking.models import Models
from nmt.tracking.prepare import prepare
from nmt.tracking.publish import publish
from nmt.tracking.store import connect, deletions, find_or_create_experiment, open_experiment
from nmt.tracking.table import publish_table

pytestmark = pytest.mark.integration  # each test makes MLflow stores
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
DEAD = "http://127.0.0.1:9"
USES = {"training": "train", "validation": "valid", "testing": "test"}
MODELS = Models(lambda model, folder: write_text(folder / "MLmodel", model.name))
POINTS = 8 * 5 + 4 * 4  # of a log of 400 updates: training and validation records times their curves


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(following, "POLL", 0.02)
    monkeypatch.setattr(following, "PAUSE", 0.0)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store takes MLflow seconds to make; most tests start from a copy."""
    folder = tmp_path_factory.mktemp("store")
    prepare(f"sqlite:///{folder}/mlflow.db", folder, {})
    open_experiment(folder / "tracking.json", "other")
    return folder / "mlflow.db"


class Case:
    """A trained system, scored, and a store."""

    def __init__(self, folder: Path, seeds: list[int], uri: str | None = None, table: Table | None = None) -> None:
        self.layout, self.table, self.seeds = Layout(folder / "results"), table or fakes.table(), seeds
        self.tracking = self.layout.results / "tracking.json"
        fakes.write_results(self.layout, "toy", self.table, seeds)
        self.store = prepare(uri, self.layout.results, {"toy": self.table.caption})

    @property
    def marker(self) -> Path:
        return self.layout.runs("toy") / "tracked.json"

    def run(self, seed: int) -> Path:
        return self.layout.run("toy", "small", seed)

    def scores(self, seed: int) -> Path:
        return self.layout.scores("toy", self.table.rows[0], "test", seed)

    def publish(self, seed: int = 1) -> dict[str, Any]:
        marker = publish(self.run(seed), self.tracking, "toy", "small", seed)
        write_json(self.run(seed) / "tracked.json", marker)
        return marker

    def publish_table(self, models: Models = MODELS) -> dict[str, Any]:
        """Build the table and send it."""
        results = Results("toy", self.table, self.layout, self.seeds)
        data = build(results)
        data["figures"].append({"name": "picture", "title": "Looks", "withheld": True})
        keep(results)
        write_json(self.layout.results / "tables" / "toy.json", data)
        write_text(self.layout.results / "tables" / "toy.html", "a page")
        for figure in ("loss.png", "picture.png", "picture.svg"):
            write_text(self.layout.figures("toy") / figure, "a figure")
        return publish_table(self.layout.results / "tables" / "toy.json", self.tracking, self.marker, models)

    def follow(self, pid: int, seed: int = 1) -> None:
        follow(self.run(seed), self.tracking, "toy", "small", seed, pid)

    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.store["uri"])

    def experiment(self) -> Any:
        return self.client().get_experiment_by_name("toy")

    def runs(self) -> list[Any]:
        return list(self.client().search_runs([found.experiment_id])) if (found := self.experiment()) else []

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


def test_processes_that_make_a_store_at_once_find_one_experiment(tmp_path: Path) -> None:
    import mlflow  # noqa: F401  once, for all processes

    case = Case(tmp_path, [1, 2])
    assert prepare(None, case.layout.results, {"toy": "A table of tests"}) == case.store == read_json(case.tracking)
    assert case.store["uri"] == f"sqlite:///{tmp_path}/results/mlflow.db"
    assert not (tmp_path / "results" / "mlflow.db").exists()
    (tmp_path / "results" / ".mlflow.db.part").write_bytes(b"half of a store")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        opened = pool.map(open_toy, [case.tracking] * 3, chunksize=1)
    experiment = case.experiment()
    assert set(opened) == {experiment.experiment_id}
    assert experiment.artifact_location == (tmp_path / "results" / "mlartifacts").as_uri()
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    assert experiment.tags["mlflow.note.content"] == "A table of tests"
    assert case.runs() == [], "a run begins with its training"


def test_a_process_that_is_killed_leaves_no_half_made_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed:
        def __init__(self, tracking_uri: str) -> None:
            Path(tracking_uri.removeprefix("sqlite:///")).write_bytes(b"half of a store")
            raise KeyboardInterrupt

    prepare(None, tmp_path, {})
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("mlflow.MlflowClient", Killed)
        open_experiment(tmp_path / "tracking.json", "toy")
    assert not (tmp_path / "mlflow.db").exists() and (tmp_path / ".mlflow.db.part").exists()


def open_toy(tracking: Path) -> str:
    return open_experiment(tracking, "toy")[1]


def test_another_process_makes_the_experiment_first(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    client, made = open_experiment(case.tracking, "toy")
    found, answers = client.get_experiment_by_name("toy"), [None]
    late = types.SimpleNamespace(
        get_experiment_by_name=lambda _: answers.pop() if answers else found, create_experiment=client.create_experiment
    )
    assert find_or_create_experiment(late, "toy", case.store["uri"], case.layout.results) == made and not answers


def test_an_experiment_of_an_earlier_version_gets_kind_and_description(case: Case) -> None:
    client = case.client()
    client.create_experiment("toy")
    open_experiment(case.tracking, "toy")
    tags = client.get_experiment_by_name("toy").tags
    assert tags["mlflow.experimentKind"] == "custom_model_development" and "mlflow.note.content" in tags


def test_a_deleted_store_is_made_again_once(
    case: Case, empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = case.layout.results / "mlflow.db"
    write_json(case.run(1) / "tracked.json", case.publish())
    assert deletions(case.tracking) == 0
    database.unlink()
    assert deletions(case.tracking) == 1
    # MLflow would make the same in seconds.
    monkeypatch.setattr(stores, "connect", lambda uri: shutil.copy(empty_store, database) and connect(uri))
    for _ in range(2):
        store = prepare(None, case.layout.results, {})
        open_experiment(case.tracking, "toy")
        assert store["deletions"] == deletions(case.tracking) == 1
    assert capsys.readouterr().err.count("mlflow.db: was deleted; a new one is made") == 1
    assert case.publish()["status"] == "published"


def test_a_moved_results_folder_takes_its_store_and_artifacts_along(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    client, experiment = open_experiment(case.tracking, "toy")
    earlier = client.create_run(experiment).info.run_id
    marker = {"uri": case.store["uri"]}
    write_json(case.run(1) / "tracked.json", marker)
    there, here = case.layout.results, case.layout.results.with_name("moved")
    there.replace(here)
    case.layout, case.tracking = Layout(here), here / "tracking.json"
    assert deletions(case.tracking) == 0
    case.store = prepare(None, here, {})
    case.publish()
    assert "was deleted" not in capsys.readouterr().err and not there.exists()
    assert earlier in {run.info.run_id for run in case.runs()}
    assert {run.info.artifact_uri.rpartition("/mlartifacts/")[0] for run in case.runs()} == {here.as_uri()}
    assert list((here / "mlartifacts").glob("*/artifacts/log.jsonl"))
    write_json(case.run(1) / "tracked.json", marker)  # as of a run that was not sent again
    (here / "mlflow.db").unlink()
    assert deletions(case.tracking) == 1
    assert prepare(None, here, {})["deletions"] == 1 and "was deleted" in capsys.readouterr().err


def test_the_uri_of_the_environment(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{empty_store}")
    assert prepare(None, tmp_path, {})["uri"] == f"sqlite:///{empty_store}"
    shutil.copy(empty_store, tmp_path / "given.db")
    assert prepare(f"sqlite:///{tmp_path}/given.db", tmp_path, {})["uri"].endswith("given.db")


def test_a_deleted_experiment_is_restored(case: Case) -> None:
    _, experiment = open_experiment(case.tracking, "toy")
    case.client().delete_experiment(experiment)
    assert case.publish()["experiment"] == experiment


def test_publish_is_complete(case: Case) -> None:
    run = case.client().get_run(case.publish()["run"])
    assert run.info.status == "FINISHED"
    expected = {"model.layers": "6", "subwords.size": "8192", "seed": "1", "corpus": "toy", "training.epochs": "4"}
    assert expected.items() <= run.data.params.items()
    tags = run.data.tags
    assert (tags["nmt.table"], tags["nmt.system"], tags["nmt.seed"], tags["nmt.device"]) == ("toy", "small", "1", "cpu")
    assert tags["nmt.code_version"] == "0123456789ab"
    assert tags["nmt.data.train.source_sha256"] == "a" * 64
    assert tags["nmt.hardware.processor"] == "Abacus"
    assert run.data.metrics["seconds"] == 40
    artifacts = [file.path for file in case.client().list_artifacts(run.info.run_id)]
    assert artifacts == ["config.json", "log.jsonl", "training.json"]


def test_a_row_is_a_run_below_its_training(case: Case) -> None:
    training = case.publish()["run"]
    sent = case.publish_table()
    assert sent["status"] == "published" and list(sent["rows"]) == [0, 1], "a quoted row has no run"
    row, parent = (case.client().get_run(run) for run in (sent["rows"][0][0], training))
    assert row.info.run_name == "Small, after 2 epochs" and row.data.tags["mlflow.parentRunId"] == training
    made = {"languages": "en-de", "training.epochs": "4", "decoding.beam": "5", "checkpoint": "epoch 2", "seed": "1"}
    assert made.items() <= row.data.params.items()
    bleu = read_json(case.scores(1) / "scores.json")["tokenised"]["bleu"]["score"]
    assert row.data.metrics["bleu/test"] == parent.data.metrics["bleu/test"] == bleu
    assert {"languages": "en-de", "cleaning.lowercase": "true"}.items() <= parent.data.params.items()
    artifacts = {file.path for file in case.client().list_artifacts(training)}
    assert artifacts >= {"figures", "toy.html", "toy.json"}
    figures = [file.path for file in case.client().list_artifacts(training, "figures")]
    assert figures == ["figures/loss.png"], "a picture that may not be passed on stays here"
    assert {file.path for file in case.client().list_artifacts(row.info.run_id)} == {"samples.txt", "scores.json"}
    data = {use.tags[0].value: use.dataset.name for run in (row, parent) for use in run.inputs.dataset_inputs}
    assert data == {use: f"toy en-de {split}" for use, split in USES.items()}
    assert {run.info.status for run in case.runs()} == {"FINISHED"}
    assert "artifacts/toy.html" in case.client().get_experiment_by_name("toy").tags["mlflow.note.content"]


def test_a_deleted_training_costs_no_table(case: Case) -> None:
    training = case.publish()["run"]
    case.publish_table()
    case.client().delete_run(training)
    sent = case.publish_table()
    assert sent["status"] == "published", sent
    row = case.client().get_run(sent["rows"][0][0])
    assert row.info.lifecycle_stage == "active" and len(case.runs()) == 2
    assert case.client().get_run(training).info.lifecycle_stage == "deleted"


def test_a_row_has_samples_of_its_own_pair_of_languages(case: Case) -> None:
    file = case.layout.results / "tables" / "toy.json"
    data = build(Results("toy", case.table, case.layout, case.seeds))
    other = [sample | {"languages": "en-fr", "source": "An English line."} for sample in data["samples"]]
    write_json(file, data | {"samples": [*data["samples"], *other]})
    sent = publish_table(file, case.tracking, case.marker, MODELS)
    path = case.client().download_artifacts(sent["rows"][0][0], "samples.txt")
    assert "A dog" in (text := Path(path).read_text()) and "An English line." not in text


def test_a_row_has_the_text_of_its_own_pair_of_languages_and_a_training_that_of_all(case: Case) -> None:
    training, file = case.publish()["run"], case.layout.results / "tables" / "toy.json"
    data = build(Results("toy", case.table, case.layout, case.seeds))
    [own] = data["data"]
    write_json(file, data | {"data": [own | {"languages": "en-fr"}, own]})
    sent = publish_table(file, case.tracking, case.marker, MODELS)
    found = [case.client().get_run(run).inputs.dataset_inputs for run in (sent["rows"][0][0], training)]
    names = [{use.dataset.name for use in uses} for uses in found]
    assert case.client().get_experiment(sent["experiment"]).tags["nmt.corpus.toy"] == "en-fr, en-de"
    assert names == [
        {"toy en-de test"}, {f"toy {pair} {split}" for pair in ("en-de", "en-fr") for split in ("train", "valid")},
    ]  # fmt: skip


def test_a_rows_model_is_logged_with_its_scores_and_registered_on_request(case: Case) -> None:
    training = case.publish()["run"]
    for _ in range(2):
        sent = case.publish_table(Models(MODELS.export, register="baker's toy"))
    client = case.client()
    [model] = [m for m in client.search_logged_models([sent["experiment"]]) if m.source_run_id == training]
    assert model.name == "small-seed1-epoch-2" and model.status == "READY"
    bleu = {metric.key: metric.value for metric in model.metrics}["bleu/test"]
    assert bleu == client.get_run(sent["rows"][0][0]).data.metrics["bleu/test"]
    assert [file.path for file in client.list_logged_model_artifacts(model.model_id)] == ["MLmodel"]
    [version] = client.search_model_versions(f"source_path = 'models:/{model.model_id}'")
    assert version.name == "baker's toy" and version.description.startswith("Small, after 2 epochs")


def test_a_model_that_cannot_be_copied_costs_a_warning_and_is_retried(case: Case) -> None:
    def fail(*_: Path) -> None:
        raise OSError("no space left")

    sent = case.publish_table(Models(fail))
    assert sent["status"] == "failed" and sent["problem"] == "no space left"
    assert sent["later"].startswith(f"nmt track table {case.layout.results}/tables/toy.json --tracking")
    assert case.client().search_logged_models([case.experiment().experiment_id]) == []
    assert case.publish_table()["status"] == "published"


def test_without_copies_a_model_has_scores_alone(case: Case) -> None:
    sent = case.publish_table(Models(MODELS.export, copied=False))
    model = case.client().search_logged_models([sent["experiment"]])[0]
    assert case.client().list_logged_model_artifacts(model.model_id) == []
    assert model.tags["nmt.folder"].endswith("/model") and model.metrics


def test_a_table_sent_twice_is_the_same(case: Case) -> None:
    case.publish()
    first = case.publish_table()
    before = {run: case.points(run) for runs in first["rows"].values() for run in runs}
    assert case.publish_table() == first
    assert {run: case.points(run) for run in before} == before and len(case.runs()) == 3


def curves(points: list[tuple[str, int, float]]) -> list[tuple[str, int, float]]:
    return [point for point in points if point[0].endswith(("/train", "/valid"))]


def test_curves(case: Case) -> None:
    points = curves(case.points(case.publish()["run"]))
    assert len(points) == len(set(points)) == POINTS
    assert ("learning_rate/train", 100, 0.001) in points
    assert ("bleu/valid", 400, 20) in points


def test_times_follow_the_log(case: Case) -> None:
    run = case.publish()["run"]
    assert [p.timestamp for p in case.client().get_metric_history(run, "loss/valid")] == [
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
    run = case.publish_table()["rows"][0][0]
    scores = read_json(case.scores(1) / "scores.json")
    scores["tokenised"]["bleu"]["score"] = 12.5
    write_json(case.scores(1) / "scores.json", scores)
    assert case.publish_table()["rows"][0][0] == run
    assert case.client().get_run(run).data.metrics["bleu/test"] == 12.5


def test_another_configuration_is_another_run(case: Case) -> None:
    run = case.publish()["run"]
    training = read_json(case.run(1) / "training.json")
    training["identity"]["config"]["training"]["clip"] = 1.0
    write_json(case.run(1) / "training.json", training)
    assert case.publish()["run"] != run


def test_a_longer_training_is_another_run_with_all_its_curves(case: Case) -> None:
    first = case.publish()["run"]
    system = case.table.systems["small"]
    longer = system.model_copy(update={"training": system.training.model_copy(update={"epochs": 6})})
    fakes.write_run(case.run(1), longer, 1, updates=600)
    run = case.publish()["run"]
    assert case.publish()["run"] == run != first
    assert case.client().get_run(run).data.params["training.epochs"] == "6"
    assert len(curves(case.points(run))) == POINTS * 1.5 and len(curves(case.points(first))) == POINTS


def test_a_run_of_an_earlier_version_is_completed(case: Case) -> None:
    """Those had no parameter for the end of a training."""
    identity = identity_of(case.run(1) / "training.json", "toy", "small", 1)
    tags = {"nmt.run": identity["run"]}
    _, experiment = open_experiment(case.tracking, "toy")
    old = case.client().create_run(experiment, tags=tags, run_name="small, seed 1").info.run_id
    assert case.publish()["run"] == old
    assert case.client().get_run(old).data.params["training.epochs"] == "4"


def live(case: Case, process: subprocess.Popen[bytes], updates: int) -> str:
    """Follow a training that has come so far, see its curves while it runs, then kill it; give its run."""
    log = case.run(1) / "state" / "log.jsonl"
    fakes.write_log(log, fakes.records(updates, process=process.pid))
    with log.open("a") as stream:
        stream.write('{"event": "train", "upd')  # half written
    thread = threading.Thread(target=case.follow, args=(process.pid,))
    thread.start()
    until = time.monotonic() + 60
    while not case.runs() or ("loss/train", updates, 6 - updates / 200) not in case.points(case.runs()[0].info.run_id):
        assert time.monotonic() < until and thread.is_alive()
        time.sleep(0.05)
    assert case.runs()[0].info.status == "RUNNING"  # read while the follower holds the store
    process.kill()
    process.wait()
    thread.join()
    return str(case.runs()[0].info.run_id)


def test_follow_then_publish(case: Case, process: Callable[[], subprocess.Popen[bytes]]) -> None:
    run = live(case, process(), 200)
    assert len(curves(case.points(run))) == POINTS / 2
    assert case.publish()["run"] == run
    points = curves(case.points(run))
    assert len(points) == len(set(points)) == POINTS


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


def test_a_training_that_ends_soon_is_left_to_publish(
    case: Case, process: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAUSE", 60.0)
    training = process()
    fakes.write_log(case.run(1) / "state" / "log.jsonl", fakes.records(400, process=training.pid))
    thread = threading.Thread(target=case.follow, args=(training.pid,))
    thread.start()
    training.kill()
    training.wait()
    thread.join(20)
    assert not thread.is_alive() and case.experiment() is None
    (case.run(1) / "training.json").unlink()  # one that was killed is seen in MLflow
    case.follow(training.pid)
    assert [run.info.status for run in case.runs()] == ["KILLED"]


def test_a_log_of_another_training_is_not_followed(case: Case) -> None:
    case.follow(ended())
    assert case.runs() == []


def test_each_seed_of_a_row_is_a_run_and_an_ensemble_is_one(tmp_path: Path, empty_store: Path) -> None:
    (tmp_path / "results").mkdir()
    shutil.copy(empty_store, tmp_path / "results" / "mlflow.db")
    rows = [*fakes.TABLE["rows"], {"label": "both", "system": "small", "at": "epoch 2", "ensemble": True}]
    case = Case(tmp_path, [1, 2], table=fakes.table(rows=rows))
    trainings = [case.publish(seed)["run"] for seed in (1, 2)]
    runs = case.publish_table()["rows"]
    assert [len(some) for some in runs.values()] == [2, 2, 1]
    of_seeds = [case.client().get_run(run) for run in runs[0]]
    assert [run.data.tags["mlflow.parentRunId"] for run in of_seeds] == trainings
    assert [run.info.run_name for run in of_seeds] == [f"Small, after 2 epochs, seed {seed}" for seed in (1, 2)]
    expected = [read_json(case.scores(seed) / "scores.json")["tokenised"]["bleu"]["score"] for seed in (1, 2)]
    assert [run.data.metrics["bleu/test"] for run in of_seeds] == expected
    both = case.client().get_run(runs[3][0])
    assert both.data.params["seed"] == "1-2" and "mlflow.parentRunId" not in both.data.tags


def test_a_dead_server_costs_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(tmp_path, [1, 2], DEAD)
    assert case.store == {"uri": DEAD, "live": True, "captions": {"toy": "A table of tests"}}
    pid = ended()
    fakes.write_log(case.run(1) / "state" / "log.jsonl", fakes.records(400, process=pid))
    (case.run(1) / "training.json").rename(case.run(1) / "later.json")
    case.follow(pid)
    (case.run(1) / "later.json").rename(case.run(1) / "training.json")
    marker = case.publish()
    assert marker["status"] == "failed"
    assert marker["later"].startswith(f"nmt track publish {case.run(1)} --name toy/small --seed 1 --tracking")
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 2
    assert all(line.startswith("nmt: warning: ") and "MLflow" in line for line in warnings)


def test_what_a_dead_server_missed_is_made_up_for(tmp_path: Path, empty_store: Path) -> None:
    case = Case(tmp_path, [1, 2], DEAD)
    shutil.copy(empty_store, tmp_path / "back.db")
    write_json(case.tracking, case.store | {"uri": f"sqlite:///{tmp_path}/back.db"})
    assert case.publish()["status"] == "published"


def test_a_store_left_for_later_is_written_by_publish_alone(tmp_path: Path, empty_store: Path) -> None:
    case = Case(tmp_path, [1, 2])
    folder = tmp_path / "later"
    case.store, case.tracking = prepare(None, folder, {}, later=True), folder / "tracking.json"
    assert case.store["live"] is False
    case.follow(ended())
    assert not (folder / "mlflow.db").exists()
    shutil.copy(empty_store, folder / "mlflow.db")
    for seed in (1, 2):
        assert case.publish(seed)["status"] == "published"
    assert len(case.runs()) == 2


def test_a_server_is_used_at_once_also_by_jobs_elsewhere(tmp_path: Path) -> None:
    assert prepare(DEAD, tmp_path, {}, later=True)["live"] is True


def test_missing_results_are_errors(case: Case) -> None:
    (case.run(1) / "training.json").unlink()
    with pytest.raises(DataError, match=r"training\.json: no such file"):
        case.publish()


def test_mlflow_is_imported_late() -> None:
    code = "import nmt.tracking.prepare, nmt.tracking.follow, nmt.tracking.table, nmt.translation.pyfunc, sys; "
    code += "print([name for name in ('mlflow', 'torch', 'sacrebleu') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_flatten() -> None:
    nested = {"a": {"b": 1, "c": [0.9, 0.98]}, "d": None, "e": "text", "f": True}
    assert flatten(nested) == {"a.b": "1", "a.c": "[0.9, 0.98]", "d": "null", "e": "text", "f": "true"}
    assert flatten({"a": 1}, "p") == {"p.a": "1"}
    assert json.loads(flatten({"x": 1e-9})["x"]) == 1e-9
