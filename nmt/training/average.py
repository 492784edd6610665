"""Checkpoint selection, checkpoint averaging and ensembles: from the state of a training to a model directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.config.models import fitting_model, stored_model
from nmt.config.selection import START
from nmt.data import card
from nmt.data.encoded import read_meta
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError, fitting
from nmt.system.files import atomic_directory, copy_file, read_json, sha256, write_json, write_text
from nmt.text.subwords import SIDES
from nmt.training.checkpoint import (
    WEIGHTS,
    Checkpoints,
    Progress,
    best_of,
    check_model_directory,
    load_verified,
    verified_weights,
    write_tensors,
)

WHERE_IN_STATE = Path("state") / "checkpoints"
CONFIG = "config.json"


def average(run: Path, encoded: Path, at: str, out: Path, start: Path | None = None) -> None:
    """Make a model directory from one checkpoint of a training, or from the mean of several.

    Args:
        run: a finished training (``training.json`` and ``state/``).
        encoded: the corpus that it was trained on, for the subword models.
        at: ``last``, ``best``, ``epoch 16``, ``update 4000``, ``average 10``, ``average best 5``; ``start``; ``best and
            start``, and so on, is the mean of both (WiSE-FT in equal parts, Wortsman and others 2022).
        out: the model directory.
        start: the model directory that the training started from.

    Raises:
        ConfigError: no such checkpoint was kept; the message lists the others. Or ``start`` does not fit.
        DataError: a checkpoint is damaged.
    """
    with fitting(run, "a finished training", "train it again"):
        _average(run, encoded, at, out, start)


def _average(run: Path, encoded: Path, at: str, out: Path, start: Path | None) -> None:
    training = read_json(run / "training.json")
    chosen = select(run, at, training["config"]["training"]["monitor"])
    parts = [mean([_weights(checkpoint, run) for checkpoint in chosen])] if chosen else []
    meta = read_meta(encoded)
    if (training["data"], training["subwords"]) != (meta["splits"], meta["subwords"]):
        raise DataError(f"{run}: was not trained on {encoded} as it is now; give the --encoded it was trained on")
    if at.endswith(START):
        parts.append(_start_weights(training, start))
    with atomic_directory(out, "provenance.json") as folder:
        write_tensors(mean(parts), folder / WEIGHTS)
        for side in SIDES:
            copy_file(encoded / f"{side}.model", folder / f"{side}.model")
        write_json(folder / CONFIG, {"model": training["config"]["model"], "vocabulary": meta["vocabulary"]})
        write_json(folder / "cleaning.json", {"cleaning": meta["cleaning"], "languages": meta["languages"]})
        made = _provenance(training, meta, at, chosen, run) | {"weights_sha256": sha256(folder / WEIGHTS)}
        write_json(folder / "provenance.json", made)
        write_text(folder / card.NAME, card.model_card(folder))


def _weights(checkpoint: Path, run: Path) -> dict[str, Tensor]:
    try:
        return load_verified(checkpoint, WEIGHTS)
    except DataError as error:  # `nmt train` would find the training finished
        raise DataError(f"{error}; choose another checkpoint (--at), or delete {run} and train again") from None


def _start_weights(training: dict[str, Any], start: Path | None) -> dict[str, Tensor]:
    """Return the weights that a training started from; raise ConfigError if ``start`` is another or larger model."""
    facts = training.get("initialise")
    if start is None or facts is None:
        got = "none (--start)" if facts else "a training that started from random weights"
        raise ConfigError(f"at: expected the model that the training started from, got {got}; choose another --at")
    made = read_json(start / "provenance.json")
    if made["weights_sha256"] != (expected := facts["weights_sha256"]):
        raise ConfigError(
            f"{start}: expected the weights that the training started from, {expected[:12]}…, got "
            f"{made['weights_sha256'][:12]}…; name the model of --initialise"
        )
    weights = verified_weights(start)
    whole = {"taken": sum(weight.numel() for weight in weights.values()), "new": 0}
    if facts["parameters"] != whole or made["subwords"] != training["subwords"]:
        raise ConfigError(f"{start}: expected the layers and subwords of the training, got others; choose another --at")
    return weights


def ensemble(models: Sequence[Path], out: Path) -> None:
    """Combine model directories into an ensemble (`nmt.models.search.Ensemble`).

    Args:
        models: directories that `average` wrote, with the same configuration and vocabulary.
        out: the new model directory; each parameter's name starts with the number of its model, from 0.

    Raises:
        ConfigError: there are fewer than two models, they do not fit together, or ``out`` is a model.
        DataError: a model is damaged.
    """
    if len(models) < 2:
        raise ConfigError(f"expected two models or more for an ensemble, got {len(models)}; name more")
    if len({model.resolve() for model in models}) < len(models):
        raise ConfigError("expected different models for an ensemble, got one twice; name each once")
    for model in models:
        check_model_directory(model)
        with fitting_model(model):
            differs = _differences(model, models[0])
        if differs:
            raise ConfigError(
                f"{model}: expected the same {', '.join(differs)} as in {models[0]}, got another; an ensemble is of "
                "models that differ in their weights alone"
            )
    if (out / CONFIG).is_file() and "members" not in read_json(out / CONFIG):
        raise ConfigError(f"{out}: expected a folder for the ensemble, got one that holds a model; name another")
    with atomic_directory(out, "provenance.json") as folder:
        for name in ("cleaning.json", *(f"{side}.model" for side in SIDES)):
            copy_file(models[0] / name, folder / name)
        write_json(folder / CONFIG, read_json(models[0] / CONFIG) | {"members": len(models)})
        weights = {f"{n}.{name}": w for n, model in enumerate(models) for name, w in verified_weights(model).items()}
        write_tensors(weights, folder / WEIGHTS)
        members = [read_json(model / "provenance.json") for model in models]
        write_json(
            folder / "provenance.json", _ensemble_provenance(members) | {"weights_sha256": sha256(folder / WEIGHTS)}
        )
        write_text(folder / card.NAME, card.model_card(folder))


def _differences(model: Path, first: Path) -> list[str]:
    """Return in what two models differ that an ensemble must share; raise ConfigError if a model is an ensemble."""
    if "members" in read_json(model / CONFIG):
        raise ConfigError(f"{model}: expected a model, got an ensemble; name its models instead")

    def shared(folder: Path) -> dict[str, Any]:
        config = read_json(folder / CONFIG)["model"]
        return {
            "model configuration": stored_model(config, folder),
            "cleaning": read_json(folder / "cleaning.json"),
            "subwords": read_json(folder / "provenance.json")["subwords"],
        }

    ours, theirs = shared(model), shared(first)
    return [key for key in ours if ours[key] != theirs[key]]


def _ensemble_provenance(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Combine the provenance of the members."""
    return members[0] | {
        "seed": "-".join(str(member["seed"]) for member in members), "averaged_by": machine.code_version(),
        "checkpoints": [f"seed {member['seed']}: {name}" for member in members for name in member["checkpoints"]],
        **{key: sum(member[key] for member in members) for key in ("training_seconds", "parameters")},
        **{key: max(member[key] for member in members) for key in ("update", "epoch")},
        "valid_loss": None, "valid_bleu": None,
        **({"initialise": [member["initialise"] for member in members]} if "initialise" in members[0] else {}),
        "members": [member["weights_sha256"] for member in members],
        "starts": [start for member in members for start in _starts(member)],
    }  # fmt: skip


def _starts(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the starts of a training with their machine and code; older records have the last ones only."""
    return record.get("starts") or [{"update": 0, **{key: record[key] for key in ("hardware", "code_version")}}]


def select(run: Path, at: str, monitor: str) -> list[Path]:
    """Return the checkpoints that a selection names, oldest first. ``start`` names none. Errors: see `average`."""
    at = at.removesuffix(f" and {START}")
    if at == START:
        return []
    checkpoints = Checkpoints(run / WHERE_IN_STATE)
    progress = {path: checkpoints.progress(path) for path in checkpoints.all()}
    if not progress:
        raise ConfigError(
            f"at: {at}: expected checkpoints in {checkpoints.folder}, got none; where nmt restore put the run back, it "
            f"has no weights: delete {run} and train it"
        )
    regular = [path for path, p in progress.items() if p.regular or path == max(progress)]  # the end counts too
    kind, _, rest = at.rpartition(" ")
    if at == "best" or kind == "average best":
        chosen = best_of(progress, monitor)[: 1 if at == "best" else int(rest)]
    elif at == "last" or kind == "average":
        chosen = regular[-1:] if at == "last" else regular[-int(rest) :]
    else:
        number = int(rest)
        chosen = [
            p for p in progress if {"epoch": progress[p].epoch_fraction, "update": progress[p].update}[kind] == number
        ]
    wanted = int(rest) if kind.startswith("average") else 1
    if len(chosen) < wanted:
        available = ", ".join(f"update {p.update} (epoch {p.epoch_fraction:.4g})" for p in progress.values())
        raise ConfigError(
            f"at: {at}: expected {wanted} such checkpoint(s) in {checkpoints.folder}, got {len(chosen)}; "
            f"there are: {available}; choose among them, or change training.checkpoint_every and keep_last (of the "
            "best, validate_every and keep_best)"
        )
    return sorted(chosen)


def mean(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of each parameter, summed in float64."""
    if len(weights) == 1:
        return weights[0]
    return {
        name: torch.stack([part[name].double() for part in weights]).mean(0).to(first.dtype)
        for name, first in weights[0].items()
    }


def _provenance(
    training: dict[str, Any], meta: dict[str, Any], at: str, chosen: Sequence[Path], run: Path
) -> dict[str, Any]:
    table, _, system = training["name"].partition("/")
    last = Checkpoints(run / WHERE_IN_STATE).progress(chosen[-1]) if chosen else Progress()
    names = [path.name for path in chosen] + [START] * at.endswith(START)
    single = len(names) == 1
    return {
        "table": table, "system": system, "seed": training["seed"], "selection": at,
        "checkpoints": names, "update": last.update, "epoch": last.epoch_fraction,
        "code_version": training["code_version"], "averaged_by": machine.code_version(),
        "versions": training["versions"], "hardware": training["hardware"],
        "starts": [start for start in _starts(training) if start["update"] < last.update],
        "corpus": meta["corpus"], "languages": meta["languages"], "data": meta["splits"], "subwords": meta["subwords"],
        **({"licence": meta["licence"]} if "licence" in meta else {}),
        "training_seconds": round(last.seconds, 1),
        "valid_loss": last.valid_loss if single else None, "valid_bleu": last.valid_bleu if single else None,
        "parameters": training["parameters"], "config": training["config"],
        **{key: training[key] for key in ("images", "word_vectors", "initialise") if key in training},
    }  # fmt: skip
