"""Say where MLflow keeps the runs of a workflow, before its jobs run."""

import os
from pathlib import Path

from nmt.system.files import Json, write_json
from nmt.system.warnings import say
from nmt.tracking.store import deletions, earlier


def prepare(uri: str | None, results: Path, captions: dict[str, str], later: bool = False) -> Json:
    """Write ``tracking.json``. The store is made by the first job that sends something.

    Args:
        uri: where MLflow keeps runs; when None ``MLFLOW_TRACKING_URI``, else an sqlite file in ``results``.
        results: where ``tracking.json`` goes.
        captions: of the tables, by name; they describe the experiments.
        later: jobs run on several machines, so a store that is no server (sqlite does not work on a shared file system)
            is left to `publish`, and trainings are not followed.

    Returns:
        What is written to ``tracking.json``: ``{uri, live, captions}``, and ``deletions`` after a store in a file was
        deleted.
    """
    results = results.resolve()
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results}/mlflow.db"
    tracking, live = results / "tracking.json", uri.startswith("http") or not later
    store: Json = {"uri": uri, "live": live, "captions": captions}
    if count := deletions(tracking):
        store["deletions"] = count
        if count > earlier(tracking).get("deletions", 0):
            say(f"MLflow: {uri}: was deleted; a new one is made, and the finished runs of these tables are sent again")
    results.mkdir(parents=True, exist_ok=True)
    write_json(tracking, store)
    return store
