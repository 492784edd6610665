"""A table: its systems, and the rows that show their scores."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from nmt.config.choices import ON_REQUEST, OnRequest
from nmt.config.decoding import Decoding
from nmt.config.inherit import read_systems, with_subwords_of_parents
from nmt.config.models import MultimodalConfig, has_attention
from nmt.config.problems.words import nearest
from nmt.config.selection import Selection
from nmt.config.system import System, why_unselectable, why_unsupported
from nmt.config.types import Count, Different, Name, Names, NonNegative, Pair, Positive, Score, Strict, UserPath
from nmt.config.yaml import load_yaml, read_config, validate
from nmt.system.errors import ConfigError, at_place
from nmt.system.files import digest

GIVEN = "file"
"""Stands for the model of a row whose translations are given as a file."""
Figure = Literal[
    "loss", "loss-by-system", "accuracy", "bleu", "learning-curves", "learning-rate", "positions",
    "positions-across", "mask", "alignment", "picture", "picture-words", "bleu-by-length", "accuracy-by-frequency",
]  # fmt: skip
OVERLAYS: tuple[Figure, ...] = ("picture", "picture-words")
"""The figures that show a picture."""
ALWAYS = ("bleu", "chrf", "ter", "exact")
"""Metrics that are computed for every row."""
Metric = Annotated[
    Literal["bleu", "chrf", "ter", "exact", OnRequest, "nll_train", "nll_valid"],
    Field(
        description="bleu1 to bleu3: BLEU of n-grams up to that length; spbleu: BLEU of sentencepiece pieces; chrfpp: "
        "chrF++; exact: share of lines that equal their reference; language: share of lines in the target language; "
        "nll: negative log-likelihood of the training"
    ),
]


class Published(Strict):
    """Published figures: scores from 0 to 100, and negative log-likelihoods (NLL) of the training."""

    bleu: Score | None = Field(None, description="BLEU")
    bleu1: Score | None = Field(None, description="BLEU-1")
    bleu2: Score | None = Field(None, description="BLEU-2")
    bleu3: Score | None = Field(None, description="BLEU-3")
    ter: NonNegative | None = Field(None, description="TER; it may exceed 100")
    spbleu: Score | None = Field(None, description="spBLEU")
    chrf: Score | None = Field(None, description="chrF")
    chrfpp: Score | None = Field(None, description="chrF++")
    meteor: Score | None = Field(None, description="METEOR 1.5")
    meteor_nltk: Score | None = Field(None, description="NLTK's METEOR")
    exact: Score | None = Field(None, description="exact match, in per cent of the lines")
    nll_train: NonNegative | None = Field(None, description="NLL on training text, in the table's nll_unit")
    nll_valid: NonNegative | None = Field(None, description="NLL on validation text, in the table's nll_unit")

    @model_validator(mode="after")
    def _has_figure(self) -> Self:
        if not self.non_defaults():
            raise ValueError("expected a figure, got none; give one, e.g. bleu: 34.2, or leave published out")
        return self


class Row(Strict):
    """One line of a table: a system at a checkpoint selection, decoded one way; or only a published figure."""

    label: str = Field(description="what the table calls the row")
    system: Name | None = Field(None, description="name of a system of this table; null: only a published figure")
    hypotheses: UserPath | None = Field(
        None,
        description="instead of a system: file of another system's translations of the test set, plain text, one "
        "sentence per line",
    )
    text_of: Name | None = Field(
        None,
        description="of hypotheses: system with whose corpus, languages and cleaning they are scored; null: any, if "
        "all systems of the table have the same",
    )
    at: Selection = Field("best", description="which checkpoints become its model; start: its parent's weights")
    ensemble: bool = Field(False, description="the models of all seeds translate together, by their mean prediction")
    test: Name | None = Field(None, description="test set; null: the table's first")
    pair: Pair | None = Field(
        None, description="of a system with several pairs: the one to score; null: a row for each"
    )
    decoding: Decoding = Field(Decoding(), description="search")
    published: Published | None = Field(None, description="published figures to compare with")
    against: str | None = Field(
        None,
        description="label of the row that this row is tested against; null: the first trained row on the same test "
        "set that has no against",
    )
    note: str | None = Field(None, description="remark printed below the table")

    @property
    def is_scored(self) -> bool:
        """Whether the row has translations; otherwise it is only a published figure."""
        return self.system is not None or self.hypotheses is not None

    @property
    def hypotheses_slug(self) -> str:
        """Return a folder name for the scores of ``hypotheses``: the file's name, and a digest of path and text."""
        assert self.hypotheses is not None
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.hypotheses.name).strip("-.") or "hypotheses"
        return f"{name}-{digest([str(self.hypotheses), self.text_of])}"


class _TableFields(Strict):
    """The fields of a table, except its systems."""

    caption: str = Field(description="what the table shows; the first sentence is its title, if that is short")
    title: Annotated[str, Field(min_length=1, max_length=80)] | None = Field(
        None, description="short title above the caption; null: the caption's first sentence"
    )
    report: str | None = Field(None, description="published report that the table rebuilds; the overview groups by it")
    comparable: bool = Field(
        True,
        description="false: corpus or test sets are not the report's, so the table shows no difference to its figures",
    )
    tests: Names = Field(description="test sets; rows use the first unless they name another")
    rows: list[Row] = Field(min_length=1, description="lines of the table, in this order")
    figures: Annotated[list[Figure], Different] = Field(
        ["loss", "accuracy", "bleu", "learning-rate"], description="figures drawn with the table"
    )
    samples: Count = Field(10, description="sample translations shown")
    sample_lines: Annotated[list[Positive], Different] = Field(
        [],
        description="lines of the first test set, from 1, shown as its samples instead of evenly spaced ones; the "
        "figure alignment shows these",
    )
    published_curves: dict[Name, list[tuple[Positive, Score]]] = Field(
        default_factory=dict,
        description="pairs of update and BLEU on validation text that the report prints, for systems of this table; "
        "drawn in the figure learning-curves, which then shows these systems alone",
    )
    metrics: Annotated[list[Metric], Different] = Field(
        ["bleu", "ter", "chrf"],
        min_length=1,
        description="metrics shown, in this order, before further published ones; bleu1 to bleu3: BLEU of n-grams up "
        "to that length; exact: share of lines that equal their reference; nll: negative log-likelihood in training",
    )
    nll_unit: Literal["nats", "bits"] = Field(
        "nats", description="unit of NLL per piece, published and ours; fairseq prints bits"
    )


def _one_of(word: str, allowed: Iterable[str]) -> str:
    names = list(allowed)
    return f"'{word}'; expected one of {', '.join(names)}{nearest(word, names)}"


class TableFile(_TableFields):
    """One table: its systems and rows. A system takes each key that it does not give from ``defaults``."""

    defaults: dict[str, Any] = Field(
        default_factory=dict, description="keys of a system, for all systems that do not give them"
    )
    systems: dict[Name, dict[str, Any]] = Field(description="the trained configurations, by name")


class Table(_TableFields):
    """One table, published or new, with ``defaults`` already merged into its systems."""

    defaults: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Always empty, as `load_table` merges them. The field is here for messages alone, as an allowed key."""
    systems: dict[Name, System]

    def test_of(self, row: Row) -> str:
        """Return the test set of a row."""
        return row.test or self.tests[0]

    def text_system(self, row: Row) -> str | None:
        """Return the system whose corpus, languages and cleaning a row has; None for a published figure."""
        if row.hypotheses is None:
            return row.system
        return row.text_of or next(iter(self.systems))

    def text(self, row: Row) -> System:
        """Return the system of `text_system`, with the pair of languages of a row."""
        return self.systems[self.text_system(row) or ""].of_pair(row.pair)

    def rows_of(self, system: str) -> list[Row]:
        """Return the rows of a system."""
        return [row for row in self.rows if row.system == system]

    def seeds_of(self, system: str, seeds: Sequence[int]) -> Sequence[int]:
        """Return the seeds of a system: its own, otherwise ``seeds``, those of the settings."""
        return self.systems[system].seeds or seeds

    def lines_of(self, test: str) -> Sequence[int]:
        """Return the lines of a test set that are shown; empty for evenly spaced ones."""
        return self.sample_lines if test == self.tests[0] else []

    def models_of(self, row: Row, seeds: Sequence[int]) -> Sequence[int | str]:
        """Return the models of a row by their seeds, e.g. ``[1, 2, 3]``; one name for an ensemble: ``["1-2-3"]``.

        Translations of another system count as one model, ``["file"]``.

        Raises:
            ConfigError: the row is an ensemble of fewer than two seeds.
        """
        if row.hypotheses:
            return [GIVEN]
        assert row.system is not None
        own = self.seeds_of(row.system, seeds)
        if row.ensemble and len(own) < 2:
            raise ConfigError(
                f"row '{row.label}': expected at least two seeds for an ensemble, got {list(own)}; give "
                f"systems.{row.system}.seeds, or leave out ensemble: true"
            )
        return ["-".join(map(str, own))] if row.ensemble else own

    @property
    def requested_metrics(self) -> list[str]:
        """The metrics that this table asks for beyond `ALWAYS`."""
        return [metric for metric in ON_REQUEST if metric in self.metrics]

    @model_validator(mode="after")
    def _curves_have_systems(self) -> Self:
        for name in self.published_curves:
            with at_place("published_curves", name):
                if name not in self.systems:
                    raise ValueError(f"no system {_one_of(name, self.systems)}")
        return self

    @model_validator(mode="after")
    def _alignment_needs_attention(self) -> Self:
        names = [row.system for row in self.rows if self.test_of(row) == self.tests[0]]
        models = [self.systems[name].model for name in names if name in self.systems]
        if "alignment" in self.figures and not any(has_attention(model) for model in models):
            raise ValueError("figures: alignment needs a system with attention, scored on the first test set")
        return self

    @property
    def overlays(self) -> list[Figure]:
        """The figures of this table that show a picture."""
        return [figure for figure in self.figures if figure in OVERLAYS]

    @property
    def region_row(self) -> Row | None:
        """The first row whose model attends to regions of the right pictures, on the first test set."""
        for row in self.rows:
            model = self.systems[row.system].model if row.system in self.systems else None
            if not isinstance(model, MultimodalConfig) or model.fusion == "gated" or model.backbone == "descriptions":
                continue
            if self.test_of(row) == self.tests[0] and (row.decoding.images or model.images) == "right":
                return row
        return None

    def attention_rows(self, figure: Figure, seeds: Sequence[int]) -> list[tuple[Row, int | str]]:
        """Return the rows whose attention a figure shows, each with its first model (see `models_of`).

        For ``alignment`` these are the first row of each system with attention, on the first test set; for ``picture``
        and ``picture-words`` `region_row`; for other figures none.
        """
        rows: dict[str | None, Row] = {}
        if figure in OVERLAYS and self.region_row:
            rows = {self.region_row.system: self.region_row}
        elif figure == "alignment":
            for row in self.rows:
                if row.system and self.test_of(row) == self.tests[0] and has_attention(self.systems[row.system].model):
                    rows.setdefault(row.system, row)
        return [(row, self.models_of(row, seeds)[0]) for row in rows.values()]

    @model_validator(mode="after")
    def _picture_needs_regions(self) -> Self:
        if self.overlays and self.region_row is None:
            raise ValueError(
                f"figures: {self.overlays[0]} needs a multimodal system that attends to regions of the right "
                "pictures, scored on the first test set"
            )
        return self

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for number, row in enumerate(self.rows):
            with at_place("rows", number):
                self._check_row(row)
                if row in self.rows[:number]:
                    raise ValueError(f"row '{row.label}' occurs twice; delete one")
        for number, row in enumerate(self.rows):  # a row may be compared with a later one, so check all rows first
            with at_place("rows", number):
                if any(row.label == other.label and self.same_sentences(row, other) for other in self.rows[:number]):
                    raise ValueError(f"row '{row.label}': another row of its test set has this label; rename one")
                self._check_comparison(row)
        return self

    def _check_row(self, row: Row) -> None:
        if row.system is not None and row.system not in self.systems:
            raise ValueError(f"row '{row.label}' names system {_one_of(row.system, self.systems)}")
        if row.system and (why := why_unselectable(row.at, self.systems[row.system])):
            raise ValueError(f"row '{row.label}' asks for '{row.at}', which is not kept: {why}")
        if row.system and (why := why_unsupported(row.decoding, self.systems[row.system])):
            raise ValueError(f"row '{row.label}': {why}")
        if row.test is not None and row.test not in self.tests:
            raise ValueError(f"row '{row.label}' names test {_one_of(row.test, self.tests)}")
        if row.ensemble and row.system is None:
            raise ValueError(f"row '{row.label}': ensemble: true needs a system; name one")
        if not row.is_scored and row.published is None:
            raise ValueError(
                f"row '{row.label}' has no system, no hypotheses and no published figure; give one of them"
            )
        self._check_hypotheses(row)
        if row.pair and not row.is_scored:
            raise ValueError(f"row '{row.label}': pair: {row.pair} needs a system; name one, or leave pair out")
        if row.pair and (why := self.systems[self.text_system(row) or ""].why_not_translated(row.pair)):
            raise ValueError(f"row '{row.label}': pair: {why}")

    def _check_hypotheses(self, row: Row) -> None:
        """Reject keys that do not fit translations of another system, or a text that is not clear."""
        if row.hypotheses is None:
            if row.text_of is not None:
                raise ValueError(f"row '{row.label}': text_of belongs to hypotheses; give a file, or leave it out")
            return
        if extra := [key for key in ("system", "at", "decoding") if key in row.non_defaults()]:
            raise ValueError(f"row '{row.label}': hypotheses are another system's; leave {extra[0]} out")
        if row.text_of is not None and row.text_of not in self.systems:
            raise ValueError(f"row '{row.label}': text_of names system {_one_of(row.text_of, self.systems)}")
        if not self.systems:
            raise ValueError(f"row '{row.label}': hypotheses need a system of the table, for the test set's corpus")
        texts = {(s.corpus, s.languages, s.cleaning.slug("")) for s in self.systems.values()}
        if row.text_of is None and len(texts) > 1:
            raise ValueError(
                f"row '{row.label}': the systems differ in corpus, languages or cleaning; say whose text the "
                f"hypotheses are scored on, text_of: one of {', '.join(self.systems)}"
            )
        name = self.text_system(row) or ""
        if row.pair is None and len(pairs := self.systems[name].pairs) > 1:
            raise ValueError(
                f"row '{row.label}': a file of hypotheses has one pair of languages, and {name} has several; give "
                f"pair: one of {', '.join(pairs)}"
            )

    def _check_comparison(self, row: Row) -> None:
        if row.against is None:
            return
        if not row.is_scored:
            raise ValueError(
                f"row '{row.label}' has no system, so nothing to test against '{row.against}'; name a system, or leave "
                "against out"
            )
        others = [other.label for other in self.rows if other is not row and self.same_sentences(other, row)]
        if others.count(row.against) > 1:
            raise ValueError(f"row '{row.label}': against: several rows are called '{row.against}'; rename one")
        if row.against not in others:
            known = _one_of(row.against, others) if others else f"'{row.against}'; it has no other trained row"
            raise ValueError(f"row '{row.label}': against: no other trained row of its test set is called {known}")

    def row_against(self, row: Row) -> Row | None:
        """Return the row that ``row.against`` names, or None."""
        others = [other for other in self.rows if other is not row and other.label == row.against]
        return next((other for other in others if self.same_sentences(other, row)), None)

    def same_sentences(self, first: Row, second: Row) -> bool:
        """Return whether two rows translate the same sentences, so that a significance test can compare them."""
        if not (first.is_scored and second.is_scored) or self.test_of(first) != self.test_of(second):
            return False
        return bool({*self.text(first).pairs} & {*self.text(second).pairs})

    @model_validator(mode="after")
    def _tests_are_used(self) -> Self:
        used = {self.test_of(row) for row in self.rows}
        if unused := [test for test in self.tests if test not in used]:
            with at_place("tests", self.tests.index(unused[0])):
                raise ValueError(f"no row is scored on {', '.join(unused)}; leave it out")
        return self


def load_table(path: Path) -> Table:
    """Read a table file and merge its ``defaults``, and parents (`nmt.config.inherit`), into each system, key by key.

    Raises:
        ConfigError: as `nmt.config.yaml.parse` does; or a parent does not exist.
    """
    table = _read(path)
    systems = with_subwords_of_parents(path, table.systems, lambda other: _read(other).systems)
    return table.model_copy(update={"systems": systems, "rows": list(_rows_by_pair(table))})


def _read(path: Path) -> Table:
    """Read a table file; its systems have subwords of their own."""
    text = read_config(path)
    value = load_yaml(text, str(path))
    if isinstance(value, dict) and isinstance(value.get("systems"), dict):
        value["systems"] = read_systems(path, value)
    return validate(Table, value, text, str(path))


def _rows_by_pair(table: Table) -> Iterator[Row]:
    """Yield the rows; in place of one for all pairs of its system, a row for each pair."""
    for row in table.rows:
        trained = table.systems[table.text_system(row) or ""].pairs if row.is_scored else []
        pairs = [row.pair or pair for pair in trained] if len(trained) > 1 else [None]
        yield from (row.model_copy(update={"pair": pair}) for pair in dict.fromkeys(pairs))
