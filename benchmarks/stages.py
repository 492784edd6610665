"""Measure the stages around training: lines per second, start-up times, and the parts of a whole `make run`.

    python -m benchmarks.stages [--threads 2] [--rounds 3]

Lines are those of Multi30K English→German before cleaning, in all splits and both languages. Subwords are learned from
the training split only. Scoring has the lines of the validation split. The whole run is the workflow of `make run` in a
temporary folder. Snakemake measures the time of its stages (``results/benchmarks``).
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.measure import ROOT, environment, middle, table
from nmt.config.data import Cleaning, Subwords
from nmt.corpora.catalogue import fetch
from nmt.data.encode import encode_corpus
from nmt.scoring.score import score_lines
from nmt.system.lines import read_lines
from nmt.text.clean import clean
from nmt.text.subwords import learn

LANGUAGES = ("en", "de")
SENTENCE = "A red ball lies to the left of a blue box.\n"


def lines_of(folder: Path) -> int:
    """Count the lines of a folder's text in all splits and both languages."""
    return sum(sum(1 for _ in read_lines(file)) for language in LANGUAGES for file in folder.glob(f"*.{language}"))


def seconds(work: Callable[[], Any]) -> float:
    """Return the seconds that a function takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def stages(rounds: int, threads: int) -> list[list[str]]:
    """Measure the lines per second of cleaning, subword learning, encoding and scoring."""
    speeds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw")
        fetch("multi30k", "-".join(LANGUAGES), raw, mirror=None, limit=None, custom=None)
        for number in range(rounds):
            scratch = Path(folder, str(number))
            cleaned, learned, encoded = (scratch / name for name in ("clean", "subwords", "encoded"))
            work = {
                "cleaning": partial(clean, raw, cleaned, Cleaning(), "en-de", threads),
                "subword learning, 8,192 pieces": partial(
                    learn, cleaned, learned, "en-de", Subwords(size=8192), threads
                ),
                "encoding": partial(encode_corpus, cleaned, learned, encoded, "en-de"),
            }
            for name, stage in work.items():
                speeds[name].append(lines_of(raw) / seconds(stage))
            references = list(read_lines(cleaned / "valid.de"))
            speeds["scoring: BLEU, chrF, TER, intervals"].append(
                len(references) / seconds(partial(score_lines, spoilt(references), references, "tokenised"))
            )
    return [[name, *middle(values)] for name, values in speeds.items()]


def spoilt(references: Sequence[str]) -> list[str]:
    """Make hypotheses for scoring: omit every fifth word of each line."""
    return [" ".join(word for i, word in enumerate(line.split()) if i % 5 != 4) for line in references]


def whole_run(results: Path, threads: int) -> list[list[str]]:
    """Run `make run`; return the jobs and seconds of each stage, and the total."""
    command = [sys.executable, "-m", "snakemake", "--cores", str(threads), "--quiet", "--config", f"results={results}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = partial(subprocess.run, cwd=ROOT, env=os.environ | {"PATH": path}, stdout=subprocess.DEVNULL, check=True)
    total = seconds(lambda: run([*command, "device=cpu"]))
    return breakdown(results / "benchmarks", total)


def breakdown(benchmarks: Path, total: float) -> list[list[str]]:
    """Return the table lines of a run, from the files of Snakemake."""
    seconds_of: dict[str, list[float]] = defaultdict(list)
    for file in sorted(benchmarks.rglob("*.tsv")):
        with file.open(newline="") as stream:
            rows = csv.DictReader(stream, delimiter="\t")
            seconds_of[file.relative_to(benchmarks).parts[0]] += [float(row["s"]) for row in rows]
    lines = [
        [stage, str(len(seconds_of_jobs)), f"{sum(seconds_of_jobs):.1f}", f"{sum(seconds_of_jobs) / total:.0%}"]
        for stage, seconds_of_jobs in seconds_of.items()
    ]
    return [*lines, ["all, from start to end", "–", f"{total:.1f}", "100%"]]


def start_up(model: Path, rounds: int) -> list[list[str]]:
    """Measure the seconds from the start of a command to its answer."""
    nmt = [sys.executable, "-m", "nmt"]
    questions = {
        "`nmt --help`": ([*nmt, "--help"], ""),
        "`nmt translate`, to the first sentence": ([*nmt, "translate", str(model), "--device", "cpu"], SENTENCE),
    }
    lines = []
    for name, question in questions.items():
        answered(*question)  # warm-up: fills the file cache
        lines.append([name, *middle([seconds(partial(answered, *question)) for _ in range(rounds)], 2)])
    return lines


def answered(command: list[str], text: str) -> None:
    """Run a command and check that it writes something."""
    done = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip(), done.stderr


@click.command()
@click.option("--threads", default=2)
@click.option("--rounds", default=3)
@click.option(
    "--model", type=click.Path(path_type=Path), help="Model for the start-up; by default that of the whole run."
)
@click.option("--run/--no-run", default=True, help="Whether to measure a whole run, which takes some minutes.")
def main(threads: int, rounds: int, model: Path | None, run: bool) -> None:
    """Print three tables: stages, a whole run, start-up."""
    print(table(("stage", "lines/s", "least–most"), stages(rounds, threads)))
    with tempfile.TemporaryDirectory() as folder:
        if run:
            print()
            print(table(("stage of `make run`", "jobs", "seconds", "share"), whole_run(Path(folder), threads)))
            model = model or Path(folder, "runs/scenes/tiny/seed1/best/model")
        if model:
            print()
            print(table(("command", "seconds", "least–most"), start_up(model, rounds)))
    print(f"\n{rounds} rounds. {environment(threads)}")


if __name__ == "__main__":
    main()
