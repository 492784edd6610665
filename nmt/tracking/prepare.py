"""Create the MLflow store before jobs run at the same time."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.table import Table
from nmt.system.files import write_json
from nmt.system.warnings import say
from nmt.tracking.store import (
    connect,
    deletions,
    earlier,
    find_or_create_experiment,
    find_or_create_parent,
    first_line,
)


def prepare(
    uri: str | None, results: Path, tables: dict[str, Table], seeds: Sequence[int], later: bool = False
) -> dict[str, Any]:
    """Create the store, one experiment per table, and one parent run per system with several seeds.

    One process does this before any other logs: several that create a store or an experiment at once lose data.
    Experiments of other tables are left alone.

    Args:
        uri: where MLflow keeps runs; when None ``MLFLOW_TRACKING_URI``, else an sqlite file in ``results``.
        results: where ``tracking.json`` goes.
        tables: those that are built, by name.
        seeds: of the systems that name none.
        later: jobs run on several machines, so a store that is no server (sqlite does not work on a shared file system)
            is left to `publish`, and trainings are not followed.

    Returns:
        What is written to ``tracking.json``: ``{uri, live, experiments: {table: id}, parents: {"table/system": run
        id}}``, and ``deletions`` after a store in a file was deleted. A store that fails costs a warning; what it lacks
        (a parent's id is null) is then created by `publish`.
    """
    results = results.resolve()
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results}/mlflow.db"
    tracking, live = results / "tracking.json", uri.startswith("http") or not later
    parents = _known_parents(tracking, tables) | {
        f"{name}/{system}": None for name, table in tables.items() for system in _with_several_seeds(table, seeds)
    }
    store: dict[str, Any] = {"uri": uri, "live": live, "experiments": {}, "parents": parents}
    if count := deletions(tracking):
        store["deletions"] = count
        if count > earlier(tracking).get("deletions", 0):
            say(f"MLflow: {uri}: was deleted; it is made anew, and the finished runs of these tables are sent again")
    results.mkdir(parents=True, exist_ok=True)
    try:
        client = connect(uri) if live else None
        for name, table in tables.items() if client else ():
            store["experiments"][name] = experiment = find_or_create_experiment(client, name, uri, results)
            for system in _with_several_seeds(table, seeds):
                store["parents"][f"{name}/{system}"] = find_or_create_parent(client, experiment, name, system)
    except Exception as error:
        say(f"MLflow: {uri}: {first_line(error)}; nothing is tracked while it fails, all else goes on")
    write_json(tracking, store)
    return store


def _known_parents(tracking: Path, tables: Mapping[str, Table]) -> dict[str, str | None]:
    """The parent runs of other tables that were built before, to be found again when one of their runs is sent."""
    return {name: None for name in earlier(tracking).get("parents", {}) if name.partition("/")[0] not in tables}


def _with_several_seeds(table: Table, seeds: Sequence[int]) -> list[str]:
    trained = dict.fromkeys(row.system for row in table.rows if row.system)
    return [name for name in trained if len(table.seeds_of(name, seeds)) > 1]
