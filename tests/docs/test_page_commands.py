"""The commands in README.md and in the tutorial run as they are written, top to bottom, in a fresh clone."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import parse
from snakes import ROOT

PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-model.md"]
NOT_HERE = re.compile(r"# needs |^make test\b")  # `make test` is what runs this


def blocks(page: Path) -> list[str]:
    """The page's blocks of commands, without the lines that say what they need."""
    found = re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return ["\n".join(line for line in block.splitlines() if not NOT_HERE.search(line)) for block in found]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_nmt_command_parses(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a command makes the folder of its output's lock
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"```(?:bash|sh)\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            for command in re.findall(r"(?:^|\| ?)nmt ([a-z][^|>]*)", line.strip()):
                parse(shlex.split(command.replace("…", "x"), comments=True))


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {".venv/.dev"}
    for page in [*pages(), ROOT / "CONTRIBUTING.md"]:
        for block in re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for target in re.findall(r"^make ([a-z./-]+)", block, re.MULTILINE):
                assert target in targets, f"{page}: make {target}"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_commands_run_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    (clone / ".venv").symlink_to(sys.prefix)
    for lock in ("run", "ui", "dev"):
        (clone / ".venv" / f".{lock}").touch()
    env = {**os.environ, "PYTHONPATH": str(clone), "OMP_NUM_THREADS": "1"}
    for page in PAGES:
        script = "\n".join(["set -euo pipefail", "source .venv/bin/activate", *blocks(page)])
        script = script.replace("/tmp/", f"{tmp_path}/")  # where earlier runs may have left something
        done = subprocess.run(
            ["bash", "-c", script], cwd=clone, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode == 0, f"{page}:\n{done.stdout[-4000:]}"
    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == ""
