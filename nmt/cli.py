"""The command line: one sub-command a stage, each a function of files, and what people use by hand."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel

from nmt import config, strict
from nmt.errors import ConfigError, DataError

Model = TypeVar("Model", bound=BaseModel)
Command = Callable[..., Any]
PATH = click.Path(path_type=Path)


def _pair(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", value):
        raise ConfigError(f"--languages: expected source-target, e.g. en-de, got '{value}'")
    return value


languages_option = click.option(
    "--languages", required=True, metavar="en-de", callback=_pair, help="Source and target language."
)
config_option = click.option("--config", "settings", default="{}", help="YAML or JSON, or a file of it.")


def device_options(command: Command) -> Command:
    """Options of the stages that compute on tensors."""
    command = click.option("--threads", type=click.IntRange(1), help="CPU threads; PyTorch's choice if not given.")(
        command
    )
    return click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")(command)


class Commands(click.Group):
    """Turns the errors that are the user's to mend into one message and a non-zero exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a sub-command."""
        try:
            return super().invoke(ctx)
        except (ConfigError, DataError) as error:
            _fail(str(error))
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise  # whoever read our output has gone: click ends quietly
            problem = f"{error.filename or 'writing'}: {error.strerror or error}"
            _fail(f"{problem}; check space, permissions and path, then run again")


def _fail(message: str) -> None:
    click.echo(f"nmt: {message}", err=True)
    raise SystemExit(1)


def settings_of(model: type[Model], text: str) -> Model:
    """Validate an option that holds YAML, or names a file of it; raises ConfigError."""
    if "\n" not in text and Path(text).suffix in (".yaml", ".yml", ".json"):
        return strict.load(model, Path(text))
    return strict.parse(model, text, "--config")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nmt")
def main() -> None:
    """Neural machine translation, stage by stage: download, clean, subwords, encode, train, average, decode, score."""


@main.command()
@click.argument("corpus")
@click.argument("languages")
@click.argument("out", type=PATH)
@click.option("--mirror", type=PATH, help="Folder that holds the same files; else NMT_MIRROR, else the URLs.")
@click.option("--limit", type=click.IntRange(1), help="Cut every split to its first lines.")
@click.option("--custom", help="YAML of a corpus of your own: train, valid, tests.")
def download(
    corpus: str, languages: str, out: Path, mirror: Path | None, limit: int | None, custom: str | None
) -> None:
    """Fetch CORPUS for LANGUAGES (en-de) into the folder OUT, checksums verified."""
    from nmt.corpora import fetch

    own = strict.parse(config.CustomCorpus, custom, "--custom") if custom else None
    fetch(corpus, languages, out, mirror=mirror, limit=limit, custom=own)


@main.command()
@click.argument("raw", type=PATH)
@click.argument("out", type=PATH)
@languages_option
@config_option
@click.option("--jobs", type=click.IntRange(1), default=1, help="Worker processes.")
def clean(raw: Path, out: Path, languages: str, settings: str, jobs: int) -> None:
    """Normalise, tokenise and filter the text in RAW into OUT."""
    from nmt.text.clean import clean as run

    run(raw, out, settings_of(config.Cleaning, settings), languages, jobs)


@main.command()
@click.argument("clean", type=PATH)
@click.argument("out", type=PATH)
@languages_option
@config_option
@click.option("--threads", type=click.IntRange(1), default=1)
def subwords(clean: Path, out: Path, languages: str, settings: str, threads: int) -> None:
    """Learn the vocabularies of the training text in CLEAN."""
    from nmt.subwords import learn

    learn(clean, out, languages, settings_of(config.Subwords, settings), threads)


@main.command()
@click.argument("clean", type=PATH)
@click.argument("subwords", type=PATH)
@click.argument("out", type=PATH)
@languages_option
def encode(clean: Path, subwords: Path, out: Path, languages: str) -> None:
    """Encode training and validation text of CLEAN by the vocabularies in SUBWORDS."""
    from nmt.data import encode_corpus

    encode_corpus(clean, subwords, out, languages)


@main.command()
@click.argument("encoded", type=PATH)
@click.argument("run", type=PATH)
@config_option
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1)
@click.option("--name", default="custom/system", metavar="TABLE/SYSTEM", help="What the run is called.")
@click.option("--tracking", type=PATH, help="tracking.json: MLflow follows the training, from a process of its own.")
@device_options
def train(
    encoded: Path,
    run: Path,
    settings: str,
    seed: int,
    name: str,
    tracking: Path | None,
    device: str,
    threads: int | None,
) -> None:
    """Train on ENCODED; state and results in RUN. Started again, it resumes."""
    from nmt.training import Experiment, Interrupted
    from nmt.training import train as run_training

    experiment = settings_of(Experiment, settings)
    if tracking:
        _follow(run, tracking, name, seed)
    try:
        run_training(encoded, run, experiment, seed, device, threads, name)
    except Interrupted as interruption:
        click.echo(f"nmt: {interruption}; run the same command again to resume", err=True)
        raise SystemExit(143) from None


def _follow(run: Path, tracking: Path, name: str, seed: int) -> None:
    """Start the process that feeds MLflow from the log while this one trains; it ends when this one does."""
    import os

    command = [sys.executable, "-m", "nmt", "track", "follow", str(run), "--tracking", str(tracking)]
    subprocess.Popen([*command, "--name", name, "--seed", str(seed), "--pid", str(os.getpid())], start_new_session=True)


@main.command()
@click.argument("run", type=PATH)
@click.argument("model", type=PATH)
@click.option("--at", default="best", help="last | best | epoch 16 | update 4000 | average 10 | average best 5")
@click.option("--encoded", type=PATH, required=True, help="The corpus trained on.")
def average(run: Path, model: Path, at: str, encoded: Path) -> None:
    """Make the directory MODEL of the checkpoints of RUN that --at selects, averaged if several."""
    from nmt.average import average as average_checkpoints

    config.check_selection(at)
    average_checkpoints(run, encoded, at, model)


@main.command()
@click.argument("model", type=PATH)
@click.argument("source", type=PATH)
@click.argument("out", type=PATH)
@config_option
@device_options
def decode(model: Path, source: Path, out: Path, settings: str, device: str, threads: int | None) -> None:
    """Translate the cleaned file SOURCE into OUT, line by line."""
    from nmt.translate import decode_file

    decode_file(model, source, out, settings_of(config.Decoding, settings), device, threads)


@main.command()
@click.argument("hypotheses", type=PATH)
@click.option("--clean", type=PATH, required=True, help="Folder of the cleaned corpus.")
@click.option("--raw", type=PATH, required=True, help="Folder of the raw corpus.")
@click.option("--test", required=True, help="Name of the test set.")
@click.option("--model", type=PATH, required=True)
@click.option("--out", type=PATH, required=True, help="Folder of scores.json and the texts scored.")
@languages_option
def score(hypotheses: Path, clean: Path, raw: Path, test: str, model: Path, out: Path, languages: str) -> None:
    """Score HYPOTHESES by BLEU, chrF and TER, tokenised and detokenised."""
    from nmt.scoring.score import score as score_hypotheses

    source, target = languages.split("-")
    score_hypotheses(hypotheses, clean, raw, test, source, target, model, out)


@main.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
def compare(first: Path, second: Path) -> None:
    """Paired bootstrap of two score folders: is the difference more than chance?"""
    from nmt.scoring.significance import compare as compare_scores

    click.echo(json.dumps(compare_scores(first, second), indent=2))


@main.group()
def track() -> None:
    """MLflow: create the store, follow a training, publish a finished run."""


@track.command("prepare")
@config_option
@click.option("--tables", multiple=True, type=PATH, help="Table files; one experiment each.")
@click.option("--out", type=PATH, required=True, help="tracking.json")
def track_prepare(settings: str, tables: tuple[Path, ...], out: Path) -> None:
    """Create the store and an experiment a table, once, before jobs run at the same time."""
    from nmt.tracking import prepare

    workflow = settings_of(config.Workflow, settings)
    prepare(
        workflow.tracking.uri,
        out.parent,
        {path.stem: config.load_table(path) for path in tables},
        workflow.seeds,
    )


@track.command("follow")
@click.argument("run", type=PATH)
@click.option("--tracking", type=PATH, required=True)
@click.option("--name", required=True, metavar="TABLE/SYSTEM")
@click.option("--seed", type=int, required=True)
@click.option("--pid", type=int, required=True, help="The training's process.")
def track_follow(run: Path, tracking: Path, name: str, seed: int, pid: int) -> None:
    """Feed MLflow from a training's log while it runs."""
    from nmt.tracking import follow

    table, _, system = name.partition("/")
    follow(run, tracking, table, system, seed, pid)


@track.command("publish")
@click.argument("run", type=PATH)
@click.argument("scores", type=PATH, nargs=-1)
@click.option("--tracking", type=PATH, required=True)
@click.option("--name", required=True, metavar="TABLE/SYSTEM")
@click.option("--seed", type=int, required=True)
@click.option("--figures", type=PATH, help="Folder of the table's figures, kept with the run.")
@click.option("--out", type=PATH, required=True, help="Written last: what was published where.")
def track_publish(
    run: Path, scores: tuple[Path, ...], tracking: Path, name: str, seed: int, figures: Path | None, out: Path
) -> None:
    """Make a finished run complete in MLflow, without doubles; SCORES are its score folders."""
    from nmt.files import write_json
    from nmt.tracking import publish

    table, _, system = name.partition("/")
    drawn = sorted(figures.glob("*.png")) if figures else []
    write_json(out, publish(run, tracking, table, system, seed, list(scores), drawn))


@main.command()
@click.argument("table", type=PATH)
@config_option
def report(table: Path, settings: str) -> None:
    """Write TABLE (a table file) as Markdown, CSV, HTML and JSON, with its figures."""
    from nmt.layout import Layout
    from nmt.report import report as write_report

    workflow = settings_of(config.Workflow, settings)
    write_report(table.stem, config.load_table(table), Layout(workflow.results, workflow.limit), workflow.seeds)


@main.command()
@click.argument("results", type=PATH)
@click.argument("out", type=PATH)
def page(results: Path, out: Path) -> None:
    """Write all tables and figures of RESULTS as one HTML page, OUT."""
    from nmt.report.page import page as write_page

    write_page(results, out)


@main.command()
@click.argument("model", type=PATH)
@click.argument("files", type=PATH, nargs=-1)
@click.option("--beam", type=click.IntRange(1), default=5)
@click.option("--length-penalty", type=float, default=1.0)
@click.option("--out", type=PATH, help="File for the translations; else standard output.")
@device_options
def translate(
    model: Path,
    files: tuple[Path, ...],
    beam: int,
    length_penalty: float,
    out: Path | None,
    device: str,
    threads: int | None,
) -> None:
    """Translate raw text: FILES, standard input, or line by line at a prompt."""
    from nmt.config import Decoding
    from nmt.files import decode_lines, read_lines, write_text
    from nmt.translate import Translator

    translator = Translator.load(model, device, threads)
    decoding = Decoding(beam=beam, length_penalty=length_penalty)
    if not files and sys.stdin.isatty():
        return _prompt(translator, decoding)
    standard_input = decode_lines(sys.stdin.buffer, "standard input")
    given = (line for path in files for line in read_lines(path))
    lines = list(given if files else standard_input)
    translations = "".join(f"{line}\n" for line in translator.translate(lines, decoding))
    if out:
        write_text(out, translations)
    else:
        click.echo(translations, nl=False)


def _prompt(translator: Any, decoding: Any) -> None:
    """Translate each line typed until end of file."""
    source, target = translator.languages
    while True:
        try:
            line = input(f"{source}> ")
        except (EOFError, KeyboardInterrupt):
            return click.echo()
        click.echo(f"{target}> {translator.translate([line], decoding)[0]}")


@main.command()
@click.argument("out", type=PATH)
def schemas(out: Path) -> None:
    """Write the JSON schemas of config.yaml and of table files, for editors."""
    from nmt.files import write_json

    for name, model in (("config", config.Workflow), ("table", config.TableFile)):
        write_json(out / f"{name}.schema.json", model.model_json_schema())


@main.command()
def doctor() -> None:
    """Say what this machine has, and what a run would use."""
    from nmt import runtime

    device = runtime.prepare("auto")
    facts = {"code": runtime.code_version(), **runtime.versions(), **runtime.hardware(device)}
    for name, value in facts.items():
        click.echo(f"{name:14} {value}")
