"""`container:` of config.yaml, and the Dockerfile that makes such an image."""

import re
from pathlib import Path

import pytest
from snakes import ROOT, TABLE, Project

APPTAINER = """#!/bin/bash
if [ "$1" = --version ]; then echo "apptainer version 1.3.6"; exit; fi
echo "$@" >> {log}
exec bash -c "${{@: -1}}"
"""
"""Stands for Apptainer: it keeps its arguments, and runs the command outside an image."""


@pytest.mark.integration
def test_jobs_run_in_the_image_that_the_configuration_names(tmp_path: Path) -> None:
    image, log, program = tmp_path / "nmt.sif", tmp_path / "calls", tmp_path / "bin" / "apptainer"
    image.touch()
    program.parent.mkdir()
    program.write_text(APPTAINER.format(log=log))
    program.chmod(0o755)
    for container, calls in ((str(image), 1), (None, 0)):
        log.unlink(missing_ok=True)
        project = Project(tmp_path / str(calls), {"toy": TABLE}, container=container, limit=20)
        project.env["PATH"] = f"{program.parent}:{project.env['PATH']}"
        done = project.snakemake("--sdm", "apptainer", "--", "results/corpora/scenes-first20/en-de/raw")
        assert done.returncode == 0, done.stdout
        called = log.read_text().splitlines() if log.exists() else []
        assert len([line for line in called if f"{image} " in line and "nmt download scenes en-de" in line]) == calls


def _stages() -> dict[str, list[str]]:
    """The instructions of each stage of the Dockerfile."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    stages: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if match := re.match(r"FROM \S+ AS (\S+)", line):
            stages[match[1]] = instructions = []
        elif line and stages:
            instructions.append(" ".join(line.split()))
    return stages


def test_images_run_as_a_user_and_without_a_compiler_or_pips_cache() -> None:
    stages = _stages()
    assert list(stages)[-1] == "run"  # what `docker build .` makes
    for name in ("run", "translate"):
        assert stages[name].index("USER nmt") > max(
            number for number, line in enumerate(stages[name]) if line.startswith(("RUN", "COPY"))
        )
    assert "ENV PIP_NO_CACHE_DIR=1" in stages["source"]
    assert not [line for lines in stages.values() for line in lines if "apt" in line.split()]


def test_what_the_image_copies_is_in_the_checkout_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    copied = [
        word for lines in _stages().values() for line in lines if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1] if not word.startswith("--")
    ]  # fmt: skip
    assert {"envs", "nmt", "pyproject.toml", "setup.py", "."} <= set(copied)
    assert all((ROOT / name).exists() and name not in ignored for name in copied)
    assert ".venv" in ignored and ".git" in ignored
