"""Turn a table's data into grids of text with headings. Markdown and HTML only format these grids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nmt.report import cells
from nmt.report.cells import NONE, duration, hardware, number, published, signed, statistic, training_time
from nmt.report.compared import ablations, comparisons
from nmt.report.corpora.grids import data_grid, filters_grid, subwords_grid
from nmt.report.grid import Grid, distinct_of, telling
from nmt.scoring.summary import distinct
from nmt.system.files import Json

NAMES = {
    "bleu": "BLEU", "bleu1": "BLEU-1", "bleu2": "BLEU-2", "bleu3": "BLEU-3", "ter": "TER", "chrf": "chrF",
    "chrfpp": "chrF++", "spbleu": "spBLEU",
    "meteor": "METEOR", "meteor_nltk": "METEOR (NLTK)", "exact": "exact match", "words": "ambiguous words right (%)",
    "language": "right language (%)", "nll_train": "NLL, training", "nll_valid": "NLL, validation",
}  # fmt: skip
TITLE = 80
"""Characters of a caption's first sentence that can be a title."""
NLL = ("nll_train", "nll_valid")
LOWER = {"ter", *NLL}
"""Metrics of which a lower score is better."""
SHOWN = ("bleu", "ter", "chrf", "meteor")  # the metrics of tables that name none
PER_PIECE = {"loss", "loss-by-system", "accuracy", "learning-curves"}
"""Figures of quantities per piece, which depend on the vocabulary. All are drawn from logs of trainings."""


def name_of(metric: str) -> str:
    """What readers call a metric; its key if it has no other name."""
    return NAMES.get(metric, metric)


def headline(data: Json) -> tuple[str, str]:
    """A short title, and the text below it: the caption, without its first sentence if that is the title.

    The title is the one of the table file, else the caption's first sentence if it is short, else the table's name.
    """
    first, _, rest = data["caption"].partition(". ")
    first = first.removesuffix(".")
    if data.get("title"):
        return data["title"], data["caption"]
    if len(first) <= TITLE:
        return first, rest
    return data["name"].replace("_", " "), data["caption"]


def result_grids(data: Json) -> list[Grid]:
    """The grids of a table's results: its scores first."""
    return [_scores(data), *(grid for grid in (ablations(data), comparisons(data)) if grid.rows)]


def making_grids(data: Json) -> list[Grid]:
    """The grids that describe how the results were made; none if all figures are quoted."""
    if not data["systems"] and not any(row.get("hypotheses") for row in data["rows"]):
        return []
    made = [_making(data), *([_trainings(data)] if data["systems"] else []), data_grid(data), *filters_grid(data)]
    made += [subwords_grid(data)] if "subwords" in data else []  # results of earlier versions have none
    return made + ([_parameters(data)] if data["systems"] else [])


def shown(data: Json) -> list[Json]:
    """The figures of a table that its pages may show."""
    return [figure for figure in data["figures"] if not figure.get("withheld")]


def figure_notes(data: Json) -> list[str]:
    """What readers must know to compare the lines of a table's figures, and which figures a page leaves out."""
    withheld = [f"{figure['name']}.png" for figure in data["figures"] if figure.get("withheld")]
    notes = [
        f"Not on this page: {' and '.join(withheld)}. The picture may not be passed on. Building the table "
        f"draws such figures into figures/{data['name']} of the results folder."
    ] * bool(withheld)
    if _vocabularies(data) < 2 or not PER_PIECE & {figure["name"] for figure in data["figures"]}:
        return notes
    return [
        *notes,
        "Loss and accuracy are per piece. The systems of this table have different vocabularies, so compare these "
        "curves only between systems with the same one. Bits per character (nmt logprob) compare across vocabularies.",
    ]


def _vocabularies(data: Json) -> int:
    """The number of different vocabularies; results of earlier versions do not say which are the same."""
    return len(distinct([made.get("vocab_sha256") or n for n, made in enumerate(data.get("subwords", []))]))


def _scores(data: Json) -> Grid:
    """Published figures next to ours."""
    rows = data["rows"]
    columns = _columns(data)
    keys = telling(rows)
    header = ["system", *keys.values(), *(column.heading for column in columns), "BLEU, detokenised"]
    body = [_score_cells(row, columns, keys) for row in rows]
    notes = [f"{row['label']}: {_sentence(row['note'])}" for row in rows if row["note"]]
    notes += _warned(rows)
    quoted = [row["quoted"] for row in rows]
    return Grid("scores", "Scores", header, body, [*_about(data), *notes], quoted, _best(data, columns, 1 + len(keys)))


def _sentence(note: str) -> str:
    """A note in one line, with a full stop if it has no end."""
    note = " ".join(note.split())
    return note if note.endswith((".", "!", "?")) else f"{note}."


def _best(data: Json, columns: Sequence["_Column"], first: int) -> set[tuple[int, int]]:
    """Return row and column of the best of our scores on each test set, among those that can be compared.

    NLL of different vocabularies has no best.

    Args:
        data: of the table.
        columns: of the metrics.
        first: number of the first metric's column.
    """
    rows, incomparable = data["rows"], NLL if _vocabularies(data) > 1 else ()
    values = {
        n: [_mean(_ours(row), column.metric) for row in rows]
        for n, column in enumerate(columns, first)
        if column.kind == "ours" and column.metric not in incomparable
    }
    detokenised = [_mean(row.get("scores", {}).get("detokenised", {}), "bleu") for row in rows]
    values[first + len(columns)] = detokenised
    lower = {n for n, column in enumerate(columns, first) if column.metric in LOWER}
    references, case = [row.get("references_sha256", {}).get("tokenised") for row in rows], _lowercase(data)
    best = set()
    for cell, figures in values.items():
        groups: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
        for place, (row, figure) in enumerate(zip(rows, figures, strict=True)):
            if figure is not None:
                comparable = case.get(references[place]) if cell == first + len(columns) else references[place]
                groups.setdefault((row.get("test"), row.get("languages"), comparable), []).append((figure, place))
        for group in groups.values():
            top = (min if cell in lower else max)(group)[0]
            best |= {(place, cell) for figure, place in group if figure == top and len(group) > 1}
    return best


def _lowercase(data: Json) -> dict[str | None, str]:
    """By cleaned references, whether their systems write lower case, so that detokenised BLEU ignores the case."""
    return {
        row["references_sha256"]["tokenised"]: data["systems"][row["system"]]["config"].get("cleaning.lowercase", "")
        for row in data["rows"] if row.get("system") and "references_sha256" in row
    }  # fmt: skip


def _mean(scores: Json, metric: str) -> float | None:
    mean: float | None = scores.get(metric, {}).get("mean")
    return mean


def _warned(rows: Sequence[Json]) -> list[str]:
    """Return one note for each distinct warning, with the rows whose scores it touches if it does not touch all."""
    trained = {row["label"]: None for row in rows if not row["quoted"]}
    touched: dict[str, dict[str, None]] = {}
    for row in rows:
        for warning in row.get("warnings", []):
            touched.setdefault(f"{warning['text']} ({warning['file']}).", {})[row["label"]] = None
    return [f"{'Warning' if labels == trained else ', '.join(labels)}: {text}" for text, labels in touched.items()]


@dataclass
class _Column:
    """The published value of a metric, our value, or the difference."""

    metric: str
    kind: Literal["published", "ours", "difference"]
    heading: str
    scale: float = 1.0  # from the unit of the data to that of the column

    def cell(self, row: Json) -> str:
        if self.kind == "published":
            return published(row["published"].get(self.metric))
        if self.kind == "difference":
            return signed(row.get("difference", {}).get(self.metric), _digits(self.metric))
        return statistic(_ours(row).get(self.metric), _digits(self.metric), self.scale)


def _columns(data: Json) -> list[_Column]:
    """Return the columns of a table's metrics. A column exists if at least one row has a value for it."""
    columns = []
    for metric in (*data.get("metrics", SHOWN), "words"):
        name, scale = name_of(metric), 1.0
        if metric in NLL and data.get("nll_unit") == "bits":
            name, scale = f"{name}, bits", cells.NLL_SCALE["bits"]
        if any(metric in row["published"] for row in data["rows"]):
            columns.append(_Column(metric, "published", f"{name}, published"))
        if any(metric in _ours(row) for row in data["rows"]):
            columns.append(_Column(metric, "ours", f"{name}{_reduced(metric, data['rows'])}, ours", scale))
        if any(metric in row.get("difference", {}) for row in data["rows"]):
            columns.append(_Column(metric, "difference", f"Δ {name}"))
    return columns


def _ours(row: Json) -> Json:
    """Our values of a row by metric: scores of the tokenised text, and NLL of the training."""
    scores = row.get("scores", {})
    return {**scores.get("tokenised", {}), **scores.get("training", {})}


def _reduced(metric: str, rows: Sequence[Json]) -> str:
    """The modules of our METEOR in brackets, if METEOR was computed without a paraphrase table."""
    meteors = [row["meteor"] for row in rows if row.get("meteor")]
    modules = sorted({meteor["modules"] for meteor in meteors})
    return f" ({' or '.join(modules)})" if metric == "meteor" and any(m["reduced"] for m in meteors) else ""


def _digits(metric: str) -> int:
    return 3 if metric in NLL else 2


def _score_cells(row: Json, columns: Sequence[_Column], keys: Iterable[str]) -> list[str]:
    cells = [row["label"] + (" (quoted)" if row["quoted"] else " (synthetic)" if row.get("synthetic") else "")]
    cells += [row[key] or NONE for key in keys]
    cells += [column.cell(row) for column in columns]
    return [*cells, statistic(row.get("scores", {}).get("detokenised", {}).get("bleu"))]


def _about(data: Json) -> list[str]:
    """Return sentences that explain the scores."""
    trained = [row for row in data["rows"] if not row["quoted"]]
    notes = []
    if data["synthetic"]:
        where = " (the marked rows)" if len(distinct_of(data["rows"], "synthetic")) > 1 else ""
        notes.append(
            f"Synthetic corpus{where}: generated sentences, far easier than real text. Do not compare these scores "
            "with published figures."
        )
    if any("words" in row.get("scores", {}).get("tokenised", {}) for row in trained):
        notes.append(
            "Ambiguous words: share of sentences whose ambiguous word is translated in the sense that the picture "
            "shows. If a test set has each sentence in both senses, a system that ignores the picture gets about half "
            "of them right."
        )
    if data["limit"]:
        notes.append(f"A trial: every split was cut to its first {data['limit']} lines, so these scores mean nothing.")
    if trained:
        notes += _about_ours(data, trained)
    notes += _about_seeds(trained)
    if _cleaned_apart(trained):
        notes.append(
            "Some rows of one test set have references that were cleaned differently, so their scores cannot be "
            "compared. The paired bootstrap remains valid: if one system writes lower case, both are lowercased."
        )
    notes += [
        f"{row['label']}: translations of another system, read from {row['hypotheses']} "
        f"(sha256 {row['hypotheses_sha256'][:12]}…), not made here."
        for row in trained if row.get("hypotheses")
    ]  # fmt: skip
    if any(row["quoted"] for row in data["rows"]):
        notes.append("Quoted: a published figure for reference only, not trained here.")
    return notes


def _about_ours(data: Json, trained: Sequence[Json]) -> list[str]:
    """What our scores are, and on which text."""
    shown = [column.metric for column in _columns(data) if column.kind == "ours"]
    names = [name_of(metric) + " (lower is better)" * (metric in LOWER) for metric in shown if metric not in NLL]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    tokenised = f"{listed} on the cleaned, tokenised text; beside them " if listed else ""
    delta = " Δ is ours minus published." if any(row.get("difference") for row in trained) else ""
    about = f"{tokenised}BLEU of the detokenised output against the raw references ({cells.tokenisers(data)})."
    return [f"Ours: {about}{delta}", *cells.about_case(data), *_about_metrics(data, shown)]


def _about_seeds(trained: Sequence[Json]) -> list[str]:
    """What stands behind a score: the mean of several seeds, or the interval of one system."""
    counts = {1 if row.get("ensemble") else len(row["seeds"]) or 1 for row in trained}
    notes = []
    if counts - {1}:
        notes.append(f"Mean ± standard deviation over {' or '.join(map(str, sorted(counts - {1})))} seeds.")
    if 1 in counts:
        together = ", or of an ensemble" if any(row.get("ensemble") for row in trained) else ""
        together += ", or of given translations" if any(row.get("hypotheses") for row in trained) else ""
        notes.append(f"In brackets: the 95 % bootstrap interval of a system trained with one seed{together}.")
    return notes


def _about_metrics(data: Json, shown: Sequence[str]) -> list[str]:
    """Return one note per shown metric that needs an explanation."""
    notes = []
    if {"bleu1", "bleu2", "bleu3"} & set(shown):
        notes.append("BLEU-n counts n-grams of at most n words; BLEU alone is BLEU-4.")
    if "meteor" in shown and _reduced("meteor", data["rows"]):
        notes.append(
            "METEOR: computed without the paraphrase table of the target language, by the named modules. So no "
            "difference from published METEOR is shown."
        )
    if "language" in shown:
        notes.append("Right language: the share of lines that py3langid takes for the target language.")
    if set(NLL) & set(shown):
        notes.append(
            f"NLL: negative log-likelihood without label smoothing, in {data.get('nll_unit', 'nats')} per piece (EOS "
            "included). On the training text: with dropout, over the epoch before the checkpoint. On the validation "
            "text: at the checkpoint. NLL of different vocabularies cannot be compared, so no difference from "
            "published figures is shown."
        )
    return notes


def _cleaned_apart(rows: Sequence[Json]) -> bool:
    """Whether some rows share their raw references but not their cleaned references."""
    by_raw: dict[str, set[str]] = {}
    for row in rows:
        if hashes := row.get("references_sha256"):
            by_raw.setdefault(hashes["detokenised"], set()).add(hashes["tokenised"])
    return any(len(cleaned) > 1 for cleaned in by_raw.values())


def _making(data: Json) -> Grid:
    """How each score was made: checkpoint, search, times, hardware and files."""
    rows = [row for row in data["rows"] if not row["quoted"]]
    keys = telling(rows)
    header = [
        "system", *keys.values(), "checkpoint", "update", "search", "parameters",
        "training time to checkpoint", "translation time", "validation loss", "validation BLEU",
        "n-gram precisions (%)", "hardware", "scores",
    ]  # fmt: skip
    return Grid("making", "How each score was made", header, [_made(row, keys) for row in rows])


def _made(row: Json, keys: Iterable[str]) -> list[str]:
    updates = dict.fromkeys(f"{point['update']:,}" for point in row["checkpoints"] if point["update"] is not None)
    return [
        row["label"], *(row[key] or NONE for key in keys), row["at"] or NONE, " / ".join(updates) or NONE,
        cells.search_settings(row["decoding"]),
        number(row["parameters"], 0), training_time(row), duration(row["decoding_seconds"]),
        number(row["valid_loss"], 3), number(row["valid_bleu"], 2),
        " / ".join(f"{value:.1f}" for value in row["precisions"]),
        "; ".join(dict.fromkeys(map(hardware, row["hardware"]))) or NONE, ", ".join(row["provenance"]),
    ]  # fmt: skip


def _trainings(data: Json) -> Grid:
    trainings = [(name, training) for name, system in data["systems"].items() for training in system["trainings"]]
    start = ["starts from the weights"] if any("initialise" in training for _, training in trainings) else []
    header = ["system", "seed", "updates", "epochs", "time", "tokens/s", "ended by", "hardware", "code", *start]
    rows = [
        [
            name, str(training["seed"]), number(training["updates"], 0), number(training["epochs"], 1),
            duration(training["seconds"]), number(training["tokens_per_second"], 0), training["stopped"] or NONE,
            *_made_by(training), *(training.get("initialise", {}).get("weights_sha256", NONE)[:12] for _ in start),
        ] for name, training in trainings
    ]  # fmt: skip
    return Grid("trainings", "Trainings", header, rows)


def _made_by(training: Json) -> tuple[str, str]:
    """The machines and the code versions of all starts of a training, in order.

    Older records have only the last start.
    """
    starts = training.get("starts") or [training]
    machines, codes = ([start[key] for start in starts] for key in ("hardware", "code_version"))
    return "; ".join(dict.fromkeys(map(hardware, machines))), ", ".join(dict.fromkeys(code or NONE for code in codes))


def _parameters(data: Json) -> Grid:
    """The resolved configuration of each system; a dash if a system lacks a key."""
    configs = [system["config"] for system in data["systems"].values()]
    keys = dict.fromkeys(key for config in configs for key in config)
    rows = [[key, *(config.get(key, NONE) for config in configs)] for key in keys]
    return Grid("parameters", "Hyper-parameters", ["key", *data["systems"]], rows)


def sample_sets(sentences: Sequence[Json]) -> dict[str, list[Json]]:
    """Group samples by test set; the names of the groups include the languages."""
    sets: dict[str, list[Json]] = {}
    for sentence in sentences:
        title = ", ".join(sentence[key] for key in ("test", "languages") if sentence.get(key))
        sets.setdefault(title, []).append(sentence)
    return sets
