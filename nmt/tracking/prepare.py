"""Create the MLflow store before jobs run at the same time."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.config.table import Table
from nmt.system.files import write_json
from nmt.system.warnings import say
from nmt.tracking.store import connect, deletions, earlier, find_or_create_experiment, first_line


def prepare(uri: str | None, results: Path, tables: Mapping[str, Table], later: bool = False) -> dict[str, Any]:
    """Create the store and one experiment per table.

    One process does this before any other logs: several that create a store or an experiment at once lose data.
    Experiments of other tables are left alone.

    Args:
        uri: where MLflow keeps runs; when None ``MLFLOW_TRACKING_URI``, else an sqlite file in ``results``.
        results: where ``tracking.json`` goes.
        tables: those that are built, by name.
        later: jobs run on several machines, so a store that is no server (sqlite does not work on a shared file system)
            is left to `publish`, and trainings are not followed.

    Returns:
        What is written to ``tracking.json``: ``{uri, live, experiments: {table: id}}``, and ``deletions`` after a store
        in a file was deleted. A store that fails costs a warning; what it lacks is then created by `publish`.
    """
    results = results.resolve()
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results}/mlflow.db"
    tracking, live = results / "tracking.json", uri.startswith("http") or not later
    store: dict[str, Any] = {"uri": uri, "live": live, "experiments": {}}
    if count := deletions(tracking):
        store["deletions"] = count
        if count > earlier(tracking).get("deletions", 0):
            say(f"MLflow: {uri}: was deleted; it is made anew, and the finished runs of these tables are sent again")
    results.mkdir(parents=True, exist_ok=True)
    try:
        client = connect(uri) if live else None
        for name, table in tables.items() if client else ():
            experiment = find_or_create_experiment(client, name, uri, results, table.caption)
            store["experiments"][name] = experiment
    except Exception as error:
        say(f"MLflow: {uri}: {first_line(error)}; nothing is tracked while it fails, all else goes on")
    write_json(tracking, store)
    return store
