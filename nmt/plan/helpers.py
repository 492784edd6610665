"""Systems that others need: parents, and those that translate or score their text."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from nmt.config.data import InheritedSubwords
from nmt.config.inherit import ModelFolder, why_unfit
from nmt.config.models import ModelConfig
from nmt.config.selection import START
from nmt.config.system import AddedText, System, why_unselectable
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.corpora.catalogue import check_known, check_trainable
from nmt.corpora.own import check_files
from nmt.plan.layout import table_path
from nmt.plan.load import choose
from nmt.system.errors import ConfigError

SystemKey = tuple[str, str]
"""Table and name of a system."""


def check_parents(name: str, tables: Mapping[str, Table]) -> None:
    """Reject a system whose parent is of another kind or width, or lacks the checkpoint."""
    for key, system in tables[name].systems.items():
        if system.initialise:
            where = f"{table_path(name)}: systems.{key}.initialise"
            model, languages = _parent(where, system, tables)
            if why := why_unfit(system.model, model):
                raise ConfigError(f"{where}: {why}")
            if _layers(system.model) != _layers(model):
                _check_no_start(name, key, tables[name])
            _check_languages(where, system, languages)


def _parent(where: str, system: System, tables: Mapping[str, Table]) -> tuple[ModelConfig, str]:
    """The model and the languages of a parent."""
    assert system.initialise
    if system.initialise.folder:
        folder = ModelFolder.read(system.initialise.folder)
        return folder.model, folder.languages
    table, name = system.initialise.parent
    parent = choose(f"{where}.system: no table", table, tables).systems[name]
    if why := why_unselectable(system.initialise.at, parent):
        raise ConfigError(f"{where}.at: '{system.initialise.at}' is not kept by {table}/{name}: {why}")
    return parent.model, parent.languages


def _check_no_start(name: str, key: str, table: Table) -> None:
    """Reject rows at ``start`` of a system that has other layers than its parent."""
    for row in table.rows_of(key):
        if row.at.endswith(START):
            raise ConfigError(
                f"{table_path(name)}: row '{row.label}': at: '{row.at}' needs the layers of the weights that {key} "
                "starts from, got other ones; choose another at"
            )


def _layers(model: ModelConfig) -> tuple[int, int]:
    layers = getattr(model, "layers", 0)
    return layers, getattr(model, "decoder_layers", None) or layers


def _check_languages(where: str, system: System, languages: str) -> None:
    """Reject subwords of other languages; one vocabulary for both sides serves both directions.

    Subwords of several pairs have a tag for each target language, so these are the only ones that they can serve.
    """
    wanted, known = system.pairs, languages.split(",")
    same = {code for pair in wanted for code in pair.split("-")} <= {code for pair in known for code in pair.split("-")}
    tagged = {pair.split("-")[1] for pair in wanted} <= {pair.split("-")[1] for pair in known}
    several = len(known) > 1
    fits = system.languages == languages or (
        same and system.subwords.joint and (tagged if several else len(wanted) == 1)
    )
    if isinstance(system.subwords, InheritedSubwords) and not fits:
        raise ConfigError(
            f"{where}: expected a parent with subwords of {system.languages}, got one of {languages}; give "
            "initialise: {own_subwords: true}, or other subwords"
        )


def check_helpers(
    name: str, tables: Mapping[str, Table], settings: Workflow, own_files: bool, where: str | None
) -> None:
    """Reject a table that needs a system whose corpus is unknown, has no training text, or lacks files.

    Args:
        name: the table's.
        tables: every table; helpers may be in others.
        settings: the workflow's.
        own_files: whether the user's own text must exist.
        where: the settings' file, for messages.

    Raises:
        ConfigError: names the helper and what is wrong with its corpus.
    """
    first = dict[SystemKey, System]()
    for key, system in tables[name].systems.items():
        first |= _helpers(name, key, system, tables)
    for (table, key), helper in with_helpers(first, tables).items():
        try:
            check_known(helper.corpus, settings.corpora)
            for text in helper.by_pair:
                check_trainable(text.corpus, text.languages, settings.corpora.get(text.corpus))
            if own_files:
                check_own_files([helper], settings, where)
        except ConfigError as error:
            raise ConfigError(f"{table_path(table)}: systems.{key}: {error}") from None


def check_own_files(systems: Iterable[System], settings: Workflow, where: str | None = None) -> None:
    """Reject a user's own text whose files do not exist, or have paths that Snakemake misreads.

    Args:
        systems: those whose text must exist.
        settings: declare the user's own corpora.
        where: the settings' file, for messages.

    Raises:
        ConfigError: names the file, and where it is declared.
    """
    for system in systems:
        for text in (*system.by_pair, *(mixture.text_to_translate for mixture in system.mixtures)):
            if custom := settings.corpora.get(text.corpus):
                check_files(text.corpus, custom, text.languages, where)
                for path in custom.local:
                    if why := why_misread(path):
                        raise ConfigError(f"corpora.{text.corpus}: {path}: {why}")


def why_misread(path: Path) -> str | None:
    """Return why Snakemake misreads a path, or None if it does not."""
    if {"{", "}"} & set(str(path)):
        return "expected a path without { and }, in which Snakemake sees wildcards; rename it, or link to it"
    return None


def place_of_added(table: str, name: str, system: System) -> str:
    """The key of a table file that adds text to a system, for messages."""
    return f"{table_path(table)}: systems.{name}.{system.added_direction}_translation"


def translator(where: str, added: AddedText, tables: Mapping[str, Table]) -> System:
    """The system that translates text to add; raises ConfigError."""
    table = choose(f"{where}.model: no table", added.table, tables)
    return choose(f"{where}.model: no system", added.system, table.systems)


def with_helpers(systems: Mapping[SystemKey, System], tables: Mapping[str, Table]) -> dict[SystemKey, System]:
    """Systems, those that must be trained before them, those before these, and so on."""
    reached, waiting = dict(systems), list(systems.items())
    while waiting:
        (table, name), system = waiting.pop()
        new = {key: helper for key, helper in _helpers(table, name, system, tables).items() if key not in reached}
        reached |= new
        waiting += new.items()
    return reached


def _helpers(table: str, name: str, system: System, tables: Mapping[str, Table]) -> dict[SystemKey, System]:
    """The systems that translate text for a system or score its text, and the parent that it starts from."""
    helpers = {}
    for mixture in system.mixtures:
        assert mixture.added
        key = (mixture.added.table, mixture.added.system)
        helpers[key] = translator(place_of_added(table, name, mixture), mixture.added, tables)
    for scorer in (scorer for scores in system.cleaning.scores for scorer in scores.scorers):
        helpers[scorer] = choose("no system", scorer[1], choose("no table", scorer[0], tables).systems)
    if system.initialise and system.initialise.system:
        table, name = system.initialise.parent
        helpers[table, name] = choose("no table", table, tables).systems[name]
    return helpers
