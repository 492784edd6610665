"""Complete the MLflow run of a finished training or ensemble: curves, parameters, scores, artifacts, tags."""

import json
import shlex
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config.training import ENDS
from nmt.plan.systems import flatten
from nmt.scoring.samples import samples
from nmt.system.errors import DataError
from nmt.system.files import digest, read_json
from nmt.system.warnings import warn
from nmt.tracking.feed import Feed, Records, identity_of, names_of, points, read_records, without_end
from nmt.tracking.store import first_line, send_changed

if TYPE_CHECKING:
    from mlflow import MlflowClient

MADE_OF = ("config", "seed", "data", "subwords")
SAMPLES = 10


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
    training, records = read_json(run_dir / "training.json"), read_records(run_dir / "log.jsonl")
    read = {folder: read_json(folder / "scores.json") for folder in scores}
    identity = identity_of(run_dir / "training.json", table, system, seed)
    drawn = ["--figures", figures[0].parent] if figures else []

    def send(feed: Feed) -> None:
        feed.send(records)
        _send_facts(feed, training, read)
        _send_scores(feed, read)
        _send_artifacts(feed, run_dir, training, figures)
        _finish(feed.client, feed.run, records)
        _summarise_seeds(feed)

    return _try_to_send(send, run_dir, tracking, identity, [*scores, *drawn])


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
    identity = names_of(table, system, seeds, digest(members), "ensemble") | {
        "title": f"{system}, seeds {seeds} together", "start": None, "config": without_end(member["config"]),
    }  # fmt: skip

    def send(feed: Feed) -> None:
        feed.describe(params={"corpus": str(member["corpus"])}, tags=_parent_tag(feed))
        _send_scores(feed, read)
        _finish(feed.client, feed.run, [])

    return _try_to_send(send, run_dir, tracking, identity, scores)


def _members(folder: Path, score: dict[str, Any]) -> list[str]:
    """The checksums of the weights of an ensemble's members; raises DataError for another model's scores."""
    if (members := score["provenance"].get("members")) is None:
        raise DataError(f"{folder}: expected the scores of an ensemble, got those of one model; give its seed alone")
    return list(members)


def _try_to_send(
    send: Callable[[Feed], None], run_dir: Path, tracking: Path, identity: dict[str, Any], given: Sequence[Any]
) -> dict[str, Any]:
    """Open the run and send; returns what `publish` returns, with the command for later if MLflow fails."""
    uri = read_json(tracking)["uri"]
    try:
        feed = Feed.open(tracking, identity)
        send(feed)
        return {"status": "published", "uri": uri, "experiment": feed.experiment, "run": feed.run}
    except Exception as error:
        name = f"{identity['table']}/{identity['system']}"
        command = ["nmt", "track", "publish", run_dir, *given, "--tracking", tracking, "--name", name]
        command += ["--seed", identity["seed"], "--out", run_dir / "tracked.json"]
        later = shlex.join(map(str, command))
        warn(
            "not tracked", run_dir, 1, f"MLflow lacks this run: {uri}: {first_line(error)}",
            f"nothing else is lost; once the store works, run the workflow again, or: {later}", scores=False,
        )  # fmt: skip
        return {"status": "failed", "uri": uri, "problem": first_line(error), "later": later}


def _send_facts(feed: Feed, training: dict[str, Any], scores: dict[Path, dict[str, Any]]) -> None:
    """Send parameters, tags and final figures of a finished training."""
    recipes = [flatten(score["cleaning"], "cleaning") for score in scores.values()][:1]
    params = {"corpus": str(training["corpus"]), **flatten(training["subwords"].get("subwords", {}), "subwords")}
    tags = {
        "nmt.code_version": training["code_version"], "nmt.device": training["device"],
        **flatten(training["data"], "nmt.data"), **flatten(training["hardware"], "nmt.hardware"),
        **flatten(training["subwords"].get("vocab_sha256", {}), "nmt.vocabulary"),
        **flatten(training["versions"], "nmt.versions"),
        **flatten(training.get("initialise", {}), "nmt.initialise"),
        **{f"nmt.training.{key}": json.dumps(training["config"]["training"][key]) for key in ENDS},
    }  # fmt: skip
    tags |= _parent_tag(feed)
    feed.describe(params={key: value for part in (params, *recipes) for key, value in part.items()}, tags=tags)
    numbers = {f"training/{key}": training[key] for key in ("seconds", "updates", "epochs", "parameters")}
    send_changed(feed.client, feed.run, numbers, training["updates"])


def _parent_tag(feed: Feed) -> dict[str, str]:
    return {"mlflow.parentRunId": feed.parent} if feed.parent else {}


def _send_scores(feed: Feed, scores: dict[Path, dict[str, Any]]) -> None:
    """Send each decoding's scores and some of its translations; sending again replaces them."""
    for folder, score in scores.items():
        place = f"test/{score['test']}/{score['provenance']['selection'].replace(' ', '-')}/{folder.name}"
        values = {
            f"{place}/{protocol}.{metric}": score[protocol][metric]["score"]
            for protocol in ("tokenised", "detokenised")
            for metric in score[protocol]
        }
        send_changed(feed.client, feed.run, values, score["provenance"]["update"])
        feed.client.log_artifact(feed.run, str(folder / "scores.json"), place)
        blocks = ["\n".join(f"{part}: {text}" for part, text in sample.items()) for sample in samples(folder, SAMPLES)]
        feed.client.log_text(feed.run, "\n\n".join(blocks) + "\n", f"{place}/samples.txt")


def _send_artifacts(feed: Feed, run_dir: Path, training: dict[str, Any], figures: Iterable[Path]) -> None:
    """Send files; sending again replaces them."""
    client, run = feed.client, feed.run
    client.log_dict(run, {key: training[key] for key in MADE_OF}, "config.json")
    for file in (run_dir / "training.json", run_dir / "log.jsonl"):
        client.log_artifact(run, str(file))
    for figure in figures:
        client.log_artifact(run, str(figure), "figures")


def _finish(client: "MlflowClient", run: str, records: Records) -> None:
    if client.get_run(run).info.status != "FINISHED":
        stamps = [point.timestamp for point in points(records)]
        client.set_terminated(run, "FINISHED", max(stamps, default=None))


def _summarise_seeds(feed: Feed) -> None:
    """Log to the parent run the mean and standard deviation over the seeds of this exact configuration."""
    if feed.parent is None:
        return
    seeds = feed.client.search_runs([feed.experiment], f"tags.`nmt.group` = '{feed.identity['group']}'")
    columns = [seed.data.metrics for seed in seeds]
    shared = [key for key in columns[0] if key.startswith(("test/", "training/")) and all(key in c for c in columns)]
    values = {key: [column[key] for column in columns] for key in shared}
    summary = {f"{key}.mean": statistics.fmean(scores) for key, scores in values.items()}
    if len(seeds) > 1:
        summary |= {f"{key}.std": statistics.stdev(scores) for key, scores in values.items()}
    send_changed(feed.client, feed.parent, summary, len(seeds))
    for seed in seeds:
        feed.client.set_tag(seed.info.run_id, "mlflow.parentRunId", feed.parent)
    _finish(feed.client, feed.parent, [])
