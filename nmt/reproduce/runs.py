"""The trainings behind a table and its rows, as the commands of nmt that make them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from nmt.config.system import System
from nmt.config.table import Row
from nmt.config.types import amount
from nmt.models.build import build
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan, dump, experiment
from nmt.scoring.score import ENDINGS, compared_with
from nmt.system.errors import DataError
from nmt.system.files import read_json, sha256
from nmt.text.subwords import SIDES
from nmt.training.average import WHERE_IN_STATE
from nmt.training.checkpoint import Checkpoints
from nmt.training.experiment import Experiment


@dataclass(frozen=True, eq=False)
class Run:
    """One system of a table, trained with one seed; or the models of several, ``1-2-3``, which translate together."""

    plan: Plan
    table: str
    name: str
    seed: int | str

    def __str__(self) -> str:
        return f"{self.table}/{self.name} seed {self.seed}"

    @property
    def system(self) -> System:
        """Its configuration."""
        return self.plan.system(self.table, self.name)

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return self.plan.layout

    @property
    def folder(self) -> Path:
        """Of the training."""
        return self.layout.run(self.table, self.name, self.seed)

    @property
    def encoded(self) -> Path:
        """What it is trained on."""
        return self.layout.encoded(self.system)

    @cached_property
    def rows(self) -> list[Row]:
        """Those of the table that it is behind, alone."""
        rows = self.plan.tables[self.table].rows_of(self.name)
        return [row for row in rows if row.ensemble == bool(self.members)]

    @cached_property
    def members(self) -> list["Run"]:
        """The trainings of an ensemble; none of a training."""
        seeds = str(self.seed).split("-")
        return [Run(self.plan, self.table, self.name, int(seed)) for seed in seeds] if len(seeds) > 1 else []

    def inputs(self) -> list[Path]:
        """Everything that its system and that one's rows are made from."""
        return [Path(one) for one in self.plan.inputs(self.table, self.name)]

    def scores(self) -> dict[Path, Row]:
        """The folders of its rows' translations and scores."""
        return {self.layout.scores(self.table, row, self.test(row), self.seed): row for row in self.rows}

    def trained(self) -> bool:
        """Whether the training has ended, and was the one asked for, on the text that is there."""
        if self.members:
            return all(one.trained() for one in self.members)
        if not all((self.folder / name).is_file() for name in ("training.json", "log.jsonl")):
            return False
        return self.made(self.folder / "training.json")

    def made(self, training: Path) -> bool:
        """Whether a ``training.json`` is of this: its configuration, on the encoded text and word vectors there are."""
        found, meta = read_json(training), read_json(self.encoded / "meta.json")
        same = Experiment(model=self.system.model, training=self.system.training).matches(found)
        if not (same and found["data"] == meta["splits"] and found["subwords"] == meta["subwords"]):
            return False
        vectors = {side: sha256(file) for side, file in self.plan.vectors(self.system).items()}
        return {side: start["sha256"] for side, start in found.get("word_vectors", {}).items()} == vectors

    def cost(self) -> float:
        """Floating-point operations that its training still takes at most: 6 a parameter, target piece and pass."""
        if self.trained():
            return 0.0
        meta = read_json(self.encoded / "meta.json")
        sizes = [meta["vocabulary"][side] for side in SIDES]
        with torch.device("meta"):
            model = build(self.system.model, sizes[0], sizes[1], meta["ids"]["pad"])
        train = meta["splits"]["train"]
        ended = train | {"target_pieces": train["target_pieces"] + train["sentences"]}  # EOS too, as progress counts
        left = passed(self.system, ended, self._done())
        return 6 * left * sum(parameter.numel() for parameter in model.parameters())

    def _done(self) -> int:
        """Target pieces trained on until the newest checkpoint; a damaged one is the training's to set aside."""
        saved = Checkpoints(self.folder / WHERE_IN_STATE)
        for checkpoint in reversed(saved.all()):
            with suppress(DataError, LookupError):
                return saved.progress(checkpoint).pieces
        return 0

    def training(self, device: str, threads: Sequence[str]) -> list[str]:
        """The command that trains, or goes on."""
        features = self.plan.features(self.system, ["train"])
        images = [f"--images={Path(one).parent}" for one in features]
        vectors = [f"--word-vectors={side}={file}" for side, file in self.plan.vectors(self.system).items()]
        return [
            "train", str(self.encoded), str(self.folder), "--config", experiment(self.system), f"--seed={self.seed}",
            f"--name={self.table}/{self.name}", f"--device={device}", *threads, *images, *vectors,
        ]  # fmt: skip

    def scoring(self, row: Row, device: str, threads: Sequence[str]) -> Iterator[list[str]]:
        """The commands that make a row of the training, those left out whose result is there and not older."""
        model, test = self.layout.model(self.table, row, self.seed), self.test(row)
        scores = self.layout.scores(self.table, row, test, self.seed)
        raw, clean = self.texts(row)
        hypotheses, (source, _) = scores / "hypotheses.txt", self.system.languages.split("-")
        parts = {one: self.layout.model(self.table, row, one.seed) for one in self.members or [self]}
        if not model.exists() and self._restored(scores / "scores.json", parts):
            return
        for one, part in parts.items():
            if older(part / "provenance.json", one.folder / "training.json"):
                yield ["average", str(one.folder), str(part), f"--at={row.at}", f"--encoded={self.encoded}"]
        if self.members and any(older(model / "provenance.json", part / "provenance.json") for part in parts.values()):
            yield ["ensemble", *map(str, parts.values()), str(model)]
        if older(hypotheses, model / "provenance.json") or self._of_other_text(row, scores / "decoding.json"):
            images = [f"--images={one}" for one in [self._pictures(row)] if one]
            text, decoding = str(clean / f"{test}.{source}"), ["--config", dump(row.decoding)]
            yield ["decode", str(model), text, str(hypotheses), *decoding, f"--device={device}", *threads, *images]
        if older(scores / "scores.json", hypotheses) or self._scored_otherwise(row, scores / "scores.json"):
            where = [f"--clean={clean}", f"--raw={raw}", f"--model={model}", f"--out={scores}"]
            what = [f"--test={test}", f"--languages={self.system.languages}", *self.plan.score_options(self.table)]
            yield ["score", str(hypotheses), *where, *what]

    def _restored(self, scores: Path, parts: Iterable["Run"]) -> bool:
        """Whether these are scores of a training that is there, all that a table needs, with or without a model."""
        return not any(older(scores, one.folder / "training.json") for one in parts) and not self.unscored(scores)

    def _of_other_text(self, row: Row, decoding: Path) -> bool:
        """Whether the test set has changed since it was translated."""
        source = self.texts(row)[1] / f"{self.test(row)}.{self.system.source}"
        return not decoding.is_file() or read_json(decoding)["source_sha256"] != sha256(source)

    def _scored_otherwise(self, row: Row, scores: Path) -> bool:
        """Whether these were scored against other references than there are now, or lack a metric."""
        raw, clean = self.texts(row)
        texts = compared_with(raw, clean, self.test(row), *self.system.languages.split("-"))
        now = {protocol: sha256(texts[f"references.{ending}"]) for protocol, ending in ENDINGS.items()}
        return bool(read_json(scores)["references_sha256"] != now) or self.unscored(scores)

    def unscored(self, scores: Path) -> bool:
        """Whether a metric was asked for after these scores were made."""
        return not set(self.plan.tables[self.table].also) <= set(read_json(scores)["tokenised"])

    def test(self, row: Row) -> str:
        """The test set of a row."""
        return self.plan.tables[self.table].test_of(row)

    def texts(self, row: Row) -> tuple[Path, Path]:
        """Folders of the raw and the cleaned text of its test set."""
        return self.layout.texts(self._tested(row), self.test(row))

    def _pictures(self, row: Row) -> str | None:
        found = self.plan.features(self._tested(row), [self.test(row)], row.decoding.images)
        return found[0] if found else None

    def _tested(self, row: Row) -> System:
        return self.plan.tested(self.table, self.name, self.test(row))


def pieces(system: System, train: dict[str, Any]) -> float:
    """Target pieces of a whole training, should patience not end it.

    Args:
        system: what ends it, ``epochs`` or ``updates``, and its batches.
        train: ``sentences`` and ``target_pieces`` of an epoch.
    """
    training = system.training
    limits = [training.epochs and training.epochs * train["target_pieces"]]
    limits += [training.updates and training.updates * _an_update(system, train)]
    return min(float(limit) for limit in limits if limit is not None)


def passed(system: System, train: dict[str, Any], done: int) -> float:
    """Target pieces that a training still passes after so many, those twice that `Consistency` passes twice."""
    left, consistency = max(0.0, pieces(system, train) - done), system.training.consistency
    if consistency is None:
        return left
    return left + (min(left, consistency.last * _an_update(system, train)) if consistency.last else left)


def _an_update(system: System, train: dict[str, Any]) -> float:
    """Target pieces of an update."""
    number, unit = amount(system.training.batch)
    each = number if unit == "tokens" else number * train["target_pieces"] / train["sentences"]
    return system.training.accumulate * each


def older(made: Path, source: Path) -> bool:
    """Whether a file is missing, or older than what it is made from."""
    return not made.is_file() or made.stat().st_mtime < source.stat().st_mtime
