"""The steps of the page on new metrics, done in a copy of the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-a-metric.md"
PLACES = [  # of the page's blocks, in their order: the module, and what follows the new lines there
    ("config/choices.py", '"chrfpp",'),
    ("scoring/score.py", "return standard"),
    ("config/table.py", "chrfpp: Score"),
    ("report/grids.py", '"chrfpp":'),
]


def python(folder: Path, *words: object) -> str:
    command = [sys.executable, *map(str, words)]
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'docs'}"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.integration
def test_its_steps_add_a_metric(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    *blocks, test = map(dedent, re.findall(r" ```(?:python|text)\n(.*?)```", page, re.DOTALL))
    shutil.copytree(ROOT / "nmt", tmp_path / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
    for (module, following), lines in zip(PLACES, blocks, strict=True):
        path = tmp_path / "nmt" / module
        text = path.read_text(encoding="utf-8")
        assert f"nmt/{module}" in page and text.count(following) == 1
        path.write_text(text.replace(following, f"{lines}    {following}"), encoding="utf-8")
    (tmp_path / "test_chrf1.py").write_text(test, encoding="utf-8")
    (tmp_path / "text").write_text("a red ball .\n", encoding="utf-8")
    assert "1 passed" in python(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "test_chrf1.py")
    options = ["text", "--reference", "text", "--also", "chrf1"]
    assert "\nchrF1 " in python(tmp_path, "-m", "nmt", "score", *options)
    assert "\nchrF1 " in python(tmp_path, "-m", "nmt", "compare", "text", *options)
    python(tmp_path, "-c", "from nmt.config.table import Published; Published(chrf1=50)")
    assert "| `chrf1` |" in python(tmp_path, "-c", "from generate import configuration; print(configuration())")
