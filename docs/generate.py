"""Write configuration.md and commands.md into docs/reference, or elsewhere: python docs/generate.py [FOLDER]."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from nmt.cli.main import main as cli
from nmt.config.cluster import Cluster
from nmt.config.system import System
from nmt.config.table import TableFile
from nmt.config.workflow import Workflow

Schema = dict[str, Any]
TABLE = {"`workflow/tables/TABLE.yaml`": TableFile, "A system of a table": System}
FILES = {"`config.yaml`": Workflow, **TABLE, "`cluster.yaml`": Cluster}
WORDS = {"letters, digits, _ . -": "name", "an ISO 639 code, e.g. de, zh_Hant or pt_BR": "language"}
WORDS |= {"boolean": "`true` or `false`", "null": "`null`", "string": "text"}
CONFIGURATION = """# Configuration

Every key of `config.yaml`, of the tables in `workflow/tables/` and of `cluster.yaml`. A name has letters, digits, `_`,
`.` and `-`. A language is an ISO 639 code of two or three small letters. A script and a region may follow it, as in
`zh_Hant` and `pt_BR`. The default `{}` stands for no entry, or for a group of keys with their own defaults. An unknown
key or value is an error. It names the file, the line and the nearest allowed word. `make reference` writes this page
from `nmt/config/`."""
COMMANDS = """# Commands

Every command and option of `nmt`, as in `nmt COMMAND --help`. `make reference` writes this page from `nmt/cli/`."""


def configuration() -> str:
    """Return the page of every configuration key, with a section for each group of keys."""
    titles: dict[str, str] = {}
    parts = [CONFIGURATION]
    for title, model in FILES.items():
        schema = model.model_json_schema()
        groups = list(_groups(schema, schema.get("$defs", {}), titles))
        parts += [f"## {title}", _section(schema, schema, titles)]
        for name in groups:
            parts += [f"### {titles[name]}", _section(schema["$defs"][name], schema, titles)]
    return "\n\n".join(parts) + "\n"


def _groups(group: Schema, models: Schema, titles: dict[str, str], place: str = "", kind: str = "") -> Iterator[str]:
    """Yield the names of the groups of keys below ``group`` that have no title yet; title them by their place."""
    for key, value in group["properties"].items():
        inner = place + key + (".NAME" if "patternProperties" in value else "")
        for name in _references(value):
            if name not in titles:
                own = models[name]["properties"].get("kind", {}).get("const")
                inner_kind = f" of kind `{own}`" if own else kind
                titles[name] = f"`{inner}`{inner_kind}"
                yield name
                yield from _groups(models[name], models, titles, f"{inner}.", inner_kind)


def _section(group: Schema, schema: Schema, titles: dict[str, str]) -> str:
    """Describe a group of keys, and list them in a table."""
    rows = []
    for key, value in group["properties"].items():
        if "description" not in value:
            sys.exit(f"{group['title']}.{key}: expected a description, got none; write Field(…, description=…)")
        default = "required" if key in group.get("required", []) else f"`{_default(value, schema)}`"
        rows.append([f"`{key}`", _kind(value, titles), default, _text(value["description"])])
    return f"{_text(group['description'].replace('``', '`'))}\n\n{_table('key value default meaning', rows)}"


def _default(value: Schema, schema: Schema) -> str:
    """Show a default as YAML; of a group of keys only what differs from that group's own defaults."""
    default = value.get("default", {})
    if isinstance(default, dict) and default:
        own = schema["$defs"][_references(value)[0]]["properties"]
        default = {key: given for key, given in default.items() if given != own[key].get("default")}
    return default if isinstance(default, str) else json.dumps(default).replace('"', "")


def _references(value: Schema) -> list[str]:
    return re.findall(r'"#/\$defs/(\w+)"', json.dumps(value))


def _kind(value: Schema, titles: dict[str, str]) -> str:
    """Say in words what a key may hold."""
    if "$ref" in value:
        return _link(titles[_references(value)[0]])
    if options := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(_kind(option, titles) for option in options)
    if options := value.get("enum") or [value[key] for key in ("const",) if key in value]:
        return ", ".join(f"`{option}`" for option in options)
    if value["type"] == "array":
        return f"list: {_kind(value.get('items') or value['prefixItems'][0], titles)}"
    if value["type"] == "object":
        if value.get("additionalProperties") is True:
            return _link("A system of a table")
        inner = next(iter(value.get("patternProperties", {}).values()), value.get("additionalProperties"))
        return f"map: {_kind({'type': 'string'} | value.get('propertyNames', {}), titles)} → {_kind(inner, titles)}"
    expected = value.get("patternErrorMessage") or value.get("format") or value["type"]
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {value[key]:g}" for key, sign in signs.items() if abs(value.get(key, 1e9)) < 1e9]
    return _text(f"{WORDS.get(expected, expected)} {', '.join(bounds)}".strip())


def commands() -> str:
    """Return the page of every command."""
    return "\n\n".join([COMMANDS, *_commands(cli, click.Context(cli, info_name="nmt"))]) + "\n"


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the sections of a command and of its sub-commands."""
    yield f"## `{context.command_path}`"
    yield _text(re.sub(r"\n +", "\n", command.help or "").strip())
    yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    options = [_option(each, context) for each in command.params if isinstance(each, click.Option)]
    if options:
        yield _table("option value default meaning", options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from _commands(inner, click.Context(inner, info_name=name, parent=context))


def _option(option: click.Option, context: click.Context) -> list[str]:
    """Name, value, default and meaning of an option."""
    limits, choices = option.get_help_extra(context).get("range"), getattr(option.type, "choices", None)
    value = option.metavar or option.type.name.removesuffix(" range") + (f", {limits}" if limits else "")
    value = ", ".join(f"`{choice}`" for choice in choices) if choices else "" if option.is_flag else value
    default = shown if isinstance(shown := option.show_default, str) else option.to_info_dict()["default"]
    if option.secondary_opts and isinstance(default, bool):
        default = (option.opts if default else option.secondary_opts)[0].removeprefix("--")
    default = "required" if option.required else "" if default in (None, False, ()) else f"{default}"
    names = ", ".join(f"`{name}`" for name in option.opts + option.secondary_opts)
    return [names, value, _text(default), _text(option.help or "")]


def _table(head: str, rows: Sequence[Sequence[str]]) -> str:
    lines = [head.split(), ["---"] * len(head.split()), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _link(title: str) -> str:
    return f"[{title}](#{re.sub(r'[^-_ a-z]', '', title.lower()).replace(' ', '-')})"


def _text(text: str) -> str:
    """Escape Markdown's signs, and link the pages that the text names."""
    text = re.sub(r"(`[^`]*`)|([<*_])", lambda match: match[1] or f"\\{match[2]}", text)
    return re.sub(r"docs/(([\w-]+)/[\w-]+\.md)", r"[\1](../\1)", text)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "reference"
    (folder / "configuration.md").write_text(configuration(), encoding="utf-8")
    (folder / "commands.md").write_text(commands(), encoding="utf-8")
