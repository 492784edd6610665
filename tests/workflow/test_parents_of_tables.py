"""The rules of systems that start from a trained model: what runs first, and what runs again after which change."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from snakes import ROOT, SYSTEM, Project, jobs

from nmt.config.data import Subwords
from nmt.system.files import read_json, write_json


def table(folder: str, **parent: Any) -> dict[str, Any]:
    systems = {
        "parent": {**SYSTEM, **parent},
        "child": {**SYSTEM, "initialise": {"system": "parent", "at": "last"}},
        "of_folder": {**SYSTEM, "initialise": {"folder": folder}, "cleaning": {"max_words": 50}},
    }
    rows = [{"label": name, "system": name} for name in ("child", "of_folder")]
    return {"caption": "Children", "tests": ["test"], "systems": systems, "rows": rows}


def write_model(folder: Path, weights: str) -> None:
    """The JSON files of a model directory."""
    write_json(folder / "config.json", {"model": {}, "vocabulary": {"source": 300, "target": 300}})
    write_json(folder / "cleaning.json", {"cleaning": {"lowercase": False}, "languages": "en-de"})
    learned = {"subwords": Subwords(size=300).model_dump(), "vocab_sha256": {"source": "a" * 64, "target": "a" * 64}}
    write_json(folder / "provenance.json", {"subwords": learned, "weights_sha256": weights})


def trained(output: str) -> set[str]:
    return set(re.findall(r"^rule train:.*?wildcards: table=one, system=(\w+)", output, re.DOTALL | re.MULTILINE))


@pytest.mark.integration
def test_parents_run_first_and_only_their_content_counts(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    project = Project(folder, {"one": table("my models/a")})
    project.env["BASH_FUNC_nmt%%"] = f'() {{ "{sys.executable}" "{ROOT}/tests/helpers/stub.py" "$@"; }}'
    write_model(folder / "my models" / "a", "b" * 64)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    ran = jobs(done.stdout)
    assert {rule: ran[rule] for rule in ("subwords", "inherit_subwords", "encode", "train", "average")} == {
        "subwords": 1, "inherit_subwords": 1, "encode": 2, "train": 3, "average": 3,
    }  # fmt: skip
    assert '"lowercase": false, "max_words": 50' in done.stdout and "b" * 64 in done.stdout
    (folder / "my models" / "a").rename(folder / "moved")
    project.write("workflow/tables/one.yaml", table("moved"))
    assert jobs(project.snakemake("--dry-run").stdout) == {
        "report": 1,
        "track_table": 1,
        "all": 1,
    }  # the table's file has changed
    made = read_json(folder / "moved" / "provenance.json")
    write_json(folder / "moved" / "provenance.json", made | {"weights_sha256": "c" * 64})
    assert trained(project.snakemake("--dry-run").stdout) == {"of_folder"}
    project.write("workflow/tables/one.yaml", table("moved", seeds=[4]))
    assert trained(project.snakemake("--dry-run").stdout) == {"parent", "child", "of_folder"}
