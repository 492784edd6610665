"""Complete the MLflow runs of a built table: a run for each row, below that of its training."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.corpora.catalogue import TRAIN_SAMPLE
from nmt.plan.layout import Layout
from nmt.plan.systems import flatten
from nmt.system.files import Json, digest, read_json
from nmt.tracking.models import Models, logged_model, register
from nmt.tracking.publish import try_to_send
from nmt.tracking.store import describe, find_or_create_run, finish, open_experiment, send_changed

if TYPE_CHECKING:
    from mlflow.entities import Dataset, LoggedModel

CONTEXTS = {"train": "training", "valid": "validation"}
"""What MLflow calls the use of a split; a test set's is ``testing``."""
KINDS = ("html", "md", "csv", "json")


def publish_table(file: Path, tracking: Path, out: Path, models: Models) -> Json:
    """Make the runs of a built table complete: one for each row and seed, below that of the training.

    The run of a training gets the table, its figures, and the scores of the first row on each test set.

    Args:
        file: the table's JSON, as `nmt.report.write.report` writes it; its other files and its figures lie beside it.
        tracking: what `prepare` wrote.
        out: the file that will say what was published.
        models: what happens to the rows' models.

    Returns:
        As `nmt.tracking.publish.publish` does. ``rows`` has the ids of each row's runs, by its place in the table.

    Raises:
        DataError: a file of the table is missing.
    """
    data = read_json(file)
    options = ["--no-models"] * (not models.copied) + ["--register", models.register] * bool(models.register)
    return try_to_send(lambda: _Sender(file, data, tracking, models).send(), out, tracking, ["table", file, *options])


class _Sender:
    """Sends one table."""

    def __init__(self, file: Path, data: Json, tracking: Path, models: Models) -> None:
        self.file, self.data, self.models, self.name = file, data, models, str(data["name"])
        self.layout = Layout(file.resolve().parent.parent)
        self.client, self.experiment = open_experiment(tracking, self.name)

    def send(self) -> Json:
        """Send everything; sending again changes only what has changed."""
        rows = {n: self._send_row(row) for n, row in enumerate(self.data["rows"]) if not row["quoted"]}
        for system, facts in self.data["systems"].items():
            for training in facts["trainings"]:
                self._complete_training(system, training["seed"])
        self._describe_experiment()
        self._register(rows)
        runs = {n: [run for run, _ in sent] for n, sent in rows.items()}
        return {
            "experiment": self.experiment,
            "run": next((run for some in runs.values() for run in some), None),
            "rows": runs,
        }

    def _describe_experiment(self) -> None:
        """Say in the experiment what the table is, and link to its page."""
        runs = (
            self._training_run(system, facts["trainings"][0]["seed"]) for system, facts in self.data["systems"].items()
        )
        page = self.file.with_suffix(".html")
        links = [f"[table](#/experiments/{self.experiment}/runs/{run}/artifacts/{page.name})" for run in runs if run]
        note = "\n\n".join([self.data["caption"], *links[:1], f"On this machine: {page.resolve()}"])
        self.client.set_experiment_tag(self.experiment, "mlflow.note.content", note)
        pairs: dict[str, list[str]] = {}
        for corpus in self.data["data"]:
            pairs.setdefault(corpus["corpus"], []).append(corpus["languages"])
        for name, languages in pairs.items():
            self.client.set_experiment_tag(self.experiment, f"nmt.corpus.{name}", ", ".join(dict.fromkeys(languages)))

    def _training_run(self, system: str, seed: int | str) -> str | None:
        """The run of a training that this store has, if it was published and not deleted."""
        marker = self.layout.run(self.name, system, seed) / "tracked.json"
        record = read_json(marker) if marker.is_file() else {}
        if record.get("experiment") != self.experiment:
            return None
        runs = self.client.search_runs([self.experiment], f"attributes.run_id = '{record['run']}'")
        return str(record["run"]) if runs else None

    def _complete_training(self, system: str, seed: int) -> None:
        """Give a training's run all parameters of its system, its data, its first row's scores, and the table."""
        if not (run := self._training_run(system, seed)):
            return
        values = dict[str, float]()
        describe(self.client, run, self._params(system))
        used = [(use, split, corpus) for split, use in CONTEXTS.items() for corpus in self._corpora(system, split)]
        self._log_inputs(run, [(use, self._dataset(corpus, system, split)) for use, split, corpus in used])
        for row in self.data["rows"][::-1]:  # of several rows on one test set, the first one stays
            if row.get("system") == system and not row["ensemble"]:
                scores, place = row["scores"]["tokenised"], row["seeds"].index(seed)
                values |= {f"{metric}/{row['test']}": score["values"][place] for metric, score in scores.items()}
        send_changed(self.client, run, values)
        for kind in KINDS:
            if (file := self.file.with_suffix(f".{kind}")).is_file():
                self.client.log_artifact(run, str(file))
        withheld = {figure["name"] for figure in self.data["figures"] if figure.get("withheld")}
        for file in sorted(self.layout.figures(self.name).glob("*")):
            if file.stem not in withheld:
                self.client.log_artifact(run, str(file), "figures")

    def _params(self, system: str | None) -> dict[str, str]:
        """All settings of a system by their keys in a table, with the languages and the corpus."""
        return dict(self.data["systems"][system]["config"]) if system else {}

    def _send_row(self, row: Json) -> "list[tuple[str, LoggedModel | None]]":
        """Send a run for each model of a row; return their ids with the logged models."""
        seeds = ["-".join(map(str, row["seeds"]))] if row.get("ensemble") or not row["system"] else row["seeds"]
        return [self._send_scores(row, n, str(seed)) for n, seed in enumerate(seeds)]

    def _send_scores(self, row: Json, n: int, seed: str) -> "tuple[str, LoggedModel | None]":
        """Send a row's run: system and decoding as parameters, scores with plain names, test set and model.

        Args:
            row: of the table.
            n: the place of the model among those of the row.
            seed: of the model; of an ensemble, ``1-2-3``; empty for given translations.
        """
        scores = self.file.parent / row["provenance"][n]
        params = self._params(row["system"]) | flatten(row["decoding"], "decoding") | {
            "row": row["label"], "system": row["system"] or "given", "checkpoint": row["at"] or "none",
            "test": row["test"], "languages": row["languages"], "seed": seed or "none",
        }  # fmt: skip
        parent = self._training_run(row["system"], seed) if row["system"] else None
        tags = {
            "nmt.run": f"{self.name}/row/{digest(params)}", "nmt.table": self.name, "nmt.kind": "row",
            "nmt.code_version": " ".join(row["code_version"]), "mlflow.note.content": row["note"] or "",
            **({"mlflow.parentRunId": parent} if parent else {}),
        }  # fmt: skip
        title = f"{row['label']}, seed {seed}" if len(row["provenance"]) > 1 else row["label"]
        run = find_or_create_run(self.client, self.experiment, title, tags)
        try:
            describe(self.client, run, params, tags)
            model = self._model(scores, params, parent) if row["system"] else None
            corpora = self._corpora(row["system"], row["test"])
            corpus = next((corpus for corpus in corpora if corpus["languages"] == row["languages"]), corpora[0])
            dataset = self._dataset(corpus, row["system"], row["test"], row["references_sha256"]["tokenised"])
            self._log_inputs(run, [("testing", dataset)], [model] if model else [])
            send_changed(self.client, run, _values(row, n), dataset, model)
            self._send_files(run, row, scores)
        except BaseException:
            with suppress(Exception):
                self.client.set_terminated(run, "FAILED")
            raise
        finish(self.client, run)
        return run, model

    def _model(self, scores: Path, params: dict[str, str], run: str | None) -> "LoggedModel | None":
        """The logged model behind the record of its scores, ``SYSTEM/seedN/SELECTION/TEST/DECODING/scores.json``."""
        parts = scores.parts[-6:-3]
        own = {k: value for k, value in params.items() if not k.startswith("decoding.") and k not in ("row", "test")}
        folder = self.layout.runs(self.name).joinpath(*parts, "model")
        return logged_model(self.client, self.experiment, folder, run, own, self.models)

    def _log_inputs(
        self, run: str, datasets: "Sequence[tuple[str, Dataset]]", models: Sequence["LoggedModel"] = ()
    ) -> None:
        """Log datasets with their uses, and models; MLflow keeps those once that are logged again."""
        from mlflow.entities import DatasetInput, InputTag, LoggedModelInput

        uses = [DatasetInput(data, [InputTag("mlflow.data.context", use)]) for use, data in datasets]
        self.client.log_inputs(run, uses, [LoggedModelInput(model.model_id) for model in models])

    def _corpora(self, system: str | None, split: str) -> list[Json]:
        """The cleaned corpora that have a split, one for each pair of languages; a system's own if it has any."""
        corpora = [corpus for corpus in self.data["data"] if _text_of(split) in corpus["splits"]]
        return [corpus for corpus in corpora if system in corpus["systems"]] or corpora

    def _dataset(self, corpus: Json, system: str | None, split: str, references: str = "") -> "Dataset":
        """A split of a system's cleaned corpus: its name, digest, source and number of sentences."""
        from mlflow.entities import Dataset

        facts, name = corpus["splits"][_text_of(split)], f"{corpus['corpus']} {corpus['languages']} {split}"
        cleaning = {key: value for key, value in self._params(system).items() if key.startswith("cleaning.")}
        source = facts["source"] or {}
        url = source.get("url") or ""
        kind = ("http", {"url": url}) if url.startswith("http") else ("local", {"uri": url or corpus["corpus"]})
        counts = {key: facts[key] for key in ("read", "kept", "words")}  # of a sample, those of the text it is from
        checksum = digest([source.get("sha256"), references, corpus["languages"], cleaning])
        return Dataset(name, checksum, kind[0], json.dumps(kind[1]), None, json.dumps(counts))

    def _send_files(self, run: str, row: Json, scores: Path) -> None:
        """Send a row's scores and sample translations."""
        if scores.is_file():
            self.client.log_artifact(run, str(scores))
        blocks = [
            f"source: {sample['source']}\nreference: {sample['reference']}\ntranslation: {translation['text']}"
            for sample in self.data["samples"]
            if (sample["test"], sample.get("languages", row["languages"])) == (row["test"], row["languages"])
            for translation in sample["translations"] if translation["label"] == row["label"]
        ]  # fmt: skip
        if blocks:
            self.client.log_text(run, "\n\n".join(blocks) + "\n", "samples.txt")

    def _register(self, rows: "Mapping[int, list[tuple[str, LoggedModel | None]]]") -> None:
        """Register the model of the row with the highest BLEU on the first test set."""
        name, test, own = self.models.register, self.data["tests"][0], self.data["rows"]
        scored = [
            (_values(own[n], place)[f"bleu/{test}"], own[n]["label"], run, model)
            for n, sent in rows.items() if own[n]["test"] == test
            for place, (run, model) in enumerate(sent) if model
        ]  # fmt: skip
        if name and scored:
            score, label, run, model = max(scored, key=itemgetter(0))
            register(self.client, name, model, run, f"{label}: BLEU {score:.2f} on {test}")


def _text_of(split: str) -> str:
    """The split that has the text of another one: a sample of the training text is part of it."""
    return "train" if split == TRAIN_SAMPLE else split


def _values(row: Json, n: int) -> dict[str, float]:
    """The scores of a row's model as metrics ``METRIC/TEST``; ``n`` is the model's place in the row."""
    values, test = dict[str, float](), row["test"]
    for protocol, suffix in (("tokenised", ""), ("detokenised", "_detokenised")):
        for metric, score in row["scores"][protocol].items():
            values[f"{metric}/{test}{suffix}"] = score["values"][n]
    bleu = row["scores"]["tokenised"]["bleu"]
    values |= {f"bleu/{test}_{end}": bleu[end] for end in ("low", "high") if bleu[end] is not None}
    return values
