"""Commands that show where a model looks: word alignments and attention."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.options import COUNT, PATH, decoding_of, device_options, direction_options, search_options
from nmt.cli.streams import check_endings, write_output
from nmt.cli.translation import load_translator
from nmt.system.errors import ConfigError, printable

if TYPE_CHECKING:
    from nmt.translation.align import Alignment


@click.command()
@click.argument("model", type=PATH)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.option(
    "--layer",
    type=COUNT,
    show_default="the one whose linked words predict each other best",
    help="Layer of the attention. Without it, standard error says what was found of each layer.",
)
@click.option("--head", type=COUNT, show_default="the mean of all", help="Head of the attention.")
@click.option(
    "--valid",
    type=PATH,
    nargs=2,
    metavar="SOURCE TARGET",
    show_default="the text itself",
    help="Text and its translation, raw, to choose the layer by.",
)
@click.option(
    "--gold",
    type=PATH,
    show_default="none",
    help="File of true alignments of the text that the layer is chosen by; the lowest error rate decides.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line, with the words and their links.")
@click.option("--out", type=PATH, show_default="standard output", help="File for the alignments.")
@direction_options
@device_options
def align(
    model: Path,
    source: Path,
    target: Path,
    layer: int | None,
    head: int | None,
    valid: tuple[Path, Path] | None,
    gold: Path | None,
    as_json: bool,
    out: Path | None,
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
) -> None:
    """Align the words of SOURCE and its translation TARGET, raw text, by the attention of MODEL.

    Each line has the links of a pair in Pharaoh format, 0-0 1-2: source word and target word, counted from 0.
    """
    from nmt.scoring.files import read_texts
    from nmt.system.files import check_not_input, check_writable
    from nmt.system.progress import Progress
    from nmt.translation.align import align as align_pairs
    from nmt.translation.align import links_of, pharaoh

    if out:
        check_writable(out)
        check_not_input(out, [model, source, target, *(valid or []), *([gold] if gold else [])])
    files = [(source, target), *([valid] if valid else [])]
    texts = [read_texts({"target": translation, "source": text}) for text, translation in files]
    translator = load_translator(model, device, threads, source_language, target_language, single=True)
    for pair in files:
        check_endings(translator.languages, *pair)
    with Progress("align", sum(len(text["source"]) for text in texts), "pair") as bar:
        alignments, *chosen_by = [align_pairs(translator, t["source"], t["target"], bar.update, head) for t in texts]
    chosen = _chosen_layer(layer, chosen_by[0] if chosen_by else alignments, gold)
    rows = [(alignment, links_of(alignment, chosen)) for alignment in alignments]
    if skipped := sum(bool(a.source and a.target and not links) for a, links in rows):
        click.echo(f"{target}: {skipped:,} lines are longer than the model's positions and have no links", err=True)
    if as_json:
        facts = ({"source": a.source, "target": a.target, "links": sorted(links)} for a, links in rows)
        write_output("".join(json.dumps(fact, ensure_ascii=False) + "\n" for fact in facts), out)
    else:
        write_output("".join(f"{pharaoh(links)}\n" for _, links in rows), out)


def _chosen_layer(layer: int | None, alignments: "Sequence[Alignment]", gold: Path | None) -> int:
    """The given layer, or the best one for some pairs; standard error says what was found of each layer."""
    from nmt.translation.align import check_layer, choose_layer, read_pharaoh

    if layer:
        check_layer(layer, alignments)
        if not gold:
            return layer
    best, values = choose_layer(alignments, read_pharaoh(gold, alignments) if gold else None)
    measure = "alignment error rate" if gold else "log-likelihood of the links"
    for number, value in enumerate(values, 1):
        click.echo(f"layer {number}: {measure} {value:.4f}{' (used)' * (number == (layer or best))}", err=True)
    return layer or best


def _number_or(*words: str) -> Callable[..., int | str]:
    """A callback for an option that is a number from 1 or one of these words."""

    def check(_: click.Context, option: click.Parameter, value: str) -> int | str:
        if value in words:
            return value
        if not value.isdecimal():
            expected = " or ".join(", ".join(["a number from 1", *words]).rsplit(", ", 1))
            raise ConfigError(f"--{option.name}: expected {expected}, got '{value}'")
        return int(value)

    return check


@click.command()
@click.argument("model", type=PATH)
@click.argument("sentence")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the figure and its weights.")
@click.option("--part", type=click.Choice(["source", "encoder", "decoder"]), default="source", help="The sub-layer.")
@click.option("--layer", default="all", callback=_number_or("all"), help="A number from 1, or all.")
@click.option("--head", default="all", callback=_number_or("mean", "all"), help="A number from 1, mean, or all.")
@click.option("--words", is_flag=True, help="Join subwords into words.")
@click.option(
    "--image",
    type=PATH,
    show_default="no picture",
    help="The sentence's picture: draws where on it a multimodal model looked, DIR/image.png; without --part, --words.",
)
@search_options
@direction_options
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
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
    **search: Any,
) -> None:
    """Translate SENTENCE with MODEL and draw the attention of a sub-layer; writes DIR/PART.png, .svg and .json."""
    from nmt.report.figures.attention_maps import write, write_over

    translator = load_translator(model, device, threads, source_language, target_language, single=True)
    if not (line := translator.clean(sentence)):
        raise ConfigError(f"SENTENCE: expected words, got '{sentence}'; give a sentence in quotes")
    if " " not in sentence and Path(sentence).is_file():
        advice = "give a sentence in quotes; nmt translate --attention takes files"
        raise ConfigError(f"SENTENCE: expected words, got the file {sentence}; {advice}")
    decoding = decoding_of(search)
    if image:
        if words or part != "source":
            raise ConfigError("--image: expected neither --part nor --words beside it; leave them out")
        best = write_over(image, translator, line, decoding, out / "image", layer, head)
    else:
        best = translator.translate_clean([line], decoding)[0][0]
        write(translator, line, best, out / part, part, layer, head, words)
    click.echo(printable(translator.detokenize(best.text)))
