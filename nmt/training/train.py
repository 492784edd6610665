"""The stage `nmt train`: one training in its folder, from claiming the state to ``training.json``."""

import sys
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from nmt.data.alignments import Alignments, load_alignments
from nmt.data.encoded import check_encoded, read_meta
from nmt.data.features import feature_fingerprint
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_not_stage_output, digest, read_json, read_records, write_json, write_text
from nmt.system.locks import exclusive
from nmt.system.warnings import warn
from nmt.training.checkpoint import Checkpoints
from nmt.training.distributed import process_group
from nmt.training.experiment import Experiment, identity
from nmt.training.trainer import Trainer
from nmt.training.warm_start.parent import read_parent
from nmt.training.word_vectors import load_vectors

RETENTION = {"keep_last", "keep_best"}  # keys that change no weight


@machine.returning_memory()
def train(
    encoded: Path,
    run: Path,
    config: Experiment,
    seed: int,
    device: str,
    threads: int | None,
    name: str,
    images: Path | None = None,
    vectors: Mapping[str, Path] | None = None,
    initialise: Path | None = None,
    alignments: Path | None = None,
) -> None:
    """Train to the end, resuming from ``run/state`` if it holds the same training.

    Writes ``run/log.jsonl`` and then, last, ``run/training.json``. Randomness is a function of (seed, update, process).
    So an interrupted training ends with the same weights as an undisturbed one: bit for bit on a CPU, with the same
    number of threads and processes. Each process (`nmt.training.distributed`) calls this with the same arguments.

    Args:
        encoded: the encoded corpus.
        run: the folder of this training.
        config: what to train.
        seed: of everything that is random.
        device, threads: of each process, as for `nmt.system.machine.prepare`.
        name: table/system.
        images: for a multimodal model, the folder of ``train.npy`` and ``valid.npy``.
        vectors: files of word vectors to initialise embeddings, by side (`nmt.training.word_vectors.load_vectors`).
        initialise: model directory whose weights the training starts from (`nmt.training.warm_start.parent`).
        alignments: file of the training text's word alignments (`nmt.data.alignments`), for guided alignment.

    Raises:
        ConfigError: there is no GPU, vocabularies, parent or options do not fit, or the training is beyond its end.
        DataError: encoded text or state is damaged, alignments do not fit, another stage made ``run``, another process
            trains here, the loss is not a number, or another process of this training has ended.
        Interrupted: a signal has asked the process to stop.
    """
    check_not_stage_output(run)
    with process_group(device) as processes:
        chosen, version = machine.prepare(device, threads), machine.code_version()
        if processes.first:
            check_encoded(encoded)
        meta, state = read_meta(encoded), run / "state"
        config, parent = read_parent(initialise, encoded, config, state)
        _check_tying(config, meta, encoded)
        start = load_vectors(encoded, vectors or {}, config.model.width)
        links = _load_alignments(alignments, encoded, config)
        fingerprints = feature_fingerprint(config.model, images) | (links.fingerprint if links else {})
        inputs = _inputs(config, seed, meta, start.fingerprint | parent.fingerprint | fingerprints)
        same = identity(config, inputs)
        with exclusive(run / "train.lock", run) if processes.first else nullcontext():
            if processes.first:
                claim_state(state, same, inputs["config"])
            trainer = Trainer(encoded, state, config, seed, chosen, images, processes, start, parent, links)
            trainer.name = f"{name}, seed {seed}"
            if processes.first:
                facts = {"name": name, "identity": same, "corpus": meta["corpus"], "code_version": version}
                _run_and_write(trainer, encoded, run, config, inputs, facts)
            else:
                trainer.run()


def _run_and_write(
    trainer: Trainer, encoded: Path, run: Path, config: Experiment, inputs: dict[str, Any], facts: dict[str, Any]
) -> None:
    """Train in the first process and write the outputs.

    Those of a finished training stay, with the machine and the code that made them.
    """
    warn_of_left_out(encoded, trainer)
    _warn_of_schedule(run, trainer)
    finished = trainer.ended() and already_finished(run, config, inputs)
    _warn_of_precision(run, trainer, finished)
    if not finished:
        remove_outputs(run)
        stopped = trainer.run()
    _warn_of_skipped(run, trainer)
    if not finished:
        _finish(run, facts | inputs | _summary(trainer, stopped))


def warn_of_left_out(encoded: Path, trainer: Trainer) -> None:
    """Warn of the training and validation pairs that are too long for the model."""
    effects = {"train": "", "valid": ": validation loss and BLEU, the best checkpoint and patience are of the others"}
    remedies = {"train": "make max_words under cleaning smaller", "valid": "shorten these pairs"}
    for split, pairs in (("train", trainer.updates.data), ("valid", trainer.validation.pairs)):
        if pairs.too_long:
            warn(
                "pairs too long for the model", encoded, pairs.too_long,
                f"{pairs.too_long:,} of {len(pairs.source.lengths):,} pairs of {split} have more than "
                f"{trainer.model.longest - 2} pieces on a side and are left out{effects[split]}",
                f"raise model.max_positions, or {remedies[split]}", split=split,
            )  # fmt: skip


def _warn_of_schedule(run: Path, trainer: Trainer) -> None:
    """Warn where the training ends within its warm-up, or before its cool-down could begin from the full rate."""
    schedule, total = trainer.config.schedule, trainer.updates.total
    share = total / max(1, schedule.cooldown)
    for kind, key, updates, effect in (
        ("warm-up longer than the training", "warmup", schedule.warmup, "its learning rate never comes to its peak"),
        ("cool-down longer than the training", "cooldown", schedule.cooldown,
         f"all its learning rates are below {share:.3g} of the schedule's"),
    ):  # fmt: skip
        if updates > total:
            text = f"schedule.{key} is {updates:,} updates, but the training has {total:,}; so {effect}"
            warn(kind, run, total, text, f"lower schedule.{key}, or raise training.epochs")


def _warn_of_precision(run: Path, trainer: Trainer, finished: bool) -> None:
    made_on = read_json(run / "training.json").get("hardware") if finished else trainer.hardware()
    asked = trainer.config.precision
    used = (made_on or {}).get("precision", asked)  # older records lack it
    if used != asked:
        warn(
            "other precision", run, 1,
            f"precision: {asked} is computed in {used}, as the machine that trains has no instructions for {asked}, in "
            "which it would be several times slower",
            f"nothing to do, unless the table is about {asked}: then train on another machine",
        )  # fmt: skip


def _warn_of_skipped(run: Path, trainer: Trainer) -> None:
    if skipped := trainer.progress.skipped:
        warn(
            "updates skipped", run, skipped,
            f"{skipped:,} of {trainer.progress.update:,} updates were skipped, as their gradient was not a number",
            "lower schedule.peak, raise warmup, or set clip: 1.0",
        )  # fmt: skip


def _inputs(config: Experiment, seed: int, meta: dict[str, Any], fingerprints: dict[str, Any]) -> dict[str, Any]:
    """Return what a training is made from."""
    text = {"data": meta["splits"], "subwords": meta["subwords"]}
    return {"config": config.model_dump(mode="json"), "seed": seed, **text, **fingerprints}


def _check_tying(config: Experiment, meta: dict[str, Any], encoded: Path) -> None:
    if config.model.tied == "all" and not meta["subwords"]["subwords"]["joint"]:
        raise ConfigError(
            f"model.tied: all needs one vocabulary for both sides; {encoded} has one per side (subwords.joint)"
        )


def _load_alignments(file: Path | None, encoded: Path, config: Experiment) -> Alignments | None:
    if bool(file) != bool(config.training.guided_alignment):
        raise ConfigError(
            "nmt train: expected both training.guided_alignment and --alignments FILE, or neither; got only "
            f"{'--alignments' if file else 'training.guided_alignment'}"
        )
    return load_alignments(file, encoded) if file else None


def claim_state(state: Path, wanted: dict[str, Any], config: dict[str, Any]) -> None:
    """Make ``state`` the folder of this training.

    The state of a different training moves aside, to ``state-DIGEST-TIME``. When that training is wanted again, its
    state moves back.

    Args:
        state: the folder.
        wanted: the `identity` of the training.
        config: its whole configuration, kept for people to read.
    """
    if state.is_symlink():  # into a shared results folder, where nothing is written
        print(
            f"{state}: was a link to {state.resolve()}, where nothing is written; this training begins in a folder of "
            "its own. To resume what is there, copy it here, or link the run's folder instead",
            file=sys.stderr,
        )
        state.unlink()
    mark = state / "identity.json"
    current = read_json(mark).get("identity") if mark.is_file() else None
    exists = mark.is_file() or (state / "checkpoints").is_dir()
    if exists and (reason := _obstacle(state, current, wanted, config["training"])):
        aside = state.with_name(f"state-{digest(current)}-{time.time_ns()}")
        state.replace(aside)
        remove_outputs(state.parent)
        print(f"{state}: held another training ({reason}); kept as {aside}", file=sys.stderr)
    for aside in sorted(state.parent.glob(f"{state.name}-{digest(wanted)}-*")):
        if not state.exists() and read_json(aside / mark.name).get("identity") == wanted:
            aside.replace(state)
    write_json(mark, {"identity": wanted, "config": config})


def _obstacle(
    state: Path, current: dict[str, Any] | None, wanted: dict[str, Any], training: dict[str, Any]
) -> str | None:
    """Return why the wanted training cannot resume from a state; None if it can.

    Args:
        state: the folder.
        current: the identity of the training that made it; None if unknown.
        wanted: the identity of the wanted training.
        training: the wanted training's configuration under ``training``, with its defaults.
    """
    if not current:
        return "identity.json, which says which, is missing"
    # A state made with on_nan: stop has skipped no update, so it suits on_nan: skip as well.
    suitable = wanted, _without(wanted, {"on_nan"})
    if current in suitable:
        return None
    if _without(current, RETENTION) not in [_without(identity, RETENTION) for identity in suitable]:
        return "configuration, seed or data differ"
    checkpoints, log = Checkpoints(state / "checkpoints"), (record for _, record in read_records(state / "log.jsonl"))
    if checkpoints.has_kept(log, training["keep_last"], training["keep_best"], training["monitor"]):
        return None
    return "it has deleted checkpoints that keep_last or keep_best now ask for"


def _without(identity: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return an identity without some keys under ``training``."""
    config = identity.get("config", {})
    training = {key: value for key, value in config.get("training", {}).items() if key not in keys}
    return identity | {"config": config | {"training": training}}


def already_finished(run: Path, config: Experiment, inputs: dict[str, Any]) -> bool:
    """Return whether this exact training has already finished here. An emptied or damaged output counts as missing."""
    try:
        record = read_json(run / "training.json")
        same = all(record.get(key) == value for key, value in inputs.items() if key != "config")
        return same and config.matches(record) and any(read_records(run / "log.jsonl"))
    except DataError:
        return False


def remove_outputs(run: Path) -> None:
    """Delete the outputs of an earlier training."""
    for name in ("training.json", "log.jsonl"):
        (run / name).unlink(missing_ok=True)


def _summary(trainer: Trainer, stopped: str) -> dict[str, Any]:
    """Return what ``training.json`` reports of a finished training."""
    progress, checkpoints = trainer.progress, trainer.checkpoints
    points = [(path.name, checkpoints.progress(path)) for path in checkpoints.all()]
    frozen = sum(p.numel() for p in trainer.model.parameters() if not p.requires_grad)
    return {
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        **({"frozen": frozen} if frozen else {}), "updates": progress.update,
        "epochs": progress.epoch_fraction, "seconds": round(progress.seconds, 1), "pieces": progress.pieces,
        "tokens_per_second": round(progress.pieces / max(progress.seconds, 1e-9)), "stopped": stopped,
        "skipped": progress.skipped, "too_long": trainer.updates.data.too_long,
        "too_long_valid": trainer.validation.pairs.too_long, "device": trainer.device.type,
        "hardware": trainer.hardware(), "versions": machine.versions(),
        "checkpoints": [
            {"name": name, "update": p.update, "epoch": p.epoch_fraction, "regular": p.regular,
             "valid_loss": p.valid_loss, "valid_bleu": p.valid_bleu} for name, p in points
        ],
    }  # fmt: skip


def _finish(run: Path, facts: dict[str, Any]) -> None:
    """Write the outputs; ``training.json`` comes last, because it says that the training has finished."""
    log = list(read_records(run / "state" / "log.jsonl"))
    write_text(run / "log.jsonl", "".join(f"{line}\n" for line, _ in log))
    write_json(run / "training.json", facts | {"starts": _starts((record for _, record in log), facts["updates"])})


def _starts(log: Iterable[dict[str, Any]], end: int) -> list[dict[str, Any]]:
    """Return from which update on which machine and code trained; older records do not say.

    Of several starts at one update only the last one trained; a start at the end trained nothing.
    """
    last = {record["update"]: record for record in log if record["event"] == "start" and record["update"] < end}
    starts = [{key: start.get(key) for key in ("update", "hardware", "code_version")} for start in last.values()]
    return [next(same) for _, same in groupby(starts, itemgetter("hardware", "code_version"))]
