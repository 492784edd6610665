"""Read the settings and the tables, and look names up in them."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from nmt.config.problems.words import nearest
from nmt.config.table import Table, load_table
from nmt.config.types import check_name
from nmt.config.workflow import Workflow
from nmt.config.yaml import load_yaml, parse, read_config, validate
from nmt.plan.layout import table_path
from nmt.system.errors import ConfigError, DataError

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def or_exit(function: Callable[Arguments, Value], *arguments: Arguments.args, **named: Arguments.kwargs) -> Value:
    """Call a function; exit with the message of an error that users can fix; Snakemake would show its traceback."""
    try:
        return function(*arguments, **named)
    except (ConfigError, DataError) as error:
        sys.exit(f"{_command(sys.argv[1:])}: {error}")


def _command(words: Sequence[str]) -> str:
    """Return ``snakemake``, with the ``--directory`` where the paths of a message start."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("-d", "--directory")
    folder = parser.parse_known_args(words)[0].directory
    return f"snakemake --directory {folder}" if folder else "snakemake"


def check_readable(where: str) -> None:
    """Reject a settings file that is not YAML before Snakemake reads it; raises ConfigError."""
    if Path(where).exists() and not isinstance(load_yaml(read_config(Path(where)), where), dict):
        raise ConfigError(
            f"{where}: expected keys and their values, got none; the project's own file explains each key"
        )


def check_config_files(words: Sequence[str]) -> None:
    """Reject a file of ``--configfile`` that Snakemake could not read; raises ConfigError.

    Args:
        words: of Snakemake's command line.
    """
    option = ""
    for word in words:
        if word.startswith("-"):
            option, _, word = word.partition("=")
        if word and option in ("--configfile", "--configfiles"):
            read_config(Path(word))
            check_readable(word)


def load_settings(settings: Mapping[str, Any], where: str) -> Workflow:
    """Validate the settings; an error names the file, or ``--config`` where the file alone is correct.

    Args:
        settings: the content of the file, with the values of the command line laid over it.
        where: the file.

    Raises:
        ConfigError: as `nmt.config.yaml.validate` does; or the results folder cannot be one.
    """
    text, settings = read_config(Path(where)), _with_words(settings)
    try:
        valid = validate(Workflow, settings, text, where)
    except ConfigError:
        with suppress(ConfigError):
            parse(Workflow, text, where)
            text, where = "", "--config"
        valid = validate(Workflow, settings, text, where)
    results = Path(valid.results)
    file = next((path for path in (results, *results.parents) if path.exists() and not path.is_dir()), None)
    if file:
        raise ConfigError(f"results: {results}: expected a folder, or one that can be made; {file} is a file")
    return valid


def _with_words(value: Any) -> Any:
    """Return settings whose keys are all words: Snakemake reads a key such as 2016 as a number."""
    if isinstance(value, Mapping):
        return {str(key) if type(key) is int else key: _with_words(each) for key, each in value.items()}
    return [_with_words(each) for each in value] if isinstance(value, list) else value


def load_tables(names: Iterable[str], requested: Container[str]) -> dict[str, Table]:
    """Load tables by name; warn about a faulty one and leave it out, unless it is requested.

    Raises:
        ConfigError: a requested table has no file, or the file is wrong.
    """
    tables = {}
    for name in names:
        try:
            check_table_name(name, str(table_path(name)))
            tables[name] = load_table(table_path(name))
        except ConfigError as error:
            if name in requested:
                raise
            print(f"warning: {error}; this table is left out", file=sys.stderr)
    return tables


def check_table_name(name: str, where: str) -> None:
    """Raise ConfigError unless a table's name is safe in paths and commands, and its targets are its own."""
    check_name(name, where)
    if name == "environment":
        raise ConfigError(f"{where}: expected another name, because comet_environment installs COMET; rename the table")


def choose(what: str, name: str, known: Mapping[str, Value]) -> Value:
    """The value of a name; raises ConfigError with the nearest name."""
    if name in known:
        return known[name]
    names = ", ".join(known) or "(none exists)"
    raise ConfigError(f"{what} '{name}'{nearest(name, list(known))}; expected one of: {names}")
