"""The command line: one command for each stage of the pipeline, and the tools that people use by hand.

Each command imports what it needs only when it runs, so that `nmt --help` is fast.
"""

from typing import Any

import click

from nmt.cli import data, pictures, scoring, tables, tools, track, training, translation
from nmt.cli.errors import explain
from nmt.cli.group import CommandGroup
from nmt.system.interrupt import Interrupted

SECTIONS = {
    "Data": [data.download, data.mix, data.clean, data.sample, data.subwords, data.encode],
    "Pictures": [pictures.draw, pictures.features, pictures.neighbours, pictures.lsa, pictures.pseudo_regions],
    "Training": [training.train, training.average, training.ensemble],
    "Translation": [translation.decode, translation.translate_text, translation.translate, translation.attention],
    "Scoring": [scoring.score, scoring.compare],
    "Tables": [tables.report, tables.page, tables.overview, tables.restore, tables.reproduce],
    "Tools": [track.track, tools.serve, tools.export, tools.schemas, tools.doctor],
}


class Main(CommandGroup):
    """Shows an error that the user can fix as one message, and ends with a non-zero exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Interrupted as interruption:
            click.echo(f"nmt: {interruption}; run the same command again to resume", err=True)
            raise SystemExit(interruption.exit_code) from None
        except Exception as error:
            if (message := explain(error)) is None:
                raise
            click.echo(f"nmt: {message}", err=True)
            raise SystemExit(1) from None


@click.group(
    cls=Main,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100},
)
@click.version_option(package_name="nmt")
def main() -> None:
    """Neural machine translation, one command for each stage of the pipeline.

    A stage reads and writes the files that its arguments name.

    The options of one command: nmt COMMAND --help
    """
<<<<<<< HEAD
=======
    from nmt.report.neighbours import draw

    draw(features, folder, names, out / "neighbours", pictures, count)


@main.command()
@click.argument("text", type=PATH)
@click.argument("out", type=PATH)
def lsa(text: Path, out: Path) -> None:
    """Learn from TEXT, descriptions of the training images, to make vectors of descriptions; OUT is an .npz."""
    from nmt.data.descriptions import learn

    learn(text, out)


@main.command("pseudo-regions")
@click.argument("analysis", type=PATH)
@click.argument("sentences", type=PATH)
@click.argument("descriptions", type=PATH)
@click.argument("out", type=PATH)
def pseudo_regions(analysis: Path, sentences: Path, descriptions: Path, out: Path) -> None:
    """Write vectors of the other DESCRIPTIONS of what each of SENTENCES describes, a row a line, as the array OUT.

    ANALYSIS is what `nmt lsa` wrote. DESCRIPTIONS has the first one of every image, then the second of every image, …
    """
    from nmt.data.descriptions import write_regions

    write_regions(analysis, sentences, descriptions, out)


@main.command()
@click.argument("encoded", type=PATH)
@click.argument("run", type=PATH)
@config_option
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1)
@click.option(
    "--name", default="custom/system", metavar="TABLE/SYSTEM", callback=_two_names, help="What the run is called."
)
@click.option("--tracking", type=PATH, help="tracking.json: MLflow follows the training, from a process of its own.")
@click.option("--images", type=PATH, help="For a multimodal model: folder of the features train.npy and valid.npy.")
@click.option(
    "--word-vectors", multiple=True, metavar="SIDE=FILE", help="Start the source's or target's embeddings from these."
)
@device_options
def train(
    encoded: Path,
    run: Path,
    settings: str,
    seed: int,
    name: str,
    tracking: Path | None,
    images: Path | None,
    word_vectors: tuple[str, ...],
    device: str,
    threads: int | None,
) -> None:
    """Train on ENCODED; state and results in RUN. Started again, it resumes.

    By several processes: torchrun --standalone --nproc-per-node 2 -m nmt train …, or srun -n 2 nmt train …; each takes
    as many threads as --threads says.
    """
    from nmt.system.gpus import claimed
    from nmt.training.distributed import place
    from nmt.training.trainer import Experiment
    from nmt.training.trainer import train as run_training
    from nmt.training.word_vectors import sides

    vectors = sides(word_vectors)
    experiment, (rank, _) = settings_of(Experiment, settings), place()
    if tracking and rank == 0:
        _follow(run, tracking, name, seed)
    with claimed(device):
        run_training(encoded, run, experiment, seed, device, threads, name, images, vectors)


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
    from nmt.config.selection import check_selection
    from nmt.training.average import average as average_checkpoints

    check_selection(at)
    average_checkpoints(run, encoded, at, model)


@main.command()
@click.argument("models", type=PATH, nargs=-1, required=True)
@click.argument("out", type=PATH)
def ensemble(models: tuple[Path, ...], out: Path) -> None:
    """Make the directory OUT of MODELS that translate together, by the mean of what they expect."""
    from nmt.training.average import ensemble as make_ensemble

    make_ensemble(models, out)


@main.command()
@click.argument("model", type=PATH)
@click.argument("source", type=PATH)
@click.argument("out", type=PATH)
@config_option
@click.option("--images", type=PATH, help="For a multimodal model: array of the lines' image features, .npy.")
@shard_option
@device_options
def decode(
    model: Path,
    source: Path,
    out: Path,
    settings: str,
    images: Path | None,
    shard: Any,
    device: str,
    threads: int | None,
) -> None:
    """Translate the cleaned file SOURCE into OUT, line by line; how is in decoding.json beside it: one OUT a folder."""
    from nmt.config.decoding import Decoding
    from nmt.system.gpus import claimed
    from nmt.translation.decode_file import decode_file

    decoding = settings_of(Decoding, settings)
    with claimed(device):
        decode_file(model, source, out, decoding, device, threads, images, shard)


@main.command("translate-text")
@click.argument("model", type=PATH)
@click.argument("text", type=PATH)
@click.argument("out", type=PATH)
@config_option
@device_options
def translate_text(model: Path, text: Path, out: Path, settings: str, device: str, threads: int | None) -> None:
    """Translate the raw file TEXT into OUT, line by line, as one side of training pairs."""
    from nmt.config.decoding import Decoding
    from nmt.system.gpus import claimed
    from nmt.translation.augment import translate_text as run

    decoding = settings_of(Decoding, settings)
    with claimed(device):
        run(model, text, out, decoding, device, threads)


@main.command()
@click.argument("raw", type=PATH)
@click.argument("text", type=PATH)
@click.argument("translations", type=PATH)
@click.argument("out", type=PATH)
@languages_option
@click.option("--copies", type=click.IntRange(1), default=1, help="Times that the true pairs are there.")
@click.option("--tag", help="A word that each added source begins with.")
def mix(raw: Path, text: Path, translations: Path, out: Path, languages: str, copies: int, tag: str | None) -> None:
    """Write the corpus in RAW into OUT, pairs added to its training text: TRANSLATIONS and what they are of, TEXT.

    TRANSLATIONS is what `nmt translate-text` wrote of the training text in TEXT, a raw corpus too.
    """
    from nmt.config.types import TAG
    from nmt.translation.augment import mix as run

    if tag and not re.fullmatch(TAG, tag):
        raise ConfigError(f"--tag: expected letters, got {tag!r}")
    run(raw, text, translations, out, languages, copies, tag)


@main.command()
@click.argument("hypotheses", type=PATH)
@click.option("--clean", type=PATH, required=True, help="Folder of the cleaned corpus.")
@click.option("--raw", type=PATH, required=True, help="Folder of the raw corpus.")
@click.option("--test", required=True, help="Name of the test set.")
@click.option("--model", type=PATH, required=True)
@click.option("--out", type=PATH, required=True, help="Folder of scores.json and the texts scored.")
@click.option(
    "--also", multiple=True, type=click.Choice(ON_REQUEST), help="A metric besides; can be given several times."
)
@languages_option
def score(
    hypotheses: Path, clean: Path, raw: Path, test: str, model: Path, out: Path, also: tuple[str, ...], languages: str
) -> None:
    """Score HYPOTHESES by BLEU, chrF, TER and exact match, tokenised and detokenised."""
    from nmt.scoring.score import score as score_hypotheses

    source, target = languages.split("-")
    score_hypotheses(hypotheses, clean, raw, test, source, target, model, out, also)


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
@click.option(
    "--later", is_flag=True, help="Jobs run on other machines: only `track publish` writes to a store in a file."
)
def track_prepare(settings: str, tables: tuple[Path, ...], out: Path, later: bool) -> None:
    """Create the store and an experiment a table, once, before jobs run at the same time."""
    from nmt.config.table import load_table
    from nmt.config.workflow import Workflow
    from nmt.tracking.prepare import prepare

    if out.name != "tracking.json":
        raise ConfigError(f"--out: expected tracking.json in some folder, got {out}")
    workflow = settings_of(Workflow, settings)
    prepare(
        workflow.tracking.uri,
        out.parent,
        {path.stem: load_table(path) for path in tables},
        workflow.seeds,
        later,
    )


@track.command("follow")
@click.argument("run", type=PATH)
@click.option("--tracking", type=PATH, required=True)
@click.option("--name", required=True, metavar="TABLE/SYSTEM", callback=_two_names)
@click.option("--seed", type=int, required=True)
@click.option("--pid", type=int, required=True, help="The training's process.")
def track_follow(run: Path, tracking: Path, name: str, seed: int, pid: int) -> None:
    """Feed MLflow from a training's log while it runs."""
    from nmt.tracking.follow import follow

    table, _, system = name.partition("/")
    follow(run, tracking, table, system, seed, pid)


@track.command("publish")
@click.argument("run", type=PATH)
@click.argument("scores", type=PATH, nargs=-1)
@click.option("--tracking", type=PATH, required=True)
@click.option("--name", required=True, metavar="TABLE/SYSTEM", callback=_two_names)
@click.option("--seed", required=True, metavar="1", callback=_seeds, help="Of an ensemble all, 1-2-3.")
@click.option("--figures", type=PATH, help="Folder of the table's figures, kept with the run of a training.")
@click.option("--out", type=PATH, required=True, help="Written last: what was published where.")
def track_publish(
    run: Path, scores: tuple[Path, ...], tracking: Path, name: str, seed: str, figures: Path | None, out: Path
) -> None:
    """Make a finished run complete in MLflow, without doubles; SCORES are its score folders."""
    from nmt.system.files import write_json
    from nmt.tracking.publish import publish, publish_ensemble

    table, _, system = name.partition("/")
    drawn = sorted(figures.glob("*.png")) if figures else []
    if "-" in seed:
        found = publish_ensemble(run, tracking, table, system, seed, list(scores))
    else:
        found = publish(run, tracking, table, system, int(seed), list(scores), drawn)
    write_json(out, found)


@main.command()
@click.argument("table", type=PATH)
@click.option(
    "--config",
    "settings",
    default="config.yaml",
    show_default=True,
    help="YAML or JSON, or a .yaml, .yml or .json file of it.",
)
def report(table: Path, settings: str) -> None:
    """Write TABLE (a table file) as Markdown, CSV, HTML and JSON, with its figures."""
    from nmt.config.table import load_table
    from nmt.config.workflow import Workflow
    from nmt.plan.layout import Layout
    from nmt.report.write import report as write_report

    workflow = settings_of(Workflow, settings)
    write_report(
        table.stem, load_table(table), Layout(workflow.results, workflow.limit), workflow.seeds, workflow.images
    )


def _plan(tables: Collection[str], settings: Path, **over: Any) -> "Plan":
    """What workflow/tables has of these names, by a file of settings with values laid over it."""
    from nmt.config import yaml
    from nmt.plan.plan import Plan, check_readable

    check_readable(str(settings))
    read = yaml.load_yaml(yaml.read_config(settings), str(settings))
    given = {key: value for key, value in over.items() if value}
    targets = [f"table_{name}" for name in tables]
    return Plan.load({**read, "tables": list(tables), **given}, str(settings), targets, own_files=False)


tables_argument = click.argument("tables", nargs=-1, required=True)
settings_option = click.option(
    "--config", "settings", type=PATH, default="config.yaml", show_default=True, help="File of the settings."
)
seeds_option = click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Instead of the settings'; a table's own come first. Can be given several times.",
)


@main.command()
@tables_argument
@settings_option
@seeds_option
def restore(tables: tuple[str, ...], settings: Path, seeds: tuple[int, ...]) -> None:
    """Put back the runs of TABLES that results/records has, so that only what is new in a table is trained.

    Logs, translations and scores are kept there, and no weights.
    """
    from nmt.reproduce.restore import STANDINGS
    from nmt.reproduce.restore import restore as put_back

    plan = _plan(dict.fromkeys(tables), settings, seeds=list(dict.fromkeys(seeds)))
    found = [put_back(plan, name) for name in plan.settings.tables]
    for what in STANDINGS:
        click.echo(f"{what:<8}  {', '.join(run for one in found for run in one[what]) or '-'}")


@main.command()
@tables_argument
@settings_option
@click.option("--minutes", type=Amount(), default=math.inf, help="The budget; else no end.")
@click.option("--at-once", type=click.IntRange(1), default=1, help="Trainings side by side; they share cores and GPUs.")
@seeds_option
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Instead of the settings'.")
def reproduce(
    tables: tuple[str, ...],
    settings: Path,
    minutes: float,
    at_once: int,
    seeds: tuple[int, ...],
    device: str | None,
) -> None:
    """Train what TABLES still lack within a budget, cheapest first, and make their rows: without Snakemake.

    Started again, it goes on; the workflow takes what is there as done.
    """
    from nmt.reproduce.budget import reproduce as run

    plan = _plan(dict.fromkeys(tables), settings, seeds=list(dict.fromkeys(seeds)), device=device)
    plan.check_tools([f"table_{name}" for name in plan.settings.tables])
    outcome = run(plan, plan.settings.tables, minutes, at_once)
    for what, names in outcome.items():
        click.echo(f"{what:<10}  {', '.join(names) or '-'}")
    if outcome["failed"]:
        raise SystemExit(1)


@main.command()
@click.argument("results", type=PATH)
@click.argument("out", type=PATH)
def page(results: Path, out: Path) -> None:
    """Write all tables and figures of RESULTS as one HTML page, OUT."""
    from nmt.report.pages import page as write_page

    write_page(results, out)


@main.command()
@click.argument("results", type=PATH)
@click.argument("page", type=PATH)
def overview(results: Path, page: Path) -> None:
    """Write published and own BLEU of all tables of RESULTS into PAGE, a Markdown file with marks for them."""
    from nmt.report.overview import overview as write_overview

    write_overview(results, page)


@main.command()
@click.argument("model", type=PATH)
@click.argument("files", type=PATH, nargs=-1)
@search_options
@click.option("--nbest", type=click.IntRange(1), default=1, help="So many for each line, its number before them.")
@click.option("--scores", is_flag=True, help="Before each translation its score, log p / length^penalty.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line: source, and text, score, tokens of each.")
@click.option("--attention", type=PATH, metavar="DIR", help="Draw each line's attention over its source here.")
@click.option("--out", type=PATH, help="File for the translations; else standard output.")
@device_options
def translate(
    model: Path,
    files: tuple[Path, ...],
    beam: int,
    length_penalty: float,
    nbest: int,
    scores: bool,
    as_json: bool,
    attention: Path | None,
    out: Path | None,
    device: str,
    threads: int | None,
) -> None:
    """Translate raw text: FILES, standard input, or line by line at a prompt."""
    from nmt.system.files import check_apart, check_writable, decode_lines, read_lines

    decoding = _decoding(beam, length_penalty, nbest)
    if out:
        check_writable(out)
        check_apart(out, files)
    if (sys.stdin is None and not files) or (sys.stdout is None and not out):
        raise ConfigError("expected standard input and output, got one that is closed; name FILES and --out")
    prompt = not files and sys.stdin.isatty()
    if prompt and out:
        raise ConfigError("--out: expected FILES or text on standard input to translate, got a terminal; name a file")
    translator = _translator(model, device, threads, alone=prompt)
    if attention and not translator.looks:
        raise ConfigError("--attention: expected a model with attention, got one without; leave the option away")

    def written(lines: list[str], first: int = 1) -> str:
        found = translator.nbest(lines, decoding)
        if attention:
            _draw(translator, lines, found, attention, first)
        if as_json:
            return "".join(_object(translator, *pair) for pair in zip(lines, found, strict=True))
        return "".join(_rows(best, number if nbest > 1 else None, scores) for number, best in enumerate(found, first))

    if prompt:
        return _prompt(translator, written)
    standard_input = decode_lines(sys.stdin.buffer, "standard input")
    given = (line for path in files for line in read_lines(path))
    _give(written(list(given if files else standard_input)), out)


def _give(text: str, out: Path | None) -> None:
    """To a file, or to standard output."""
    from nmt.system.files import write_text

    if out:
        write_text(out, text)
    else:
        click.echo(text, nl=False)


def _decoding(beam: int, length_penalty: float, nbest: int = 1) -> "Decoding":
    from nmt.config.decoding import Decoding

    if nbest > beam:
        raise ConfigError(f"--nbest: expected at most --beam, {beam}, got {nbest}; raise --beam too")
    if not -10 <= length_penalty <= 10:  # nor nan
        raise ConfigError(f"--length-penalty: expected a number from -10 to 10, got {length_penalty}")
    return Decoding(beam=beam, length_penalty=length_penalty, nbest=nbest)


def _translator(model: Path, device: str, threads: int | None, alone: bool) -> Any:
    """A model, ready for sentences that come alone, or many at once.

    What was imported for it is set apart from garbage collection, which would search it at exit.
    """
    import gc

    from nmt.system.workers import processes_for
    from nmt.translation.translator import Translator

    translator = Translator.load(model, device, threads, 1 if alone else processes_for(device, threads))
    gc.freeze()
    return translator


def _rows(translations: Sequence[Any], number: int | None, scores: bool) -> str:
    """A line for each translation of a sentence: its number and score if wanted, the text; tabs between."""
    before = "" if number is None else f"{number}\t"
    return "".join(f"{before}{f'{best.score:.6f}{chr(9)}' if scores else ''}{best.text}\n" for best in translations)


def _object(translator: Any, source: str, translations: Sequence[Any]) -> str:
    """A sentence and its translations as a line of JSON."""
    found = [
        {"text": best.text, "score": round(best.score, 6), "tokens": translator.target.pieces(best.ids)}
        for best in translations
    ]
    return json.dumps({"source": source, "translations": found}, ensure_ascii=False) + "\n"


def _draw(translator: Any, lines: Sequence[str], found: Sequence[Sequence[Any]], folder: Path, first: int) -> None:
    """The attention of each line's best translation, in files named by the line's number; nothing of empty lines."""
    from tqdm import tqdm

    from nmt.report.attention_maps import write

    for number, line in enumerate(tqdm(lines, unit="figure", disable=None), first):
        if cleaned := translator.clean(line):
            write(translator, cleaned, found[number - first][0], folder / str(number))


def _prompt(translator: Any, written: Callable[[list[str], int], str]) -> None:
    """Translate each line typed until end of file."""
    source, target = translator.languages
    for number in itertools.count(1):
        try:
            line = input(f"{source}> ")
        except (EOFError, KeyboardInterrupt):
            return click.echo()
        click.echo(f"{target}> {written([line], number)}", nl=False)


def _number_or(*words: str) -> Callable[..., int | str]:
    """A check of an option that is a number from 1 or one of these words."""

    def check(_: click.Context, option: click.Parameter, value: str) -> int | str:
        if value in words:
            return value
        if not value.isdecimal():
            expected = " or ".join(", ".join(["a number from 1", *words]).rsplit(", ", 1))
            raise ConfigError(f"--{option.name}: expected {expected}, got '{value}'")
        return int(value)

    return check


@main.command()
@click.argument("model", type=PATH)
@click.argument("sentence")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the figure and its weights.")
@click.option("--part", type=click.Choice(["source", "encoder", "decoder"]), default="source", help="The sub-layer.")
@click.option("--layer", default="all", callback=_number_or("all"), help="A number from 1, or all.")
@click.option("--head", default="all", callback=_number_or("mean", "all"), help="A number from 1, mean, or all.")
@click.option("--words", is_flag=True, help="Join subwords.")
@click.option(
    "--image",
    type=PATH,
    help="The sentence's picture: where on it a multimodal model looked, DIR/image.png; without --part and --words.",
)
@search_options
@device_options
def attention(
    model: Path,
    sentence: str,
    out: Path,
    part: Any,
    layer: Any,
    head: Any,
    words: bool,
    image: Path | None,
    beam: int,
    length_penalty: float,
    device: str,
    threads: int | None,
) -> None:
    """Translate SENTENCE, and draw where a sub-layer of MODEL looked meanwhile: DIR/PART.png, .svg and .json."""
    from nmt.report.attention_maps import write, write_over

    translator = _translator(model, device, threads, alone=True)
    if not (line := translator.clean(sentence)):
        raise ConfigError(f"SENTENCE: expected words, got '{sentence}'; give a sentence in quotes")
    decoding = _decoding(beam, length_penalty)
    if image:
        if words or part != "source":
            raise ConfigError("--image: expected neither --part nor --words beside it; leave them out")
        best = write_over(image, translator, line, decoding, out / "image", layer, head)
    else:
        best = translator.translate_clean([line], decoding)[0][0]
        write(translator, line, best, out / part, part, layer, head, words)
    click.echo(translator.detokenize(best.text))


@main.command()
@click.argument("models", metavar="MODEL_DIR...", type=PATH, nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve at; 0.0.0.0 is open to others.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--rate",
    type=Amount(),
    default=20.0,
    show_default=True,
    help="Requests a second that one client may make.",
)
@device_options
def serve(models: tuple[Path, ...], host: str, port: int, rate: float, device: str, threads: int | None) -> None:
    """Open a local web page that shows models translate: MODEL_DIR is what `nmt average` wrote."""
    from nmt.serve.limits import Limits
    from nmt.serve.server import serve as run_server

    run_server(models, host, port, device, threads, Limits(rate=rate))


@main.command()
@click.argument("model", type=PATH)
@click.argument("out", type=PATH)
@click.option("--format", "to", type=click.Choice(["ctranslate2", "pyfunc"]), required=True)
def export(model: Path, out: Path, to: Any) -> None:
    """Write MODEL into the new folder OUT for CTranslate2, or as an MLflow model (pyfunc)."""
    from nmt.translation.export import export as write

    write(model, out, to)


@main.command()
@click.argument("out", type=PATH)
def schemas(out: Path) -> None:
    """Write the JSON schemas of cluster.yaml, config.yaml and table files, for editors."""
    from nmt.config.schemas import schemas as of_files
    from nmt.system.files import write_json

    for name, schema in of_files().items():
        write_json(out / f"{name}.schema.json", schema)


@main.command()
def doctor() -> None:
    """Say what this machine has, and what a run would use."""
    import torch

    from nmt.system import machine

    device = machine.prepare("auto")
    facts = {"code": machine.code_version(), **machine.versions(), **machine.hardware(device)}
    if device.type == "cpu":
        for name, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            facts[name] = f"{machine.matrix_speed(kind):.0f} GFLOP/s in matrix products"
    for name, value in facts.items():
        click.echo(f"{name:14} {value}")
>>>>>>> 4db20e3 (Split decoding files from Translator)
