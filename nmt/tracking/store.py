"""The MLflow store: connection, experiments, runs. Every function finds what exists before it creates anything."""

import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nmt.system.errors import DataError
from nmt.system.files import Json, read_json, sqlite_file
from nmt.system.locks import wait_for_lock
from nmt.system.workers import batched

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, LoggedModel

Result = TypeVar("Result")
BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's limits for one call
DEADLINE = 60.0  # seconds for one call. MLflow's timeout is for each byte: one every two seconds would never end.
UPLOADS = ("log_artifact", "log_artifacts", "log_model_artifacts")
UPLOAD = 3600.0  # seconds for one call that sends files
ARTIFACTS = {
    "experiments": "artifact_location", "runs": "artifact_uri", "logged_models": "artifact_location",
    "model_versions": "storage_location",
}  # fmt: skip
"""Tables of a store in sqlite, and the column of each that says where artifacts are."""


class SlowStoreError(Exception):
    """A call has not ended within `DEADLINE` or `UPLOAD`."""


class _Bounded:
    """An MLflow client each of whose calls must end within its deadline, or raises SlowStoreError."""

    def __init__(self, client: "MlflowClient") -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        seconds = UPLOAD if name in UPLOADS else DEADLINE
        return partial(_within_deadline, attribute, seconds) if callable(attribute) else attribute


def _within_deadline(call: Callable[..., Result], seconds: float, *arguments: Any, **named: Any) -> Result:
    if threading.current_thread() is not threading.main_thread():  # only there, a signal can interrupt it
        return call(*arguments, **named)

    def give_up(*_: object) -> None:
        raise SlowStoreError(f"no whole answer within {seconds:g} seconds")

    handler = signal.signal(signal.SIGALRM, give_up)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # then each second, should a library handle the first
    try:
        return call(*arguments, **named)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def connect(uri: str) -> "MlflowClient":
    """Open a client with short timeouts, few retries and no messages; each of its calls has a deadline."""
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "WARNING", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }  # fmt: skip
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for logger in ("alembic", "mlflow", "urllib3"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    with _exclusively(uri) as file:
        if file and not file.exists():
            part = file.with_name(f".{file.name}.part")  # a killed process leaves no half-made store
            part.unlink(missing_ok=True)
            MlflowClient(tracking_uri=f"sqlite:///{part}")
            part.replace(file)
        client = _within_deadline(MlflowClient, DEADLINE, tracking_uri=uri)  # MLflow tries a database for 100 seconds
    return cast("MlflowClient", _Bounded(client))


@contextmanager
def _exclusively(uri: str) -> Iterator[Path | None]:
    """Hold the lock of a store in a file, which fails if several processes make it at once; give the file."""
    file = sqlite_file(uri)
    lock = wait_for_lock(file.with_name(f"{file.name}.lock"), poll=0.1) if file else None
    try:
        yield file
    finally:
        if lock:
            lock.release()


def earlier(tracking: Path) -> Json:
    """Return what an earlier run wrote to ``tracking.json``; nothing if the file is missing or damaged."""
    try:
        return dict(read_json(tracking))
    except DataError:
        return {}


def deletions(tracking: Path) -> int:
    """Return how often the store in a file was deleted after runs were sent to it; what was sent before is gone.

    Args:
        tracking: ``tracking.json`` of the earlier runs, if any.
    """
    store = earlier(tracking)
    uri = str(store.get("uri", ""))
    file = sqlite_file(uri)
    if file is None or file.exists() or (tracking.parent / file.name).exists():  # it moves with the results
        return int(store.get("deletions", 0))
    sent = {str(earlier(marker).get("uri")) for marker in tracking.parent.glob("runs/*/*/seed*/tracked.json")}
    if file.parent.resolve() == tracking.parent.resolve():  # markers from before a move have its place before
        sent = {uri if _was_at(other, file.name) else other for other in sent}
    return int(store.get("deletions", 0)) + (uri in sent)


def _was_at(uri: str, name: str) -> bool:
    """Return whether a store is a file of this name that is no longer there."""
    file = sqlite_file(uri)
    return file is not None and file.name == name and not file.exists()


def open_experiment(tracking: Path, table: str) -> tuple["MlflowClient", str]:
    """Connect to the store that ``tracking.json`` names; return the client and the id of a table's experiment."""
    store = read_json(tracking)
    client, caption = connect(store["uri"]), store.get("captions", {}).get(table, "")
    return client, find_or_create_experiment(client, table, store["uri"], tracking.resolve().parent, caption)


def find_or_create_experiment(client: "MlflowClient", name: str, uri: str, results: Path, caption: str = "") -> str:
    """Return the id of a table's experiment, described by the table's caption and of the kind that trains models.

    It is created if it is missing and restored if it was deleted. MLflow opens an experiment without a kind in its view
    of language model applications.
    """
    from mlflow.exceptions import MlflowException

    tags = {"mlflow.experimentKind": "custom_model_development", "nmt.table": name}
    tags |= {"mlflow.note.content": caption} if caption else {}
    experiment, file = client.get_experiment_by_name(name), sqlite_file(uri)
    # A server knows best where its artifacts go; an sqlite store would put them where the process happens to run.
    location = (results / "mlartifacts").as_uri() if file else None
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=location, tags=tags))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            experiment = client.get_experiment_by_name(name)  # another process has made it
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    before = experiment.artifact_location
    if location and file == results / "mlflow.db" and before != location and before.endswith("/mlartifacts"):
        _move_artifacts(file, before, location)
    for key, value in tags.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _move_artifacts(file: Path, before: str, now: str) -> None:
    """Let a store know its artifacts where its results folder is now; MLflow would write into the folder before."""
    with closing(sqlite3.connect(file, timeout=DEADLINE)) as store, store:
        for table, column in ARTIFACTS.items():
            store.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column} || '/', 1, ?) = ?",
                (now, len(before) + 1, len(before) + 1, f"{before}/"),
            )


def find_or_create_run(
    client: "MlflowClient",
    experiment: str,
    title: str,
    tags: dict[str, str],
    start: int | None = None,
    fixed: Mapping[str, str] | None = None,
) -> str:
    """Return the id of the run with the tag ``nmt.run``, or of a new one.

    Args:
        client: of the store.
        experiment: the id of its experiment.
        title: of a new run.
        tags: of the run; ``nmt.run`` identifies it.
        start: when a new run started, in milliseconds since 1970.
        fixed: parameters whose values the run must not contradict, since MLflow's parameters cannot change.
    """
    for run in client.search_runs([experiment], f"tags.`nmt.run` = '{tags['nmt.run']}'"):
        if all(run.data.params.get(key, value) == value for key, value in (fixed or {}).items()):
            return str(run.info.run_id)
    return str(client.create_run(experiment, start_time=start, tags=tags, run_name=title).info.run_id)


def describe(
    client: "MlflowClient", run: str, params: Mapping[str, str] | None = None, tags: Mapping[str, str] | None = None
) -> None:
    """Log the parameters that a run lacks (MLflow's parameters cannot change) and set tags."""
    from mlflow.entities import Param, RunTag

    data = client.get_run(run).data
    new = [Param(key, value) for key, value in (params or {}).items() if key not in data.params]
    for batch in batched(new, BATCH["params"]):
        client.log_batch(run, params=batch)
    changed = [RunTag(key, value) for key, value in (tags or {}).items() if data.tags.get(key) != value]
    for batch in batched(changed, BATCH["tags"]):
        client.log_batch(run, tags=batch)


def finish(client: "MlflowClient", run: str, end: int | None = None) -> None:
    """Mark a run as finished; ``end`` in milliseconds since 1970, by default now."""
    if client.get_run(run).info.status != "FINISHED":
        client.set_terminated(run, "FINISHED", end)


def send_changed(
    client: "MlflowClient",
    run: str,
    values: Mapping[str, float],
    dataset: "Dataset | None" = None,
    model: "LoggedModel | None" = None,
) -> None:
    """Log the values that differ from the run's latest, as values of a dataset and of a model if given."""
    from mlflow.entities import Metric

    latest, now = client.get_run(run).data.metrics, int(1000 * time.time())
    link = (model.model_id if model else None, dataset.name if dataset else None, dataset.digest if dataset else None)
    new = [
        Metric(key, float(value), now, 0, *link, run_id=run)
        for key, value in values.items() if latest.get(key) != float(value)
    ]  # fmt: skip
    if new:
        client.log_batch(run, metrics=new)
