"""Every system of every table keeps its folders and its identity, so that results of earlier versions stay valid."""

import json
from pathlib import Path

from snakes import ROOT

from nmt.config.table import load_table
from nmt.plan.layout import Layout, decoding_slug
from nmt.plan.systems import experiment
from nmt.system.files import digest

COMMITTED = Path(__file__).with_name("digests.json")


def current() -> dict[str, dict[str, list[str]]]:
    """By table and system: the folder of its encoded text, a digest of its experiment, and of each of its decodings."""
    layout, tables = Layout(Path()), {}
    for path in sorted((ROOT / "workflow" / "tables").glob("*.yaml")):
        table = load_table(path)
        tables[path.stem] = {
            name: [
                str(layout.encoded(system)),
                digest(experiment(system)),
                *sorted({decoding_slug(row.decoding) for row in table.rows_of(name)}),
            ]
            for name, system in table.systems.items()
        }
    return tables


def test_digests_are_those_of_the_committed_results() -> None:
    """A new table or system is added with ``python tests/plan/test_digests.py``; an old one never changes."""
    assert current() == json.loads(COMMITTED.read_text())


if __name__ == "__main__":
    COMMITTED.write_text(json.dumps(current(), indent=2) + "\n")
