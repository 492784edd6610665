"""Complete the MLflow run of a finished training: curves, parameters, tags, files."""

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nmt.plan.systems import flatten
from nmt.system.errors import first_line
from nmt.system.files import Json, read_json
from nmt.system.warnings import warn
from nmt.tracking.feed import Feed, identity_of, points, read_records
from nmt.tracking.store import describe, finish, send_changed

MADE_OF = ("config", "seed", "data", "subwords")


def publish(run_dir: Path, tracking: Path, table: str, system: str, seed: int) -> Json:
    """Make a finished training's run complete: curves, parameters, tags and files.

    Args:
        run_dir: the training's folder.
        tracking: what `prepare` wrote.
        table: the run's table.
        system: the run's system.
        seed: the run's seed.

    Returns:
        ``{status: "published", uri, experiment, run}``; or, if MLflow failed, after a warning,
        ``{status: "failed", uri, problem, later: the command to run}``.

    Raises:
        DataError: a file of the training is missing.
    """
    training, records = read_json(run_dir / "training.json"), read_records(run_dir / "log.jsonl")
    identity = identity_of(run_dir / "training.json", table, system, seed)

    def send() -> Json:
        feed = Feed.open(tracking, identity)
        feed.send(records)
        _send_facts(feed, training)
        _send_files(feed, run_dir, training)
        finish(feed.client, feed.run, max((point.timestamp for point in points(records)), default=None))
        return {"experiment": feed.experiment, "run": feed.run}

    name = ["--name", f"{table}/{system}", "--seed", seed]
    return try_to_send(send, run_dir / "tracked.json", tracking, ["publish", run_dir, *name])


def try_to_send(send: Callable[[], Json], marker: Path, tracking: Path, command: Sequence[Any]) -> Json:
    """Send, and return what `publish` returns: if MLflow fails, the command for later.

    Args:
        send: sends everything and says where it is.
        marker: the file that says what was published.
        tracking: what `prepare` wrote.
        command: the words of `nmt track` that send the same, without ``--tracking`` and ``--out``.
    """
    uri = read_json(tracking)["uri"]
    try:
        return {"status": "published", "uri": uri} | send()
    except Exception as error:
        later = shlex.join(map(str, ["nmt", "track", *command, "--tracking", tracking, "--out", marker]))
        warn(
            "not tracked", marker.parent, 1, f"MLflow lacks this run: {uri}: {first_line(error)}",
            f"nothing else is lost; once the store works, run the workflow again, or: {later}", scores=False,
        )  # fmt: skip
        return {"status": "failed", "uri": uri, "problem": first_line(error), "later": later}


def _send_facts(feed: Feed, training: Json) -> None:
    """Send parameters, tags and final figures of a finished training."""
    params = {"corpus": str(training["corpus"]), **flatten(training["subwords"].get("subwords", {}), "subwords")}
    tags = {
        "nmt.code_version": training["code_version"], "nmt.device": training["device"],
        **flatten(training["data"], "nmt.data"), **flatten(training["hardware"], "nmt.hardware"),
        **flatten(training["subwords"].get("vocab_sha256", {}), "nmt.vocabulary"),
        **flatten(training["versions"], "nmt.versions"),
        **flatten(training.get("initialise", {}), "nmt.initialise"),
    }  # fmt: skip
    describe(feed.client, feed.run, params, tags)
    send_changed(feed.client, feed.run, {key: training[key] for key in ("seconds", "updates", "epochs", "parameters")})


def _send_files(feed: Feed, run_dir: Path, training: Json) -> None:
    """Send files; sending again replaces them."""
    feed.client.log_text(feed.run, json.dumps({key: training[key] for key in MADE_OF}, indent=2), "config.json")
    for file in (run_dir / "training.json", run_dir / "log.jsonl"):
        feed.client.log_artifact(feed.run, str(file))
