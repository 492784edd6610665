"""Commands that score translations."""

import json
from pathlib import Path

import click

from nmt.cli.options import PATH, languages_option
from nmt.config.choices import ON_REQUEST


@click.command()
@click.argument("hypotheses", type=PATH)
@click.option("--clean", type=PATH, required=True, help="Folder of the cleaned corpus.")
@click.option("--raw", type=PATH, required=True, help="Folder of the raw corpus.")
@click.option("--test", required=True, help="Name of the test set.")
@click.option("--model", type=PATH, required=True, help="Model directory that wrote the translations.")
@click.option("--out", type=PATH, required=True, help="Folder of scores.json and the texts scored.")
@click.option(
    "--also",
    multiple=True,
    type=click.Choice(ON_REQUEST),
    show_default="none",
    help="One more metric. Can be given several times.",
)
@languages_option
def score(
    hypotheses: Path, clean: Path, raw: Path, test: str, model: Path, out: Path, also: tuple[str, ...], languages: str
) -> None:
    """Score the file HYPOTHESES of `nmt decode` by BLEU, chrF, TER and exact match, tokenised and detokenised."""
    from nmt.scoring.score import score as score_hypotheses
    from nmt.system.warnings import recorded

    source, target = languages.split("-")
    with recorded("score", out / "scores.json"):
        score_hypotheses(hypotheses, clean, raw, test, source, target, model, out, also)


@click.command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
def compare(first: Path, second: Path) -> None:
    """Test whether two systems differ, by paired bootstrap of the score folders FIRST and SECOND; prints JSON."""
    from nmt.scoring.significance import compare as compare_scores

    click.echo(json.dumps(compare_scores(first, second), indent=2))
