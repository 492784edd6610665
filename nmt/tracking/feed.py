"""One MLflow run, fed from a training's ``log.jsonl``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config.training import ENDS
from nmt.plan.systems import flatten
from nmt.system import files
from nmt.system.files import digest, read_json
from nmt.tracking.store import connect, find_or_create_experiment, find_or_create_parent, find_or_create_run

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

CURVES = ("loss", "accuracy", "bleu", "train_bleu", "learning_rate", "gradient_norm", "tokens_per_second")
BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's limits for one call
Records = list[dict[str, Any]]


@dataclass
class Feed:
    """An open run and the functions that log to it."""

    client: "MlflowClient"
    experiment: str
    run: str
    parent: str | None
    identity: dict[str, Any]
    steps: dict[str, int]  # the largest step of each curve in the store

    @classmethod
    def open(cls, tracking: Path, identity: dict[str, Any]) -> "Feed":
        """Find the run of a training, or create it."""
        store = read_json(tracking)
        client, table, system = connect(store["uri"]), identity["table"], identity["system"]
        experiment = store["experiments"].get(table) or find_or_create_experiment(
            client, table, store["uri"], tracking.resolve().parent
        )
        tags = {f"nmt.{key}": str(identity[key]) for key in ("run", "group", "table", "system", "seed")}
        run = find_or_create_run(client, experiment, identity["title"], tags, identity["start"])
        parent = store["parents"].get(f"{table}/{system}")
        if parent is None and f"{table}/{system}" in store["parents"]:
            parent = find_or_create_parent(client, experiment, table, system)
        feed = cls(client, experiment, run, parent, identity, _largest_steps(client, run))
        feed.describe(params=flatten(identity["config"]) | {"seed": str(identity["seed"])})
        return feed

    def send(self, records: Records) -> None:
        """Log the curves' points that the store lacks."""
        missing = [point for point in points(records) if point.step > self.steps.get(point.key, -1)]
        for start in range(0, len(missing), BATCH["metrics"]):
            batch = missing[start : start + BATCH["metrics"]]
            self.client.log_batch(self.run, metrics=batch)
            self.steps |= {point.key: point.step for point in batch}

    def describe(self, params: dict[str, str] | None = None, tags: dict[str, str] | None = None) -> None:
        """Log the parameters that the store lacks (MLflow's parameters cannot change) and set tags."""
        from mlflow.entities import Param, RunTag

        existing = self.client.get_run(self.run).data.params
        new = [Param(key, value) for key, value in (params or {}).items() if key not in existing]
        for start in range(0, len(new), BATCH["params"]):
            self.client.log_batch(self.run, params=new[start : start + BATCH["params"]])
        changed = [RunTag(key, value) for key, value in (tags or {}).items()]
        for start in range(0, len(changed), BATCH["tags"]):
            self.client.log_batch(self.run, tags=changed[start : start + BATCH["tags"]])


def identity_of(path: Path, table: str, system: str, seed: int) -> dict[str, Any]:
    """A run's identity, of the configuration, seed and data that a training wrote to ``path``."""
    written = read_json(path)
    identity = written["identity"]
    group = digest({key: value for key, value in identity.items() if key != "seed"})
    log = path.parent / "log.jsonl"
    starts = [record["time"] for record in read_records(log) if record["event"] == "start"]
    return names_of(table, system, seed, digest(identity), group) | {
        "title": f"{system}, seed {seed}", "start": int(1000 * starts[0]) if starts else None,
        "config": without_end(written["config"]),
    }  # fmt: skip


def names_of(table: str, system: str, seed: int | str, content: str, group: str) -> dict[str, Any]:
    """Table, system, seed, and the tags that find a run (``run``) and its fellow seeds (``group``)."""
    return {
        "table": table, "system": system, "seed": seed, "run": f"{table}/{system}/seed{seed}/{content}",
        "group": f"{table}/{system}/{group}",
    }  # fmt: skip


def without_end(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without its end: a longer training goes on in the same run, whose parameters cannot change."""
    return config | {"training": {key: value for key, value in config["training"].items() if key not in ENDS}}


def read_records(log: Path) -> Records:
    """The complete records of a log that may still grow."""
    return [record for _, record in files.read_records(log)]


def points(records: Records) -> Iterator["Metric"]:
    """The points of a log's curves. A point's time is its attempt's start plus the training time since then."""
    from mlflow.entities import Metric

    begun = before = seconds = 0.0
    for record in records:
        if record["event"] == "start":
            begun, before = record["time"], seconds
        elif record["event"] in ("train", "valid"):
            seconds = record["seconds"]
            stamp = int(1000 * (begun + seconds - before))
            for name in CURVES:
                if record.get(name) is not None:
                    yield Metric(f"{record['event']}/{name}", float(record[name]), stamp, record["update"])


def _largest_steps(client: "MlflowClient", run: str) -> dict[str, int]:
    """The last step of each curve of a run."""
    keys = [key for key in client.get_run(run).data.metrics if key.startswith(("train/", "valid/"))]
    return {key: max(point.step for point in client.get_metric_history(run, key)) for key in keys}
