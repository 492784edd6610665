"""JSON schemas of the files that users write; editors use them to complete and check keys."""

from typing import Any

from nmt.config.cluster import Cluster
from nmt.config.system import System
from nmt.config.table import TableFile
from nmt.config.workflow import Workflow

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """Return the schema of each kind of file: ``cluster``, ``config`` and ``table``."""
    return {"cluster": Cluster.model_json_schema(), "config": Workflow.model_json_schema(), "table": _table()}


def _table() -> Schema:
    """Return the schema of a table; no key of a system is required, because ``defaults`` can give it."""
    table, system = TableFile.model_json_schema(), _without_required(System.model_json_schema())
    table["$defs"] = system.pop("$defs") | table["$defs"] | {"System": system}
    named = table["properties"]["systems"]["patternProperties"]
    for place in (table["properties"]["defaults"], *named.values()):
        place["$ref"] = "#/$defs/System"
    return table


def _without_required(schema: Any) -> Any:
    """Remove every ``required``. Then several alternatives can match, so ``oneOf`` becomes ``anyOf``."""
    if isinstance(schema, list):
        return [_without_required(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        "anyOf" if key == "oneOf" else key: _without_required(value)
        for key, value in schema.items()
        if key != "required"
    }
