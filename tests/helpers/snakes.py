"""A folder of its own for Snakemake to run this project's workflow in."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import guards
import stages
import yaml
from forks import FORKS, start

ROOT = Path(__file__).parent.parent.parent
SYSTEM = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 2}}
TABLE: dict[str, Any] = {
    "caption": "Two systems that share their data",
    "tests": ["test"],
    "systems": {"small": SYSTEM, "large": {**SYSTEM, "model": {"layers": 8}}},
    "rows": [
        {"label": "small", "system": "small", "at": "best"},
        {"label": "small, averaged", "system": "small", "at": "average best 2"},
        {"label": "large", "system": "large", "at": "epoch 1"},
        {"label": "somebody's", "published": {"bleu": 30.0}},
    ],
}


class Project:
    """A folder with ``config.yaml`` and ``workflow/tables/``, as a user's would be."""

    def __init__(self, folder: Path, tables: dict[str, object], **settings: object) -> None:
        self.folder = folder
        self.env = {**os.environ, "OMP_NUM_THREADS": "1"}
        for name, table in tables.items():
            self.write(f"workflow/tables/{name}.yaml", table)
        self.write("config.yaml", {"tables": list(tables), "device": "cpu", **settings})

    def write(self, name: str, value: object) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(value))

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        return run_snakemake([*where, "--cores", "2", *arguments], self.env)


def run_snakemake(arguments: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in a process of its own; messages of errors are part of its output."""
    mine, its = FORKS.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile("r") as output:
        process = start(Path(output.name), env, _snakemake, arguments, its)
        process.join()
        if mine.poll():
            guards.forked = max(guards.forked, mine.recv())
        return subprocess.CompletedProcess(arguments, process.exitcode or 0, output.read())


def _snakemake(arguments: Sequence[str], peak: Connection) -> None:
    from snakemake.cli import main

    sys.argv = ["snakemake", *arguments]
    try:
        with stages.forking():
            main(arguments)
    finally:
        peak.send(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def jobs(output: str) -> dict[str, int]:
    """How often each rule runs, from Snakemake's table of jobs."""
    rows = output.split("Job stats:\n")[-1].split("\n\n")[0].splitlines()[2:]
    counts = {row.split()[0]: int(row.split()[1]) for row in rows} if "Job stats:" in output else {}
    return {rule: count for rule, count in counts.items() if rule != "total"}
