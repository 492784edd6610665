"""Build the data of a table: published figures next to ours, and how each of ours was made."""

import itertools
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nmt.config.system import System
from nmt.config.table import ALWAYS, OVERLAYS, Figure, Row, Table
from nmt.corpora.catalogue import TRAIN_SAMPLE, TRAINING, declared, with_corpus_of
from nmt.plan.systems import experiment, published_config
from nmt.plan.warned import row_warnings
from nmt.report.corpora import chart
from nmt.report.figures.plots import TITLES
from nmt.report.records import Results, read_log, train_nll
from nmt.scoring.samples import samples
from nmt.scoring.score import ENDINGS
from nmt.scoring.significance import compare
from nmt.scoring.summary import distinct, mean, statistic
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json
from nmt.text.stats import subwords
from nmt.training.experiment import Experiment
from nmt.translation import augment

Comparable = tuple[str, str, str]


def build(results: Results) -> Json:
    """Collect the data of a table from its results.

    Returns:
        JSON: ``rows`` in the order of the table file, ``systems`` (configuration and trainings), ``data``,
        ``subwords``, ``signatures``, ``commands``, ``samples`` and ``figures``. Scores are on a scale from 0 to 100,
        times in seconds, our NLL in nats. Differences are our tokenised scores minus the published figures.

    Raises:
        DataError: a result is missing.
    """
    reader, table = _Reader(**vars(results)), results.table
    data = reader.data()
    scores = [scores for row in table.rows if row.is_scored for scores in reader.scores(row)]
    return {
        "name": results.name, **description(table), "tests": table.tests, "limit": results.layout.limit,
        "synthetic": any(corpus["synthetic"] for corpus in data), "rows": reader.rows(), "data": data,
        "metrics": reader.metrics, "subwords": reader.subwords(),
        "systems": {system: reader.system(system) for system in reader.trained},
        "signatures": {p: {m: distinct(s[p][m]["signature"] for s in scores) for m in reader.signed} for p in ENDINGS},
        "commands": {protocol: distinct(s["commands"][protocol] for s in scores) for protocol in ENDINGS},
        "samples": reader.samples(),
        "figures": [
            *(_figure(figure, table) for figure in table.figures),
            *([{"name": chart.NAME, "title": chart.TITLE}] if chart.is_filtered(data) else []),
        ],
    }  # fmt: skip


def _figure(figure: Figure, table: Table) -> Json:
    """Name and title of a figure, and whether pages leave it out, as it shows pictures that may not be passed on."""
    shown = table.region_row if figure in OVERLAYS else None
    corpus = declared().get(table.systems[shown.system or ""].corpus) if shown else None
    withheld = {"withheld": True} if corpus and corpus.pictures else {}
    return {"name": figure, "title": TITLES[figure], **withheld}


def description(table: Table) -> Json:
    """What a table says of itself."""
    return {
        "caption": " ".join(table.caption.split()), "report": table.report, "comparable": table.comparable,
        "nll_unit": table.nll_unit, "title": table.title,
    }  # fmt: skip


def published(row: Row) -> Json:
    """A row's published figures, by metric."""
    return row.published.model_dump(exclude_none=True) if row.published else {}


def difference(published: Json, ours: Json, meteor: Json | None) -> Json:
    """Our tokenised scores minus the published ones, by metric.

    NLL has none, because it depends on the vocabulary. Nor has a METEOR that is reduced to fewer modules.
    """
    reduced = meteor is not None and meteor["reduced"]
    same = [metric for metric in published if metric in ours and not (metric == "meteor" and reduced)]
    return {metric: ours[metric]["mean"] - published[metric] for metric in same}


@dataclass
class _Reader(Results):
    """Reads the results of one table."""

    def __post_init__(self) -> None:
        table = self.table
        self.trained = list(dict.fromkeys(row.system for row in table.rows if row.system))
        self.metrics = list(dict.fromkeys([*table.metrics, *(m for row in table.rows for m in published(row))]))
        self.measured = [*ALWAYS, *table.requested_metrics]
        self.signed = [metric for metric in self.measured if metric != "exact" or metric in self.metrics]
        self._scores: dict[Path, Json] = {}

    def scores(self, row: Row) -> list[Json]:
        """The content of each model's ``scores.json``."""
        folders = self.folders(row).values()
        self._scores |= {f: self._read(f / "scores.json") for f in folders if f not in self._scores}
        return [self._scores[folder] for folder in folders]

    def _read(self, path: Path) -> Json:
        scores: Json = read_json(path)
        if missing := [metric for metric in self.measured if metric not in scores["tokenised"]]:
            raise DataError(f"{path}: expected scores by {', '.join(missing)}, which the table asks for; score again")
        return scores

    def nll(self, row: Row, models: Sequence[Json]) -> Json:
        """``nll_train`` and ``nll_valid`` at a row's checkpoint. A value that some training lacks is omitted."""
        assert row.system is not None
        losses: dict[str, list[float | None]] = {"nll_valid": [model.get("valid_loss") for model in models]}
        losses["nll_train"] = [
            train_nll(read_log(self.run(row.system, model["seed"])), model["update"], model["epoch"])
            if len(model["checkpoints"]) == 1  # an average of several checkpoints has no training loss
            else None
            for model in models
        ]
        return {
            name: statistic([{"score": value, "low": None, "high": None} for value in values])
            for name, values in losses.items()
            if None not in values
        }

    def rows(self) -> list[Json]:
        """All rows, each compared with the row it names or with the first comparable one."""
        rows, baselines = [], dict[Comparable, Row]()
        for row in self.table.rows:
            entry = self.row(row) if row.system else self.given(row) if row.hypotheses else self.quoted(row)
            if row.is_scored:
                baseline = self.table.row_against(row) or baselines.setdefault(self.comparable(row), row)
                entry["against"] = None if baseline is row else self.against(baseline, row)
            rows.append(entry)
        return rows

    def comparable(self, row: Row) -> Comparable:
        """Test set, languages and raw references. Rows that share all three can be compared."""
        references = self.scores(row)[0]["references_sha256"]["detokenised"]
        return self.table.test_of(row), self.table.text(row).languages, references

    def quoted(self, row: Row) -> Json:
        """A published figure for reference only."""
        return {
            "label": row.label, "quoted": not row.is_scored, "note": row.note, "test": self.table.test_of(row),
            "published": published(row), "languages": self.table.text(row).languages if row.is_scored else None,
        }  # fmt: skip

    def given(self, row: Row) -> Json:
        """A row of another system's translations: its scores, and of their making only what is known."""
        unknown = ("system", "at", "training_seconds", "text_seconds", "decoding_seconds", "valid_loss", "valid_bleu")
        several = ("seeds", "checkpoints", "hardware", "code_version")
        return self.quoted(row) | dict.fromkeys(unknown) | {key: [] for key in several} | self.scored(row) | {
            "decoding": {}, "parameters": None, **self.scores(row)[0]["provenance"],
            "provenance": self.records(row), **self.warnings(row),
        }  # fmt: skip

    def row(self, row: Row) -> Json:
        """A trained row, with statistics over its seeds."""
        assert row.system is not None
        each, scored = self.scores(row), self.scored(row)
        models = [scores["provenance"] for scores in each]
        starts = [start for model in models for start in model.get("starts") or [model]]  # older: the last only
        scored["scores"]["training"] = self.nll(row, models)
        return self.quoted(row) | {
            "system": row.system, "at": row.at, "decoding": row.decoding.model_dump(mode="json"),
            "seeds": list(self.seeds_of(row.system)), "ensemble": row.ensemble,
            **{key: scored[key] for key in ("scores", "difference", "meteor", "precisions")},
            "checkpoints": [{key: m.get(key) for key in ("seed", "update", "epoch", "checkpoints")} for m in models],
            "training_seconds": mean(model.get("training_seconds") for model in models),
            "text_seconds": augment.seconds(self.corpus(self.table.text(row))),
            "decoding_seconds": mean(scores["decoding"].get("seconds") for scores in each),
            "valid_loss": mean(model.get("valid_loss") for model in models),
            "valid_bleu": mean(model.get("valid_bleu") for model in models),
            "parameters": models[0].get("parameters"), "hardware": distinct(start.get("hardware") for start in starts),
            "code_version": distinct(start.get("code_version") for start in starts),
            "versions": distinct(model.get("versions") for model in models),
            "provenance": self.records(row),
            **{key: scored[key] for key in ("references_sha256", "synthetic")}, **self.warnings(row),
        }  # fmt: skip

    def scored(self, row: Row) -> Json:
        """What a row's scores say, with statistics over its models."""
        each = self.scores(row)
        results = {p: {m: statistic([scores[p][m] for scores in each]) for m in self.measured} for p in ENDINGS}
        if "words" in each[0]["tokenised"]:
            results["tokenised"]["words"] = statistic([scores["tokenised"]["words"] for scores in each])
        tested = self.corpus(with_corpus_of(self.table.text(row), self.table.test_of(row)))
        meteor = each[0]["tokenised"].get("meteor")
        ours = results["tokenised"]
        precisions = zip(*(scores["tokenised"]["bleu"]["precisions"] for scores in each), strict=True)
        return {
            "scores": results, "difference": difference(published(row), ours, meteor) if self.table.comparable else {},
            "meteor": {key: meteor[key] for key in ("modules", "reduced")} if meteor else None,
            "precisions": [statistics.fmean(values) for values in precisions],
            "references_sha256": each[0]["references_sha256"],
            "synthetic": bool(tested.get("synthetic")),
        }  # fmt: skip

    def records(self, row: Row) -> list[str]:
        """The records of a row's scores."""
        return [self.record(folder / "scores.json") for folder in self.folders(row).values()]

    def warnings(self, row: Row) -> Json:
        """The warnings that touch a row's scores, as ``warnings``; nothing if there are none."""
        warnings = row_warnings(self.name, self.table, row, self.layout, self.seeds)
        touching = [asdict(warning) for warning in warnings if warning.scores]
        return {"warnings": touching} if touching else {}

    def against(self, baseline: Row, row: Row) -> Json:
        """Paired bootstrap test of a row against a baseline row, for each pair of their models.

        It compares detokenised text, because rows with different cleaning share only the raw references.
        ``difference`` is the mean over the pairs. ``p_value`` is the largest of the pairs, or 1 if the pairs disagree
        about which row is better.
        """
        first, second = self.folders(baseline), self.folders(row)
        pairs = [
            {"seeds": [a, b], **compare(first[a], second[b], ["bleu"])["detokenised"]["bleu"]}
            for a, b in _pairs(list(first), list(second))
        ]
        differences = [pair["difference"] for pair in pairs]
        agree = min(differences) >= 0 or max(differences) <= 0
        return {
            "label": baseline.label, "metric": "detokenised BLEU", "difference": statistics.fmean(differences),
            "p_value": max(pair["p_value"] for pair in pairs) if agree else 1.0, "signature": pairs[0]["signature"],
            "pairs": [{key: pair[key] for key in ("seeds", "difference", "p_value")} for pair in pairs],
        }  # fmt: skip

    def corpus(self, system: System) -> Json:
        """The ``corpus.json`` of a system's corpus."""
        corpus: Json = read_json(self.layout.raw(system) / "corpus.json")
        return corpus

    def record(self, path: Path) -> str:
        """The record of a run's file, as a path relative to the table's folder."""
        return os.path.relpath(self.layout.record(self.name, path), self.layout.table(self.name).parent)

    def system(self, system: str) -> Json:
        """A system's resolved configuration and its trainings.

        Raises:
            DataError: a training had other settings.
        """
        counts = ("updates", "epochs", "seconds", "stopped", "tokens_per_second", "parameters")
        keys = (*counts, "hardware", "code_version", "starts")
        trainings, settings = [], self.table.systems[system]
        expected = Experiment.model_validate_json(experiment(settings))
        for seed in self.seeds_of(system):
            path = self.run(system, seed) / "training.json"
            training = read_json(path)
            if not expected.matches(training):
                raise DataError(
                    f"{path}: expected a training with the settings of {system} in table {self.name}, got other "
                    f"settings; train again: delete {path.parent}"
                )
            start = {"initialise": training["initialise"]} if "initialise" in training else {}
            trainings.append({"seed": seed, **{key: training.get(key) for key in keys}, **start})
        return {"config": published_config(settings), "trainings": trainings}

    def data(self) -> list[Json]:
        """Each cleaned corpus, with the systems that use it and the splits that they use."""
        uses: dict[Path, list[tuple[System, str, str]]] = {}
        for name in dict.fromkeys([*self.trained, *filter(None, map(self.table.text_system, self.table.rows))]):
            trained = self.table.systems[name].pairs if name in self.trained else []
            tests = [self._tested(row) for row in self.table.rows if self.table.text_system(row) == name]
            for pair, split in dict.fromkeys([*itertools.product(trained, TRAINING), *tests]):
                system = with_corpus_of(self.table.systems[name].of_pair(pair), split)
                uses.setdefault(self.layout.clean(system), []).append((system, name, split))
        return [self._corpus(folder, users) for folder, users in uses.items()]

    def _tested(self, row: Row) -> tuple[str, str]:
        """The pair of languages and the test set of a row."""
        return self.table.text(row).languages, self.table.test_of(row)

    def _corpus(self, folder: Path, uses: Sequence[tuple[System, str, str]]) -> Json:
        system = uses[0][0]
        report, corpus = read_json(folder / "report.json"), self.corpus(system)
        used = {split: distinct(name for _, name, used_split in uses if used_split == split) for _, _, split in uses}
        splits = {
            split: counts
            | self._left_out(split, used[split])
            | {
                "systems": used[split],
                "source": corpus["splits"].get(split, {}).get(system.source),
                "shared": sum(source.get("dropped", 0) for source in corpus.get("sources", {}).get(split, [])),
            }
            for split, counts in report["splits"].items()
            if split in used
        }
        names = distinct(name for _, name, _ in uses)
        return {
            "corpus": corpus["corpus"], "languages": system.languages, "systems": names, "splits": splits,
            "licence": corpus.get("licence"), "synthetic": bool(corpus.get("synthetic")),
        }  # fmt: skip

    def _left_out(self, split: str, systems: Sequence[str]) -> Json:
        """The pairs of a split that are too long for the models, by system, as ``too_long``; nothing if none is."""
        key = {"train": "too_long", "valid": "too_long_valid"}.get(split)
        runs = {name: self.run(name, self.seeds_of(name)[0]) for name in systems if key}
        counts = {name: read_json(run / "training.json").get(key) for name, run in runs.items()}
        return {"too_long": found} if (found := {name: count for name, count in counts.items() if count}) else {}

    def subwords(self) -> list[Json]:
        """Subwords per sentence and per word of each encoded pair of languages, by split and language."""
        uses: dict[tuple[Path, str], list[str]] = {}
        for name in self.trained:
            system = self.table.systems[name]
            for pair in system.pairs:
                uses.setdefault((self.layout.encoded(system), pair), []).append(name)
        return [self._encoded(encoded, pair, names) for (encoded, pair), names in uses.items()]

    def _encoded(self, encoded: Path, pair: str, names: Sequence[str]) -> Json:
        system = self.table.systems[names[0]].of_pair(pair)
        run = self.run(names[0], self.seeds_of(names[0])[0])
        tested = [self._tested(row) for row in self.table.rows if row.system in names]
        tests = [test for languages, test in tested if languages == pair and test != TRAIN_SAMPLE]
        texts = {
            split: self.layout.clean(with_corpus_of(system, split)) for split in dict.fromkeys((*TRAINING, *tests))
        }
        splits: dict[str, Json] = {}
        for split, counts in subwords(encoded, texts, system.languages).items():
            clean = read_json(texts[split] / "report.json")["splits"][split]
            splits[split] = {
                language: {"a_sentence": count / clean["kept"], "a_word": count / clean["words"][language]}
                for language, count in counts.items()
            }
        return {
            "corpus": system.corpus, "languages": system.languages, "systems": names, "splits": splits,
            **system.subwords.model_dump(include={"kind", "size", "joint"}),
            "vocab_sha256": read_json(run / "training.json")["subwords"].get("vocab_sha256"),
        }  # fmt: skip

    def samples(self) -> list[Json]:
        """Sample sentences of each test set: source, reference, and each row's translation by its first seed."""
        groups: dict[Comparable, list[Row]] = {}
        for row in self.table.rows:
            if row.is_scored:
                groups.setdefault(self.comparable(row), []).append(row)
        each = math.ceil(self.table.samples / max(1, len(groups)))
        return [sentence for rows in groups.values() for sentence in self._samples(rows, each)]

    def _samples(self, rows: Sequence[Row], count: int) -> list[Json]:
        """Sample sentences of the test set that all these rows share."""
        test, languages, _ = self.comparable(rows[0])
        lines = self.table.lines_of(test)
        chosen = [samples(next(iter(self.folders(row).values())), count, lines) for row in rows]
        return [
            {
                "test": test, "languages": languages, **{key: same[0][key] for key in ("line", "source", "reference")},
                "translations": [
                    {"label": row.label, "text": sample["hypothesis"]} for row, sample in zip(rows, same, strict=True)
                ],
            }
            for same in zip(*chosen, strict=True)
        ]  # fmt: skip


def _pairs(first: Sequence[int | str], second: Sequence[int | str]) -> list[tuple[int | str, int | str]]:
    """Pairs of models to compare: with the same seed; if the seeds differ, as for an ensemble, each with each."""
    same = sorted(map(str, first)) == sorted(map(str, second))
    return [(seed, seed) for seed in second] if same else list(itertools.product(first, second))
