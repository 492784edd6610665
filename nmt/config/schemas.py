"""JSON schemas of the files that users write, by which editors complete and check them."""

from typing import Any

from nmt.config.cluster import Cluster
from nmt.config.system import System
from nmt.config.table import TableFile
from nmt.config.workflow import Workflow

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """The schema of each kind of file, by its name."""
    return {"cluster": Cluster.model_json_schema(), "config": Workflow.model_json_schema(), "table": _table()}


def _table() -> Schema:
    """That of a table, whose systems may leave to its ``defaults`` any key that they do not give themselves."""
    table, system = TableFile.model_json_schema(), _in_parts(System.model_json_schema())
    table["$defs"] = system.pop("$defs") | table["$defs"] | {"System": system}
    named = table["properties"]["systems"]["patternProperties"]
    for place in (table["properties"]["defaults"], *named.values()):
        place["$ref"] = "#/$defs/System"
    return table


def _in_parts(schema: Any) -> Any:
    """The same with no key required, so that more than one of its alternatives may fit."""
    if isinstance(schema, list):
        return [_in_parts(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {"anyOf" if key == "oneOf" else key: _in_parts(value) for key, value in schema.items() if key != "required"}
