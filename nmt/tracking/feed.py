"""One MLflow run, fed from a training's ``log.jsonl``."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config.training import ENDS
from nmt.plan.systems import flatten
from nmt.system import files
from nmt.system.files import Json, digest, read_json
from nmt.system.workers import batched
from nmt.tracking.store import BATCH, describe, find_or_create_run, open_experiment

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

CURVES = ("loss", "accuracy", "bleu", "train_bleu", "learning_rate", "gradient_norm", "tokens_per_second")
Records = list[Json]


@dataclass
class Feed:
    """The open run of a training and the functions that log to it."""

    client: "MlflowClient"
    experiment: str
    run: str
    steps: dict[str, int]  # the largest step of each curve in the store

    @classmethod
    def open(cls, tracking: Path, identity: Json) -> "Feed":
        """Find the run of a training, or create it. A training with another end has another run."""
        client, experiment = open_experiment(tracking, identity["table"])
        params = flatten(identity["config"]) | {"seed": str(identity["seed"])}
        tags = {f"nmt.{key}": str(identity[key]) for key in ("run", "table", "system", "seed")}
        ends = {key: params[key] for key in map("training.{}".format, ENDS)}
        run = find_or_create_run(client, experiment, identity["title"], tags, identity["start"], ends)
        describe(client, run, params, {"nmt.kind": "training"})
        return cls(client, experiment, run, _largest_steps(client, run))

    def send(self, records: Records) -> None:
        """Log the curves' points that the store lacks."""
        missing = [point for point in points(records) if point.step > self.steps.get(point.key, -1)]
        for batch in batched(missing, BATCH["metrics"]):
            self.client.log_batch(self.run, metrics=batch)
            self.steps |= {point.key: point.step for point in batch}


def identity_of(path: Path, table: str, system: str, seed: int) -> Json:
    """A run's identity, of the configuration, seed and data that a training wrote to ``path``."""
    written, log = read_json(path), path.parent / "log.jsonl"
    starts = [record["time"] for record in read_records(log) if record["event"] == "start"]
    return {
        "table": table, "system": system, "seed": seed, "title": f"{system}, seed {seed}",
        "run": f"{table}/{system}/seed{seed}/{digest(written['identity'])}",
        "start": int(1000 * starts[0]) if starts else None, "config": written["config"],
    }  # fmt: skip


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
                    yield Metric(f"{name}/{record['event']}", float(record[name]), stamp, record["update"])


def _largest_steps(client: "MlflowClient", run: str) -> dict[str, int]:
    """The last step of each curve of a run."""
    keys = [key for key in client.get_run(run).data.metrics if key.endswith(("/train", "/valid"))]
    return {key: max(point.step for point in client.get_metric_history(run, key)) for key in keys}
