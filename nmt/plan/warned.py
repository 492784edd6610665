"""The outputs that a table is made from, and their warnings."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nmt.config.models import MultimodalConfig
from nmt.config.system import System
from nmt.config.table import Row, Table
from nmt.corpora.catalogue import TRAINING, with_corpus_of
from nmt.plan.helpers import with_helpers
from nmt.plan.layout import Layout
from nmt.plan.plan import Plan
from nmt.system.warnings import StageWarning, read_warnings


def row_warnings(name: str, table: Table, row: Row, layout: Layout, seeds: Sequence[int]) -> list[StageWarning]:
    """Return the distinct warnings of everything that a scored row is made from.

    Args:
        name: of the table.
        table: its systems and rows.
        row: a row with a system, or with another system's translations.
        layout: of the results folder.
        seeds: of systems that name no seeds.

    Raises:
        DataError: a record of warnings is damaged.
    """
    return _warnings(_outputs_of_row(name, table, row, layout, seeds), table.test_of(row))


def table_warnings(plan: Plan, name: str) -> list[StageWarning]:
    """Return the distinct warnings of everything that the files of a table's target are made from."""
    table, layout = plan.table(name), plan.layout
    scored = [row for row in table.rows if row.is_scored]
    found = [w for row in scored for w in row_warnings(name, table, row, layout, plan.settings.seeds)]
    systems = {(name, row.system): table.systems[row.system] for row in table.rows if row.system}
    for system in with_helpers(systems, plan.tables).values():
        found += _warnings(_outputs_of_text(system, layout))
    return list(dict.fromkeys([*found, *_warnings([layout.figures(name), *map(Path, plan.markers(name))])]))


def _warnings(outputs: Iterable[Path], test: str = "") -> list[StageWarning]:
    """Return the distinct warnings of some outputs, without those about other test sets."""
    splits = ("", *TRAINING, test)
    found = (warning for output in outputs for warning in read_warnings(output) if warning.split in splits)
    return list(dict.fromkeys(found))


def _outputs_of_row(name: str, table: Table, row: Row, layout: Layout, seeds: Sequence[int]) -> Iterator[Path]:
    system, test = table.text(row), table.test_of(row)
    tested = with_corpus_of(system, test)
    if row.system:
        yield from _outputs_of_text(table.systems[row.system], layout)
    yield from (*layout.texts(tested, test), layout.sample(system), *_features(tested, [test], layout))
    for model in table.models_of(row, seeds):
        if row.system:
            yield from _outputs_of_model(layout, name, row.system, model, row.at)
        folder = layout.scores(name, row, test, model)
        yield from (folder / "hypotheses.txt", folder / "scores.json")


def _outputs_of_text(system: System, layout: Layout) -> Iterator[Path]:
    """Yield what a system is trained on, with the models that translated a part of it, and its parent of any seed."""
    if system.initialise and system.initialise.system:
        table, parent = system.initialise.parent
        for run in sorted((layout.runs(table) / parent).glob("seed*")):
            yield from _outputs_of_model(layout, table, parent, run.name.removeprefix("seed"), system.initialise.at)
    yield from (layout.raw(text.without_added()) for text in system.by_pair)
    for mixture in system.mixtures:
        assert mixture.added
        added = mixture.added
        yield from _outputs_of_model(layout, added.table, added.system, added.seed, added.at)
        yield from (layout.raw(mixture.text_to_translate), layout.translations(mixture) / "translations.txt")
        yield layout.raw(mixture)
    yield from (*map(layout.clean, system.by_pair), layout.subwords(system), layout.encoded(system))
    yield from _features(system, TRAINING, layout)


def _outputs_of_model(layout: Layout, table: str, system: str, seed: int | str, at: str) -> Iterator[Path]:
    """Yield the trainings and model directories of a model, or of an ensemble's members (seed ``1-2-3``)."""
    for member in (*str(seed).split("-"), seed):
        yield from (layout.run(table, system, member) / "training.json", layout.selected(table, system, member, at))


def _features(system: System, splits: Iterable[str], layout: Layout) -> list[Path]:
    if not isinstance(system.model, MultimodalConfig):
        return []
    return [layout.features(system.corpus, system.model.backbone) / f"{split}.npy" for split in splits]
