"""Commands that translate."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.options import (
    COUNT,
    OUTPUT,
    PATH,
    config_option,
    decoding_of,
    device_options,
    load_settings,
    search_options,
    shard_option,
)
from nmt.cli.streams import check_endings, check_streams, run_prompt, write_output, write_translations
from nmt.system.errors import ConfigError, printable

if TYPE_CHECKING:
    from nmt.system.chunks import Shard
    from nmt.translation.align import Alignment
    from nmt.translation.translator import Translator


@click.command()
@click.argument("model", type=PATH)
@click.argument("source", type=PATH)
@click.argument("out", type=OUTPUT)
@config_option
@click.option(
    "--images",
    type=PATH,
    show_default="none, for a text-only model",
    help="Array of the lines' image features (.npy), for a multimodal model.",
)
@click.option(
    "--attend",
    "attended",
    metavar="LINE",
    type=COUNT,
    multiple=True,
    show_default="ten lines, evenly spaced",
    help="Line whose attention is written, from 1; may be repeated.",
)
@shard_option
@device_options
def decode(
    model: Path,
    source: Path,
    out: Path,
    settings: str,
    images: Path | None,
    attended: Sequence[int],
    shard: "Shard | None",
    device: str,
    threads: int | None,
) -> None:
    """Translate the cleaned file SOURCE with MODEL, line by line; writes the file OUT.

    The settings and times are written beside it into decoding.json, so each OUT needs a folder of its own.
    """
    from nmt.config.decoding import Decoding
    from nmt.system.gpus import claim_gpu
    from nmt.system.warnings import recorded
    from nmt.translation.decode_file import decode_file

    decoding = load_settings(Decoding, settings)
    with claim_gpu(device), recorded("decode", None if shard else out):
        decode_file(model, source, out, decoding, device, threads, images, shard, attended=attended)


@click.command("translate-text")
@click.argument("model", type=PATH)
@click.argument("text", type=PATH)
@click.argument("out", type=OUTPUT)
@config_option
@device_options
def translate_text(model: Path, text: Path, out: Path, settings: str, device: str, threads: int | None) -> None:
    """Translate the raw file TEXT with MODEL into OUT, line by line, as one side of training pairs for `nmt mix`."""
    from nmt.config.decoding import Decoding
    from nmt.system.gpus import claim_gpu
    from nmt.system.warnings import recorded
    from nmt.translation.augment import translate_text as translate_file

    decoding = load_settings(Decoding, settings)
    with claim_gpu(device), recorded("translate-text", out):
        translate_file(model, text, out, decoding, device, threads)


@click.command()
@click.argument("model", type=PATH)
@click.argument("files", type=PATH, nargs=-1)
@search_options
@click.option(
    "--nbest", type=COUNT, default=1, help="Translations of each line; above 1, each begins with its line's number."
)
@click.option("--scores", is_flag=True, help="Write before each translation its score, log p / length^penalty.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON object per line: the source, and each translation's text, score and tokens.",
)
@click.option(
    "--attention",
    type=PATH,
    metavar="DIR",
    show_default="no figures",
    help="Folder for one figure per line, of the attention over its source; lines are not split.",
)
@click.option(
    "--split/--no-split",
    default=True,
    help="Split lines into sentences, and what is longer than the model allows into parts; or translate each line as "
    "it is, and cut it to the model's length with a warning.",
)
@click.option(
    "--out", type=PATH, show_default="standard output", help="File for the translations; an interrupted run goes on."
)
@device_options
def translate(
    model: Path,
    files: tuple[Path, ...],
    nbest: int,
    scores: bool,
    as_json: bool,
    attention: Path | None,
    split: bool,
    out: Path | None,
    device: str,
    threads: int | None,
    **search: Any,
) -> None:
    """Translate raw text with MODEL: FILES, standard input, or line by line at a prompt.

    A line may have many sentences; line n of the output translates line n. Output appears as it is made.
    """
    from nmt.system.files import sha256
    from nmt.translation.sentences import Sentences, translate_lines

    decoding = decoding_of(search, nbest)
    at_prompt = check_streams(files, out)
    translator = _load_translator(model, device, threads, single=at_prompt)
    if attention and not translator.has_attention:
        raise ConfigError("--attention: expected a model with attention, got one without; leave the option away")

    sentences = Sentences.of(translator) if split and not attention else None

    def translate_chunk(lines: Sequence[str], first: int = 1) -> str:
        from nmt.translation.formats import json_line, tab_separated

        results = translate_lines(translator, sentences, lines, decoding)
        if attention:
            from nmt.report.figures.attention_maps import write_each

            write_each(translator, lines, results, attention, first)
        if as_json:
            return "".join(json_line(*pair, translator.target) for pair in zip(lines, results, strict=True))
        return "".join(tab_separated(row, n if nbest > 1 else None, scores) for n, row in enumerate(results, first))

    if at_prompt:
        run_prompt(translator.languages, translate_chunk)
    else:
        made = [decoding.model_dump(mode="json"), nbest, scores, as_json, split]
        made += [sha256(file) for file in sorted(model.iterdir()) if file.is_file()] if out else []
        write_translations(files, out, made, translate_chunk)
    if sentences:
        sentences.report()


@click.command()
@click.argument("model", type=PATH)
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.option("--words", is_flag=True, help="Add each cleaned word and its log-probability.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per line, and at the end one with the key total."
)
@click.option(
    "--images",
    type=PATH,
    show_default="blank pictures",
    help="Array of the lines' image features (.npy), for a multimodal model.",
)
@click.option("--out", type=PATH, show_default="standard output", help="File for the lines.")
@device_options
def logprob(
    model: Path,
    source: Path,
    target: Path,
    words: bool,
    as_json: bool,
    images: Path | None,
    out: Path | None,
    device: str,
    threads: int | None,
) -> None:
    """Write how probable MODEL finds each line of TARGET as the translation of the same line of SOURCE, raw text.

    Each line has the log-probability (nats), the perplexity per piece and the number of pieces, EOS counted. Totals go
    to standard error.
    """
    from tqdm import tqdm

    from nmt.data.features import no_pictures
    from nmt.scoring.files import read_texts
    from nmt.system.files import check_not_input, check_writable
    from nmt.translation.forced import score_pairs, totals
    from nmt.translation.formats import likelihood_json, likelihood_line

    if out:
        check_writable(out)
        check_not_input(out, [source, target])
    texts = read_texts({"target": target, "source": source})
    translator = _load_translator(model, device, threads, single=False)
    check_endings(translator.languages, source, target)
    count = len(texts["source"])
    pictures = translator.pictures(images, None, count) if images else no_pictures
    with tqdm(total=count, unit="pair", disable=None) as bar:
        scored = score_pairs(translator, texts["source"], texts["target"], pictures, bar.update)
    total = totals(scored, texts["target"])
    if as_json:
        lines = [likelihood_json(n, likelihood, translator.target, words) for n, likelihood in enumerate(scored, 1)]
        write_output("".join([*lines, json.dumps({"total": total}) + "\n"]), out)
    else:
        write_output("".join(likelihood_line(likelihood, translator.target, words) for likelihood in scored), out)
        click.echo(total_line(total, target), err=True)


def total_line(total: dict[str, Any], target: Path) -> str:
    """The result of `nmt.translation.forced.totals` for readers."""
    perplexity, bits = (total[key] for key in ("perplexity", "bits_per_character"))
    line = f"{target}: {total['pairs']:,} lines, {total['tokens']:,} tokens (pieces, EOS counted)"
    line += f", perplexity {perplexity:.4f}" if perplexity else ""
    line += f", {bits:.4f} bits per character of {total['characters']:,}" if bits is not None else ""
    if total["too_long"]:
        line += f"; {total['too_long']:,} lines are longer than the model's positions and have no score (nan)"
    return line


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
    device: str,
    threads: int | None,
) -> None:
    """Align the words of SOURCE and its translation TARGET, raw text, by the attention of MODEL.

    Each line has the links of a pair in Pharaoh format, 0-0 1-2: source word and target word, counted from 0.
    """
    from tqdm import tqdm

    from nmt.scoring.files import read_texts
    from nmt.system.files import check_not_input, check_writable
    from nmt.translation.align import align as align_pairs
    from nmt.translation.align import links_of, pharaoh

    if out:
        check_writable(out)
        check_not_input(out, [source, target, *(valid or []), *([gold] if gold else [])])
    files = [(source, target), *([valid] if valid else [])]
    texts = [read_texts({"target": translation, "source": text}) for text, translation in files]
    translator = _load_translator(model, device, threads, single=True)
    for pair in files:
        check_endings(translator.languages, *pair)
    with tqdm(total=sum(len(text["source"]) for text in texts), unit="pair", disable=None) as bar:
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


def _load_translator(model: Path, device: str, threads: int | None, single: bool) -> "Translator":
    """Load a model for single sentences, or for many at once.

    The imported modules are kept from garbage collection, which would search them at exit.
    """
    import gc

    from nmt.system.workers import processes_for
    from nmt.translation.translator import Translator

    translator = Translator.load(model, device, threads, 1 if single else processes_for(device, threads))
    gc.freeze()
    return translator


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
    device: str,
    threads: int | None,
    **search: Any,
) -> None:
    """Translate SENTENCE with MODEL and draw the attention of a sub-layer; writes DIR/PART.png, .svg and .json."""
    from nmt.report.figures.attention_maps import write, write_over

    translator = _load_translator(model, device, threads, single=True)
    if not (line := translator.clean(sentence)):
        raise ConfigError(f"SENTENCE: expected words, got '{sentence}'; give a sentence in quotes")
    decoding = decoding_of(search)
    if image:
        if words or part != "source":
            raise ConfigError("--image: expected neither --part nor --words beside it; leave them out")
        best = write_over(image, translator, line, decoding, out / "image", layer, head)
    else:
        best = translator.translate_clean([line], decoding)[0][0]
        write(translator, line, best, out / part, part, layer, head, words)
    click.echo(printable(translator.detokenize(best.text)))
