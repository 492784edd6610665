"""The MLflow store: connection, experiments, runs. Every function finds what exists before it creates anything."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from nmt.system.errors import DataError
from nmt.system.files import read_json

if TYPE_CHECKING:
    from mlflow import MlflowClient

Result = TypeVar("Result")
DEADLINE = 60.0  # seconds for one call. MLflow's timeout is for each byte: one every two seconds would never end.


class SlowStoreError(Exception):
    """A call has not ended within `DEADLINE`."""


class _Bounded:
    """An MLflow client each of whose calls must end within `DEADLINE` seconds, or raises SlowStoreError."""

    def __init__(self, client: "MlflowClient") -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        return partial(_within_deadline, attribute) if callable(attribute) else attribute


def _within_deadline(call: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
    if threading.current_thread() is not threading.main_thread():  # only there, a signal can interrupt it
        return call(*arguments, **named)

    def give_up(*_: object) -> None:
        raise SlowStoreError(f"no whole answer within {DEADLINE:g} seconds")

    handler = signal.signal(signal.SIGALRM, give_up)
    timer = signal.setitimer(signal.ITIMER_REAL, DEADLINE, 1)  # then each second, should a library handle the first
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
    return cast("MlflowClient", _Bounded(MlflowClient(tracking_uri=uri)))


def earlier(tracking: Path) -> dict[str, Any]:
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
    file = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    missing = uri.startswith("sqlite:///") and not file.exists()
    markers = tracking.parent.glob("runs/*/*/seed*/tracked.json") if missing else ()
    return int(store.get("deletions", 0)) + any(earlier(marker).get("uri") == uri for marker in markers)


def find_or_create_experiment(client: "MlflowClient", name: str, uri: str, results: Path) -> str:
    """Return the id of a table's experiment. Create it if it is missing, restore it if it was deleted."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        # A server knows best where its artifacts go; an sqlite store would put them where the process happens to run.
        location = (results / "mlartifacts").as_uri() if uri.startswith("sqlite:") else None
        return str(client.create_experiment(name, artifact_location=location))
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def find_or_create_run(
    client: "MlflowClient", experiment: str, title: str, tags: dict[str, str], start: int | None = None
) -> str:
    """Return the id of the run with the tag ``nmt.run``, or of a new one; ``start`` in milliseconds since 1970."""
    runs = client.search_runs([experiment], f"tags.`nmt.run` = '{tags['nmt.run']}'", max_results=1)
    if not runs:
        return str(client.create_run(experiment, start_time=start, tags=tags, run_name=title).info.run_id)
    return str(runs[0].info.run_id)


def find_or_create_parent(client: "MlflowClient", experiment: str, table: str, system: str) -> str:
    """Return the id of the parent run of a system's seeds."""
    tags = {"nmt.run": f"{table}/{system}/all seeds", "nmt.table": table, "nmt.system": system}
    return find_or_create_run(client, experiment, f"{system}, all seeds", tags)


def send_changed(client: "MlflowClient", run: str, values: dict[str, float], step: int) -> None:
    """Log the values that differ from the run's latest."""
    from mlflow.entities import Metric

    latest, now = client.get_run(run).data.metrics, int(1000 * time.time())
    new = [Metric(key, float(value), now, step) for key, value in values.items() if latest.get(key) != float(value)]
    if new:
        client.log_batch(run, metrics=new)


def first_line(error: Exception) -> str:
    """The first line of an error's message, at most 300 characters; the error's type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
