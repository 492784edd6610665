"""MLflow, which only this module knows: an experiment a table, a run a system and seed, fed from ``log.jsonl``.

An ensemble is a run too, with scores and without curves.

Tracking must never cost a training: trouble is one warning, and ``nmt track publish`` can make up for it later.
Nothing is logged twice: a run is found again by its tag; a curve goes on after its largest step (a resumed training
repeats steps with the same values); and a record's time follows from the log alone, so that a store that gets a value
twice at once keeps it once.
"""

import json
import logging
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config.table import Table
from nmt.config.training import ENDS
from nmt.scoring.samples import samples
from nmt.system.errors import DataError
from nmt.system.files import digest, read_json, read_lines, write_json

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

POLL = 2.0  # seconds between looks at a log
PATIENCE = 60.0  # longest wait, in seconds, between two attempts at a store that fails
CURVES = ("loss", "accuracy", "bleu", "train_bleu", "learning_rate", "gradient_norm", "tokens_per_second")
BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's limits for one call
MADE_OF = ("config", "seed", "data", "subwords")
SAMPLES = 10

Records = list[dict[str, Any]]


def prepare(
    uri: str | None, results: Path, tables: dict[str, Table], seeds: Sequence[int], later: bool = False
) -> dict[str, Any]:
    """Create the store, an experiment a table, and a parent run for each system with several seeds.

    One process does this before any other logs: several that create a store or an experiment at once lose data.

    Args:
        uri: where MLflow keeps runs; when None ``MLFLOW_TRACKING_URI``, else an sqlite file in ``results``.
        results: where ``tracking.json`` goes.
        tables: by name.
        seeds: of the systems that name none.
        later: jobs run on several machines, so a store that is no server (sqlite does not work on a shared file system)
            is left to `publish`, and trainings are not followed.

    Returns:
        What is written to ``tracking.json``: ``{uri, live, experiments: {table: id}, parents: {"table/system": run
        id}}``. A store that fails costs a warning; what it lacks (a parent's id is null) is then created by `publish`.
    """
    results = results.resolve()
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{results}/mlflow.db"
    parents = {f"{name}/{system}": None for name, table in tables.items() for system in _with_several(table, seeds)}
    live = uri.startswith("http") or not later
    found: dict[str, Any] = {"uri": uri, "live": live, "experiments": {}, "parents": parents}
    results.mkdir(parents=True, exist_ok=True)
    try:
        client = _connect(uri) if live else None
        for name, table in tables.items() if client else ():
            found["experiments"][name] = experiment = _experiment(client, name, uri, results)
            for system in _with_several(table, seeds):
                found["parents"][f"{name}/{system}"] = _parent(client, experiment, name, system)
    except Exception as error:
        _warn(f"{uri}: {_line(error)}; nothing is tracked while it fails, all else goes on")
    write_json(results / "tracking.json", found)
    return found


def follow(run_dir: Path, tracking: Path, table: str, system: str, seed: int, pid: int) -> None:
    """Feed MLflow from a training's log while its process lives; never raises for MLflow's sake.

    Args:
        run_dir: the training's folder; its log is ``state/log.jsonl``.
        tracking: what `prepare` wrote.
        table: the run's table.
        system: the run's system.
        seed: the run's seed.
        pid: the training's process.
    """
    if tracking.is_file() and not read_json(tracking).get("live", True):
        return
    feed, delay, warned = None, POLL, False
    while True:
        ended = not _alive(pid)  # asked before the log is read, so that its last lines are not missed
        try:
            if feed is None and _has_started(run_dir, pid):
                feed = _Feed.open(tracking, _identity(run_dir / "state" / "identity.json", table, system, seed))
                feed.client.update_run(feed.run, status="RUNNING")
            if feed is not None:
                feed.send(_records(run_dir / "state" / "log.jsonl"))
                delay = POLL
                if ended and not (run_dir / "training.json").is_file():
                    feed.client.set_terminated(feed.run, "KILLED")
        except Exception as error:
            if not warned:
                _warn(f"{_line(error)}; training goes on, and `nmt track publish` sends everything at its end")
            warned, delay = True, min(2 * delay, PATIENCE)
        if ended:
            return
        _wait(delay, pid)


def publish(
    run_dir: Path, tracking: Path, table: str, system: str, seed: int, scores: list[Path], figures: list[Path]
) -> dict[str, Any]:
    """Make a finished training's run complete: curves, parameters, scores, artifacts, tags, and its parent's means.

    Args:
        run_dir: the training's folder.
        tracking: what `prepare` wrote.
        table: the run's table.
        system: the run's system.
        seed: the run's seed.
        scores: its score folders.
        figures: files to keep with it.

    Returns:
        ``{status: "published", uri, experiment, run}``; or, if MLflow failed, after a warning,
        ``{status: "failed", uri, problem, later: the command to run}``.

    Raises:
        DataError: a file of the training or of its scores is missing.
    """
    training, records = read_json(run_dir / "training.json"), _records(run_dir / "log.jsonl")
    read = {folder: read_json(folder / "scores.json") for folder in scores}
    identity = _identity(run_dir / "training.json", table, system, seed)

    drawn = ["--figures", figures[0].parent] if figures else []

    def send(feed: _Feed) -> None:
        feed.send(records)
        _send_facts(feed, training, read)
        _send_scores(feed, read)
        _send_artifacts(feed, run_dir, training, figures)
        _finish(feed.client, feed.run, records)
        _summarise(feed)

    return _sent(send, run_dir, tracking, identity, [*scores, *drawn])


def publish_ensemble(
    run_dir: Path, tracking: Path, table: str, system: str, seeds: str, scores: list[Path]
) -> dict[str, Any]:
    """Make the run of an ensemble of several seeds' models complete: parameters, scores, artifacts and tags.

    Args:
        run_dir: the ensemble's folder, beside those of its members.
        tracking: what `prepare` wrote.
        table: the run's table.
        system: the run's system.
        seeds: of its members, ``1-2-3``.
        scores: its score folders.

    Returns:
        As `publish` does.

    Raises:
        DataError: a file of its first member's training or of its scores is missing, or they are no ensemble's.
    """
    read = {folder: read_json(folder / "scores.json") for folder in scores}
    member = read_json(run_dir.with_name(f"seed{seeds.split('-')[0]}") / "training.json")
    members = [_members(folder, score) for folder, score in read.items()]
    identity = _named(table, system, seeds, digest(members), "ensemble") | {
        "title": f"{system}, seeds {seeds} together", "start": None, "config": _endless(member["config"]),
    }  # fmt: skip

    def send(feed: _Feed) -> None:
        feed.describe(params={"corpus": str(member["corpus"])}, tags=_parent_tag(feed))
        _send_scores(feed, read)
        _finish(feed.client, feed.run, [])

    return _sent(send, run_dir, tracking, identity, scores)


def _members(folder: Path, score: dict[str, Any]) -> list[str]:
    """The checksums of the weights of an ensemble's members; raises DataError for another model's scores."""
    if (found := score["provenance"].get("members")) is None:
        raise DataError(f"{folder}: expected the scores of an ensemble, got those of one model; give its seed alone")
    return list(found)


def _sent(
    send: Callable[["_Feed"], None], run_dir: Path, tracking: Path, identity: dict[str, Any], given: Sequence[Any]
) -> dict[str, Any]:
    """Send what belongs to a run; what `publish` returns, with the command for later if MLflow fails."""
    uri = read_json(tracking)["uri"]
    try:
        feed = _Feed.open(tracking, identity)
        send(feed)
        return {"status": "published", "uri": uri, "experiment": feed.experiment, "run": feed.run}
    except Exception as error:
        name = f"{identity['table']}/{identity['system']}"
        command = ["nmt", "track", "publish", run_dir, *given, "--tracking", tracking, "--name", name]
        command += ["--seed", identity["seed"], "--out", run_dir / "tracked.json"]
        later = shlex.join(map(str, command))
        hint = f"; if the store is a new one, delete {tracking} and run the workflow again"
        _warn(f"{uri}: {_line(error)}; nothing else is lost; once it works, run: {later}{hint}")
        return {"status": "failed", "uri": uri, "problem": _line(error), "later": later}


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested mappings as one, its keys joined by dots: ``{"a": {"b": 1}}`` → ``{"a.b": "1"}``; the rest as JSON."""
    if isinstance(value, dict):
        parts = (flatten(part, f"{prefix}.{key}" if prefix else str(key)) for key, part in value.items())
        return {key: text for part in parts for key, text in part.items()}
    return {prefix: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


@dataclass
class _Feed:
    """A run that is open to be logged to."""

    client: "MlflowClient"
    experiment: str
    run: str
    parent: str | None
    identity: dict[str, Any]
    steps: dict[str, int]  # the largest step of each curve there

    @classmethod
    def open(cls, tracking: Path, identity: dict[str, Any]) -> "_Feed":
        """Find the run of a training, or create it."""
        store = read_json(tracking)
        client, table, system = _connect(store["uri"]), identity["table"], identity["system"]
        experiment = store["experiments"].get(table) or _experiment(
            client, table, store["uri"], tracking.resolve().parent
        )
        tags = {f"nmt.{key}": str(identity[key]) for key in ("run", "group", "table", "system", "seed")}
        run = _run(client, experiment, identity["title"], tags, identity["start"])
        parent = store["parents"].get(f"{table}/{system}")
        if parent is None and f"{table}/{system}" in store["parents"]:
            parent = _parent(client, experiment, table, system)
        feed = cls(client, experiment, run, parent, identity, _largest_steps(client, run))
        feed.describe(params=flatten(identity["config"]) | {"seed": str(identity["seed"])})
        return feed

    def send(self, records: Records) -> None:
        """Log the points of the curves that are not there yet."""
        missing = [point for point in _points(records) if point.step > self.steps.get(point.key, -1)]
        for start in range(0, len(missing), BATCH["metrics"]):
            batch = missing[start : start + BATCH["metrics"]]
            self.client.log_batch(self.run, metrics=batch)
            self.steps |= {point.key: point.step for point in batch}

    def describe(self, params: dict[str, str] | None = None, tags: dict[str, str] | None = None) -> None:
        """Log parameters that are not there yet (they cannot change) and set tags."""
        from mlflow.entities import Param, RunTag

        there = self.client.get_run(self.run).data.params
        new = [Param(key, value) for key, value in (params or {}).items() if key not in there]
        for start in range(0, len(new), BATCH["params"]):
            self.client.log_batch(self.run, params=new[start : start + BATCH["params"]])
        changed = [RunTag(key, value) for key, value in (tags or {}).items()]
        for start in range(0, len(changed), BATCH["tags"]):
            self.client.log_batch(self.run, tags=changed[start : start + BATCH["tags"]])


def _connect(uri: str) -> "MlflowClient":
    """A client that gives up soon and says little."""
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "WARNING", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    }  # fmt: skip
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for logger in ("alembic", "mlflow", "urllib3"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    return MlflowClient(tracking_uri=uri)


def _experiment(client: "MlflowClient", name: str, uri: str, results: Path) -> str:
    """The id of a table's experiment, created or taken out of the bin if need be."""
    found = client.get_experiment_by_name(name)
    if found is None:
        # A server knows best where its artifacts go; an sqlite store would put them where the process happens to run.
        location = (results / "mlartifacts").as_uri() if uri.startswith("sqlite:") else None
        return str(client.create_experiment(name, artifact_location=location))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _run(client: "MlflowClient", experiment: str, title: str, tags: dict[str, str], start: int | None = None) -> str:
    """The id of the run that a tag names, or of a new one; ``start`` in milliseconds since 1970."""
    found = client.search_runs([experiment], f"tags.`nmt.run` = '{tags['nmt.run']}'", max_results=1)
    if not found:
        return str(client.create_run(experiment, start_time=start, tags=tags, run_name=title).info.run_id)
    return str(found[0].info.run_id)


def _parent(client: "MlflowClient", experiment: str, table: str, system: str) -> str:
    """The run above those of a system's seeds."""
    tags = {"nmt.run": f"{table}/{system}/all seeds", "nmt.table": table, "nmt.system": system}
    return _run(client, experiment, f"{system}, all seeds", tags)


def _identity(path: Path, table: str, system: str, seed: int) -> dict[str, Any]:
    """What tells a run from others: of a training's configuration, seed and data, as the training wrote them."""
    written = read_json(path)
    identity = written["identity"]
    group = digest({key: value for key, value in identity.items() if key != "seed"})
    log = path.parent / "log.jsonl"
    starts = [record["time"] for record in _records(log) if record["event"] == "start"]
    return _named(table, system, seed, digest(identity), group) | {
        "title": f"{system}, seed {seed}", "start": int(1000 * starts[0]) if starts else None,
        "config": _endless(written["config"]),
    }  # fmt: skip


def _named(table: str, system: str, seed: int | str, made_of: str, group: str) -> dict[str, Any]:
    """The names that a run is found by."""
    return {
        "table": table, "system": system, "seed": seed, "run": f"{table}/{system}/seed{seed}/{made_of}",
        "group": f"{table}/{system}/{group}",
    }  # fmt: skip


def _endless(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without when to end: a longer training goes on in its run, whose parameters cannot change."""
    return config | {"training": {key: value for key, value in config["training"].items() if key not in ENDS}}


def _records(log: Path) -> Records:
    """The whole records of a log, which may be growing."""
    found = []
    for line in read_lines(log) if log.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # half written
            break
    return found


def _has_started(run_dir: Path, pid: int) -> bool:
    """Whether the training has claimed its folder; until then another one's log may lie there."""
    records = _records(run_dir / "state" / "log.jsonl")
    return pid in [record.get("process") for record in records if record["event"] == "start"]


def _points(records: Records) -> Iterator["Metric"]:
    """The curves in a log. A point's time is its attempt's start plus the training time since."""
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
    """Where each curve of a run ends."""
    keys = [key for key in client.get_run(run).data.metrics if key.startswith(("train/", "valid/"))]
    return {key: max(point.step for point in client.get_metric_history(run, key)) for key in keys}


def _send_facts(feed: _Feed, training: dict[str, Any], scores: dict[Path, dict[str, Any]]) -> None:
    """Parameters, tags and closing figures of a finished training."""
    recipes = [flatten(score["cleaning"], "cleaning") for score in scores.values()][:1]
    params = {"corpus": str(training["corpus"]), **flatten(training["subwords"].get("subwords", {}), "subwords")}
    tags = {
        "nmt.code_version": training["code_version"], "nmt.device": training["device"],
        **flatten(training["data"], "nmt.data"), **flatten(training["hardware"], "nmt.hardware"),
        **flatten(training["subwords"].get("vocab_sha256", {}), "nmt.vocabulary"),
        **flatten(training["versions"], "nmt.versions"),
        **{f"nmt.training.{key}": json.dumps(training["config"]["training"][key]) for key in ENDS},
    }  # fmt: skip
    tags |= _parent_tag(feed)
    feed.describe(params={key: value for part in (params, *recipes) for key, value in part.items()}, tags=tags)
    numbers = {f"training/{key}": training[key] for key in ("seconds", "updates", "epochs", "parameters")}
    _send_changed(feed.client, feed.run, numbers, training["updates"])


def _parent_tag(feed: _Feed) -> dict[str, str]:
    return {"mlflow.parentRunId": feed.parent} if feed.parent else {}


def _send_scores(feed: _Feed, scores: dict[Path, dict[str, Any]]) -> None:
    """The scores of each decoding, and some of its translations; sent again they replace themselves."""
    for folder, score in scores.items():
        _send_changed(feed.client, feed.run, _closing(folder, score), score["provenance"]["update"])
        feed.client.log_artifact(feed.run, str(folder / "scores.json"), _place(folder, score))
        blocks = ["\n".join(f"{part}: {text}" for part, text in one.items()) for one in samples(folder, SAMPLES)]
        feed.client.log_text(feed.run, "\n\n".join(blocks) + "\n", f"{_place(folder, score)}/samples.txt")


def _closing(folder: Path, score: dict[str, Any]) -> dict[str, float]:
    """The scores of one decoding of one test set, by name."""
    return {
        f"{_place(folder, score)}/{protocol}.{metric}": score[protocol][metric]["score"]
        for protocol in ("tokenised", "detokenised")
        for metric in score[protocol]
    }


def _place(folder: Path, score: dict[str, Any]) -> str:
    return f"test/{score['test']}/{score['provenance']['selection'].replace(' ', '-')}/{folder.name}"


def _send_changed(client: "MlflowClient", run: str, values: dict[str, float], step: int) -> None:
    """Log those values that differ from the run's latest."""
    from mlflow.entities import Metric

    there, now = client.get_run(run).data.metrics, int(1000 * time.time())
    new = [Metric(key, float(value), now, step) for key, value in values.items() if there.get(key) != float(value)]
    if new:
        client.log_batch(run, metrics=new)


def _send_artifacts(feed: _Feed, run_dir: Path, training: dict[str, Any], figures: Iterable[Path]) -> None:
    """Files; sent again they replace themselves."""
    client, run = feed.client, feed.run
    client.log_dict(run, {key: training[key] for key in MADE_OF}, "config.json")
    for file in (run_dir / "training.json", run_dir / "log.jsonl"):
        client.log_artifact(run, str(file))
    for figure in figures:
        client.log_artifact(run, str(figure), "figures")


def _finish(client: "MlflowClient", run: str, records: Records) -> None:
    if client.get_run(run).info.status != "FINISHED":
        stamps = [point.timestamp for point in _points(records)]
        client.set_terminated(run, "FINISHED", max(stamps, default=None))


def _summarise(feed: _Feed) -> None:
    """Give the parent mean and standard deviation over the seeds of this very configuration."""
    if feed.parent is None:
        return
    seeds = feed.client.search_runs([feed.experiment], f"tags.`nmt.group` = '{feed.identity['group']}'")
    columns = [seed.data.metrics for seed in seeds]
    shared = [key for key in columns[0] if key.startswith(("test/", "training/")) and all(key in c for c in columns)]
    values = {key: [column[key] for column in columns] for key in shared}
    summary = {f"{key}.mean": statistics.fmean(found) for key, found in values.items()}
    if len(seeds) > 1:
        summary |= {f"{key}.std": statistics.stdev(found) for key, found in values.items()}
    _send_changed(feed.client, feed.parent, summary, len(seeds))
    for seed in seeds:
        feed.client.set_tag(seed.info.run_id, "mlflow.parentRunId", feed.parent)
    _finish(feed.client, feed.parent, [])


def _with_several(table: Table, seeds: Sequence[int]) -> list[str]:
    trained = dict.fromkeys(row.system for row in table.rows if row.system)
    return [name for name in trained if len(table.seeds_of(name, seeds)) > 1]


def _alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent to notice does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # another user's, or a system without /proc
        return True


def _wait(seconds: float, pid: int) -> None:
    """Sleep, but no longer than the process lives."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and _alive(pid):
        time.sleep(min(POLL, 0.5))


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _warn(text: str) -> None:
    print(f"nmt: warning: MLflow: {text}", file=sys.stderr)
