"""The runs behind a table, and the commands that train them and make their rows."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nmt.config.selection import START
from nmt.config.system import System
from nmt.config.table import Row, Table
from nmt.plan import commands
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.plan.recipes import Output
from nmt.plan.systems import as_json, experiment
from nmt.reproduce.cost import remaining_operations
from nmt.scoring.score import ENDINGS, compared_with
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json, read_records, sha256
from nmt.training.experiment import Experiment


@dataclass(frozen=True, eq=False)
class Run:
    """One system of a table, trained with one seed; or an ensemble of its models of several seeds, ``1-2-3``."""

    plan: Plan
    table: str
    name: str
    seed: int | str
    rowless: bool = False
    """Whether it is trained for other runs alone, and none of its rows is made."""

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
        """The folder of the run."""
        return self.layout.run(self.table, self.name, self.seed)

    @property
    def encoded(self) -> Path:
        """The encoded text that it is trained on."""
        return self.layout.encoded(self.system)

    @property
    def _table(self) -> Table:
        return self.plan.table(self.table)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of the table that this run makes: those of an ensemble, or those of a training."""
        rows = [] if self.rowless else self._table.rows_of(self.name)
        return [row for row in rows if row.ensemble == bool(self.members)]

    @cached_property
    def members(self) -> list["Run"]:
        """The trainings of an ensemble; none of a training."""
        seeds = str(self.seed).split("-")
        return [Run(self.plan, self.table, self.name, int(seed)) for seed in seeds] if len(seeds) > 1 else []

    @cached_property
    def parent(self) -> "Run | None":
        """The training that it starts from, if that is of a table."""
        if self.members or (found := self.plan.parent_run(self.table, self.name, int(self.seed))) is None:
            return None
        return Run(self.plan, *found, rowless=True)

    def parent_model(self) -> Iterator[list[str]]:
        """The command that makes the model of its parent, unless that is up to date."""
        model = None if self.members else self.plan.parent(self.table, self.name, int(self.seed))
        if model and self.parent and is_outdated(model / "provenance.json", self.parent.folder / "training.json"):
            assert self.system.initialise
            yield self.parent._averaging(model, self.system.initialise.at)

    def _averaging(self, model: Path, at: str) -> list[str]:
        """The command that makes a model of its checkpoints."""
        start = self.plan.parent(self.table, self.name, int(self.seed))
        if start and at.endswith(START):
            return commands.average_with_start(self.folder, model, at=at, encoded=self.encoded, start=start)
        return commands.average(self.folder, model, at=at, encoded=self.encoded)

    def missing_inputs(self) -> list[str]:
        """The files that its system and rows are made from, as far as they do not exist."""
        training = self.plan.training_inputs(self.table, self.name)
        files = training if self.rowless else self.plan.inputs(self.table, self.name)
        return [str(path) for path in files if not Path(path).exists()]

    def score_folders(self) -> dict[Path, Row]:
        """The folders of its rows' translations and scores."""
        return {self.layout.scores(self.table, row, self.test(row), self.seed): row for row in self.rows}

    def is_trained(self) -> bool:
        """Whether this exact training has finished here, on the text that is here; of an ensemble, all of them.

        An emptied or damaged output counts as missing: `nmt train` writes it again.
        """
        if self.members:
            return all(member.is_trained() for member in self.members)
        try:
            return self.matches(self.folder / "training.json") and any(read_records(self.folder / "log.jsonl"))
        except DataError:
            return False

    def matches(self, training: Path) -> bool:
        """Whether a ``training.json`` has this configuration, and the files that it was trained on are here."""
        record, meta = read_json(training), read_json(self.encoded / "meta.json")
        same = Experiment.model_validate_json(experiment(self.system)).matches(record)
        if not (same and record["data"] == meta["splits"] and record["subwords"] == meta["subwords"]):
            return False
        if not self._has_same_parent(record):
            return False
        links = self.system.alignments and sha256(self.system.alignments)
        if record.get("alignments", {}).get("sha256") != links:
            return False
        vectors = {side: sha256(file) for side, file in self.plan.vectors(self.system).items()}
        return {side: start["sha256"] for side, start in record.get("word_vectors", {}).items()} == vectors

    def _has_same_parent(self, record: Json) -> bool:
        """Whether a training started from the weights of its parent that are here; of a parent without, from any."""
        recorded = record.get("initialise", {}).get("weights_sha256")
        model = self.plan.parent(self.table, self.name, int(self.seed))
        if recorded is None or model is None:
            return recorded is None and model is None
        provenance = model / "provenance.json"
        return not provenance.is_file() or bool(read_json(provenance)["weights_sha256"] == recorded)

    def cost(self) -> float:
        """Floating-point operations that its training still takes at most."""
        return 0.0 if self.is_trained() else remaining_operations(self.system, self.encoded, self.folder)

    def training(self, device: str, threads: int) -> list[str]:
        """The command that trains, or resumes."""
        features = self.plan.features(self.system, ["train", "valid"])
        parent = self.plan.parent(self.table, self.name, int(self.seed))
        options = commands.train_options(features, self.plan.vectors(self.system), parent, self.system.alignments)
        return commands.train(
            self.encoded, self.folder, *options, config=experiment(self.system), seed=self.seed,
            name=f"{self.table}/{self.name}", device=device, threads=threads,
        )  # fmt: skip

    def scoring(self, row: Row, device: str, threads: int) -> Iterator[list[str]]:
        """The commands that make a row, without those whose output is up to date."""
        model, test = self.layout.model(self.table, row, self.seed), self.test(row)
        out = self.layout.scores(self.table, row, test, self.seed)
        hypotheses, scores = out / "hypotheses.txt", out / "scores.json"
        raw, clean = self.texts(row)
        parts = {member: self.layout.model(self.table, row, member.seed) for member in self.members or [self]}
        if not model.exists() and self._is_restored(scores, parts):
            return
        for member, part in parts.items():
            if is_outdated(part / "provenance.json", member.folder / "training.json"):
                yield member._averaging(part, row.at)
        provenance = model / "provenance.json"
        if self.members and any(is_outdated(provenance, part / "provenance.json") for part in parts.values()):
            yield commands.ensemble(model, *parts.values())
        lines, decoding = self._table.lines_of(test), out / "decoding.json"
        is_current = not is_outdated(hypotheses, provenance) and not self._translates_other_text(row, decoding)
        if not is_current or not has_attention_of(lines, out / "alignments.json"):
            options = commands.decode_options(self._features(row), lines, row.pair)
            source, config = clean / f"{test}.{self.tested(row).source}", as_json(row.decoding)
            yield commands.decode(model, source, hypotheses, *options, config=config, device=device, threads=threads)
        if is_outdated(scores, hypotheses) or self._needs_scoring(row, scores):
            options, languages = commands.score_options(self._table.requested_metrics), self.tested(row).languages
            yield commands.score(
                hypotheses, *options, clean=clean, raw=raw, test=test, languages=languages, model=model, out=out
            )

    def _is_restored(self, scores: Path, trainings: Iterable["Run"]) -> bool:
        """Whether scores without a model are all that the table needs, and belong to the trainings that are here."""
        outdated = any(is_outdated(scores, training.folder / "training.json") for training in trainings)
        return not outdated and not self.lacks_metrics(scores)

    def _translates_other_text(self, row: Row, decoding: Path) -> bool:
        """Whether the test set has changed since it was translated."""
        source = self.texts(row)[1] / f"{self.test(row)}.{self.tested(row).source}"
        return not decoding.is_file() or read_json(decoding)["source_sha256"] != sha256(source)

    def _needs_scoring(self, row: Row, scores: Path) -> bool:
        """Whether the references have changed since these scores were made, or a metric is missing."""
        texts = compared_with(*self.texts(row), self.test(row), *self.tested(row).languages.split("-"))
        references = {protocol: sha256(texts[f"references.{ending}"]) for protocol, ending in ENDINGS.items()}
        return bool(read_json(scores)["references_sha256"] != references) or self.lacks_metrics(scores)

    def lacks_metrics(self, scores: Path) -> bool:
        """Whether the table asks for a metric that these scores do not have."""
        return not set(self._table.requested_metrics) <= set(read_json(scores)["tokenised"])

    def test(self, row: Row) -> str:
        """The test set of a row."""
        return self._table.test_of(row)

    def texts(self, row: Row) -> tuple[Path, Path]:
        """Folders of the raw and the cleaned text of a row's test set."""
        return self.layout.texts(self.tested(row), self.test(row))

    def _features(self, row: Row) -> list[str]:
        """The array of a row's image features, if its system sees pictures."""
        return self.plan.features(self.tested(row), [self.test(row)], row.decoding.images)

    def tested(self, row: Row) -> System:
        """Its configuration with the pair of languages and the corpus of a row's test set."""
        return self.plan.tested(self.table, self.name, self.test(row), row.pair)


def scoring_of_outputs(plan: Plan, table: str) -> Iterator[list[str]]:
    """The commands that score the translations of other systems in a table, without those whose scores are current."""
    metrics = plan.table(table).requested_metrics
    for output in plan.outputs(table):
        made_of = {name: sha256(path) for name, path in _files(output).items()}
        scores = output.folder / "scores.json"
        if not scores.is_file() or not _is_current(read_json(scores), made_of, metrics):
            yield commands.score_output(
                output.hypotheses, *commands.score_options(metrics), clean=output.clean, raw=output.raw,
                test=output.test, languages=output.languages, out=output.folder,
            )  # fmt: skip


def _files(output: Output) -> dict[str, Path]:
    """The files that the scores of another system's translations are made from, by their keys in `_is_current`."""
    texts = compared_with(output.raw, output.clean, output.test, *output.languages.split("-"))
    files = {"hypotheses": output.hypotheses}
    return files | {str(protocol): texts[f"references.{ending}"] for protocol, ending in ENDINGS.items()}


def _is_current(scores: Json, made_of: Mapping[str, str], metrics: Iterable[str]) -> bool:
    recorded = {"hypotheses": scores["provenance"]["hypotheses_sha256"], **scores["references_sha256"]}
    return recorded == made_of and set(metrics) <= set(scores["tokenised"])


def is_outdated(output: Path, source: Path) -> bool:
    """Whether a file is missing, or older than the file it is made from."""
    return not output.is_file() or output.stat().st_mtime < source.stat().st_mtime


def has_attention_of(lines: Sequence[int], alignments: Path) -> bool:
    """Whether ``alignments.json`` has the attention of some lines of a test set."""
    return alignments.is_file() and set(lines) <= {record["line"] for record in read_json(alignments, list)}


def lacks_inputs(run: Run) -> bool:
    """Whether a run lacks a file that it is made from; names the missing files on standard error."""
    if missing := run.missing_inputs():
        say(f"{run}: left out, inputs are missing: {', '.join(missing)}")
    return bool(missing)


def say(line: str) -> None:
    """Write a line to standard error at once, so that those of trainings side by side do not mix."""
    sys.stderr.write(f"{line}\n")
