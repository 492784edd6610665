"""Commands that score translations."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.options import OUTPUT, PATH, check_languages
from nmt.config.choices import ON_REQUEST, TOKENIZERS
from nmt.system.errors import ConfigError

if TYPE_CHECKING:
    from nmt.scoring.files import Comparison

Command = Callable[..., Any]


def plain_text_options(command: Command) -> Command:
    """Add the options of a command that compares plain text files with their references."""
    options = [
        click.option("--reference", type=PATH, show_default="none", help="Reference of each line, a plain text file."),
        click.option(
            "--also",
            multiple=True,
            type=click.Choice(ON_REQUEST),
            show_default="none",
            help="One more metric. Can be given several times.",
        ),
        click.option(
            "--languages",
            metavar="en-de",
            show_default="not known",
            callback=lambda *given: check_languages(*given) if given[-1] else None,
            help="Source and target language. Of plain files, they choose BLEU's tokeniser, and METEOR and moses need "
            "them; without them, an ending like .zh counts.",
        ),
        click.option(
            "--tokenize",
            type=click.Choice(TOKENIZERS),
            show_default="13a, or that of the language",
            help="Of plain files: tokeniser of BLEU. none: the files are tokenised. moses: clean both first as by "
            "default in training, which gives tokenised lowercased BLEU.",
        ),
        click.option(
            "--lowercase/--cased",
            show_default="ignored if a system writes lower case only",
            default=None,
            help="Of plain files: whether case is ignored.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Of plain files: print JSON."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _comparison(
    tokenize: Any, lowercase: bool | None, languages: str | None, also: tuple[str, ...], reference: Path
) -> "Comparison":
    from nmt.scoring.files import Comparison
    from nmt.scoring.tokenizers import language_of

    return Comparison(tokenize, lowercase, languages.split("-")[1] if languages else language_of(reference), also)


@click.command()
@click.argument("hypotheses", type=PATH)
@click.option("--source", type=PATH, show_default="none", help="Source of each line, to count lines only copied.")
@click.option("--clean", type=PATH, show_default="none", help="Of a corpus's test set: folder of the cleaned corpus.")
@click.option("--raw", type=PATH, show_default="none", help="Of a corpus's test set: folder of the raw corpus.")
@click.option("--test", show_default="none", help="Of a corpus's test set: its name.")
@click.option(
    "--model",
    type=PATH,
    show_default="none: HYPOTHESES is another system's plain text",
    help="Of a corpus's test set: model directory that wrote the translations.",
)
@click.option(
    "--out", type=OUTPUT, show_default="none", help="Of a corpus's test set: folder of scores.json and the texts."
)
@plain_text_options
def score(
    hypotheses: Path,
    source: Path | None,
    clean: Path | None,
    raw: Path | None,
    test: str | None,
    model: Path | None,
    out: Path | None,
    reference: Path | None,
    also: tuple[str, ...],
    languages: str | None,
    tokenize: str | None,
    lowercase: bool | None,
    as_json: bool,
) -> None:
    """Score the file HYPOTHESES by BLEU, chrF, TER and exact match.

    Plain text of any system: nmt score HYPOTHESES --reference FILE prints the scores.

    A test set of a corpus, as the workflow does: --clean, --raw, --test, --languages and --out write scores.json,
    tokenised and detokenised. With --model, HYPOTHESES is a file of `nmt decode`.
    """
    corpus = {"--clean": clean, "--raw": raw, "--test": test, "--model": model, "--out": out}
    if reference:
        if given := [option for option, value in corpus.items() if value is not None]:
            raise ConfigError(f"--reference: expected a plain text file alone, got {given[0]} too; leave one out")
        from nmt.scoring.files import score_file

        how = _comparison(tokenize, lowercase, languages, also, reference)
        return _print(score_file(hypotheses, reference, how, source), as_json, score_lines)
    if not (clean and raw and test and languages and out):
        needed = {name: value for name, value in corpus.items() if name != "--model"} | {"--languages": languages}
        missing = [option for option, value in needed.items() if value is None]
        raise ConfigError(
            f"expected --reference FILE to score plain text, or {', '.join(needed)} to score a corpus's test set; got "
            f"no --reference and no {', '.join(missing)}"
        )
    _check_no_plain({"--source": source, "--json": as_json, "--tokenize": tokenize}, lowercase)
    from_language, to_language = languages.split("-")
    from nmt.scoring.files import score_output
    from nmt.scoring.score import score as score_hypotheses
    from nmt.system.warnings import recorded

    with recorded("score", out / "scores.json"):
        if model:
            score_hypotheses(hypotheses, clean, raw, test, from_language, to_language, model, out, also)
        else:
            score_output(hypotheses, clean, raw, test, from_language, to_language, out, also)


@click.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@plain_text_options
def compare(
    first: Path,
    second: Path,
    reference: Path | None,
    also: tuple[str, ...],
    languages: str | None,
    tokenize: str | None,
    lowercase: bool | None,
    as_json: bool,
) -> None:
    """Test whether two systems differ, by paired bootstrap.

    With --reference, FIRST and SECOND are plain text files, and a table is printed. Without it, they are score folders
    of the workflow, and JSON is printed.
    """
    if reference:
        from nmt.scoring.files import compare_files

        how = _comparison(tokenize, lowercase, languages, also, reference)
        return _print(compare_files(first, second, reference, how), as_json, comparison_lines)
    if files := [path for path in (first, second) if path.is_file()]:
        raise ConfigError(f"{files[0]}: expected a score folder, got a file; to compare files, give --reference FILE")
    _check_no_plain({"--also": also, "--languages": languages, "--tokenize": tokenize}, lowercase)
    from nmt.scoring.significance import compare as compare_scores

    click.echo(json.dumps(compare_scores(first, second), indent=2))


@click.command()
@click.argument("hypotheses", type=PATH)
@click.option("--source", type=PATH, required=True, help="Source of each line.")
@click.option("--reference", type=PATH, show_default="none, for COMET-Kiwi", help="Reference of each line.")
@click.option("--checkpoint", type=PATH, required=True, help="File of the checkpoint, checkpoints/model.ckpt.")
@click.option("--python", type=PATH, default=".comet/bin/python", help="Python of COMET's environment.")
@click.option(
    "--against", type=PATH, show_default="none", help="Another system's translations: adds the paired bootstrap test."
)
@click.option("--out", type=PATH, show_default="none", help="File for the scores of all lines, as JSON.")
def comet(
    hypotheses: Path,
    source: Path,
    reference: Path | None,
    checkpoint: Path,
    python: Path,
    against: Path | None,
    out: Path | None,
) -> None:
    """Score the plain text file HYPOTHESES by COMET, or without --reference by COMET-Kiwi.

    unbabel-comet lives in an environment of its own, which snakemake --cores 1 comet_environment makes.
    """
    from nmt.scoring.comet import compare, score_files
    from nmt.system.files import check_not_input, check_writable, write_json

    if out:
        check_writable(out)
        check_not_input(out, filter(None, [hypotheses, source, reference, checkpoint, python, against]))
    result = score_files(hypotheses, source, reference, checkpoint, python)
    lines = [f"{result['score']:.2f} [{result['low']:.2f}, {result['high']:.2f}]  {result['signature']}"]
    if against:
        other = score_files(against, source, reference, checkpoint, python)
        test = compare(other["scores"], result["scores"])
        lines.append(f"{against}: {other['score']:.2f}; difference {test['difference']:+.2f}, p {test['p_value']:.3f}")
        result |= {"against": str(against), **test}
    if out:
        write_json(out, result)
    click.echo("\n".join(lines))


@click.command("comet-environment")
@click.argument("folder", type=PATH)
def comet_environment(folder: Path) -> None:
    """Install unbabel-comet into FOLDER, an environment of its own, some gigabytes in size."""
    from nmt.scoring.comet import install

    install(folder)


def _check_no_plain(options: dict[str, Any], lowercase: bool | None) -> None:
    """Reject options that only plain text files have; raises ConfigError."""
    options = options | {"--lowercase or --cased": lowercase is not None}
    if given := [name for name, value in options.items() if value]:
        raise ConfigError(f"{given[0]}: expected --reference FILE with it, got none; add it, or leave the option out")


def _print(result: dict[str, Any], as_json: bool, lines: Callable[[dict[str, Any]], list[str]]) -> None:
    click.echo(json.dumps(result, indent=2, ensure_ascii=False) if as_json else "\n".join(lines(result)))


def score_lines(result: dict[str, Any]) -> list[str]:
    """The result of `nmt.scoring.files.score_file` for readers."""
    rows = [
        [_metric_name(metric), f"{s['score']:.2f}", f"[{s['low']:.2f}, {s['high']:.2f}]"]
        for metric, s in result["scores"].items()
    ]
    files = f"{result['hypotheses']} against {result['reference']}, {result['sentences']:,} sentences"
    lines = [files, "", *_aligned(rows), "", f"In brackets: the 95 % bootstrap interval. {_about(result)}"]
    lines += _signatures(result["scores"])
    if "copied" in result:
        lines.append(f"{result['copied']:,} lines equal their source: {result['source']}.")
    return lines


def comparison_lines(result: dict[str, Any]) -> list[str]:
    """The result of `nmt.scoring.files.compare_files` for readers."""
    header = ["", "first", "second", "difference", "p"]
    rows = [
        [_metric_name(m), f"{s['first']:.2f}", f"{s['second']:.2f}", f"{s['difference']:+.2f}", f"{s['p_value']:.3f}"]
        for m, s in result["metrics"].items()
    ]
    return [
        f"first:  {result['first']}", f"second: {result['second']}",
        f"against {result['reference']}, {result['sentences']:,} sentences", "", *_aligned([header, *rows]), "",
        f"p: paired bootstrap, {result['samples']:,} samples, one-sided: the probability of such a difference between "
        f"equally good systems. {_about(result)}",
        *_signatures(result["metrics"]),
    ]  # fmt: skip


def _signatures(metrics: dict[str, Any]) -> list[str]:
    return [f"{_metric_name(metric)}: {score['signature']}" for metric, score in metrics.items()]


def _metric_name(metric: str) -> str:
    from nmt.report.grids import name_of

    return name_of(metric)


def _about(result: dict[str, Any]) -> str:
    from nmt.report.grids import LOWER

    measured = result["scores"] if "scores" in result else result["metrics"]
    lower = f"{', '.join(_metric_name(metric) for metric in measured if metric in LOWER)}: lower is better"
    if result["case"] == "counted":
        return f"{lower}; TER ignores case."
    advice = "" if result["tokenize"] == "moses" else "; --cased counts it, except in TER"
    return f"{lower}. Case is ignored{advice}."


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: names to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    columns = [str.ljust, *[str.rjust] * (len(widths) - 1)]
    return ["  ".join(map(lambda align, *cell: align(*cell), columns, row, widths)) for row in rows]
