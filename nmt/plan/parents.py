"""Checks of the parents that systems of a table start from."""

from collections.abc import Mapping

from nmt.config.data import InheritedSubwords
from nmt.config.inherit import ModelFolder, why_unfit
from nmt.config.models import ModelConfig
from nmt.config.selection import why_not_kept
from nmt.config.system import System
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.corpora.catalogue import check_known, check_trainable
from nmt.corpora.own import check_files
from nmt.plan.layout import table_path
from nmt.plan.load import choose
from nmt.system.errors import ConfigError


def check_parents(name: str, tables: Mapping[str, Table], settings: Workflow, own_files: bool) -> None:
    """Reject a system whose parent is of another kind or width, lacks the checkpoint, or cannot be trained.

    Args:
        name: the table's.
        tables: every table; parents may be in others.
        settings: the workflow's.
        own_files: whether the user's own text must exist.

    Raises:
        ConfigError: a parent does not fit.
    """
    for key, system in tables[name].systems.items():
        if system.initialise:
            where = f"{table_path(name)}: systems.{key}.initialise"
            model, languages = _parent(where, system, tables, settings, own_files)
            if why := why_unfit(system.model, model):
                raise ConfigError(f"{where}: {why}")
            _check_languages(where, system, languages)


def _parent(
    where: str, system: System, tables: Mapping[str, Table], settings: Workflow, own_files: bool
) -> tuple[ModelConfig, str]:
    """The model and the languages of a parent."""
    assert system.initialise
    if system.initialise.folder:
        folder = ModelFolder.read(system.initialise.folder)
        return folder.model, folder.languages
    table, name = system.initialise.parent
    parent = choose(f"{where}.system: no table", table, tables).systems[name]
    if why := why_not_kept(system.initialise.at, parent.training):
        raise ConfigError(f"{where}.at: '{system.initialise.at}' is not kept by {table}/{name}: {why}")
    custom = settings.corpora.get(parent.corpus)
    try:
        check_known(parent.corpus, settings.corpora)
        for one in parent.by_pair:
            check_trainable(parent.corpus, one.languages, custom)
            if custom and own_files:
                check_files(parent.corpus, custom, one.languages)
    except ConfigError as error:
        raise ConfigError(f"{table_path(table)}: systems.{name}: {error}") from None
    return parent.model, parent.languages


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
