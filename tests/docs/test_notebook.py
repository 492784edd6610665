"""The notebook runs from top to bottom, and learns what it shows."""

import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial" / "try.ipynb"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_notebook_runs_and_draws_where_the_model_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(shutil.copy(NOTEBOOK, tmp_path), as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "Deux oiseaux noirs" in printed
    curves = [float(bleu) for bleu in re.findall(r"  valid  .*BLEU ([\d.]+)", printed)]
    assert len(curves) == 12 and curves[-1] > 60
    pictures = [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2 and (tmp_path / "try" / "attention" / "source.png").stat().st_size > 5000


def test_the_notebook_is_committed_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]
