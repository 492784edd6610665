"""Commands that translate."""

import json
from collections.abc import Sequence
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
    direction_options,
    engine_option,
    load_settings,
    search_options,
    shard_option,
)
from nmt.cli.streams import check_endings, check_streams, run_prompt, write_output, write_translations
from nmt.system.errors import ConfigError

if TYPE_CHECKING:
    from nmt.system.chunks import Shard
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
@direction_options
@shard_option
@device_options
def decode(
    model: Path,
    source: Path,
    out: Path,
    settings: str,
    images: Path | None,
    attended: Sequence[int],
    source_language: str | None,
    target_language: str | None,
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
        languages = target_language, source_language
        decode_file(
            model, source, out, decoding, device, threads, images, shard, attended=attended, languages=languages
        )


@click.command("translate-text")
@click.argument("model", type=PATH)
@click.argument("text", type=PATH)
@click.argument("out", type=OUTPUT)
@config_option
@direction_options
@device_options
def translate_text(
    model: Path,
    text: Path,
    out: Path,
    settings: str,
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
) -> None:
    """Translate the raw file TEXT with MODEL into OUT, line by line, as one side of training pairs for `nmt mix`."""
    from nmt.config.decoding import Decoding
    from nmt.system.gpus import claim_gpu
    from nmt.system.warnings import recorded
    from nmt.translation.augment import translate_text as translate_file

    decoding = load_settings(Decoding, settings)
    with claim_gpu(device), recorded("translate-text", out):
        translate_file(model, text, out, decoding, device, threads, (target_language, source_language))


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
@engine_option
@direction_options
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
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
    **search: Any,
) -> None:
    """Translate raw text with MODEL: FILES, standard input (also as -), or line by line at a prompt.

    A line may have many sentences; line n of the output translates line n. Output appears as it is made.
    """
    decoding = decoding_of(search, nbest)
    files = () if files == (Path("-"),) else files
    at_prompt = check_streams(model, files, out)
    translator = load_translator(model, device, threads, source_language, target_language, single=at_prompt)

    from nmt.system.files import sha256  # after `load_translator`, which imports most of it faster
    from nmt.translation.sentences import Sentences, translate_lines

    engine = translator.engines.name(decoding)
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
        made = [decoding.model_dump(mode="json"), engine, nbest, scores, as_json, sentences is not None]
        made += [translator.languages, attention and str(attention.resolve())]  # figures of earlier lines lie there
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
@direction_options
@device_options
def logprob(
    model: Path,
    source: Path,
    target: Path,
    words: bool,
    as_json: bool,
    images: Path | None,
    out: Path | None,
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
) -> None:
    """Write how probable MODEL finds each line of TARGET as the translation of the same line of SOURCE, raw text.

    Each line has the log-probability (nats), the perplexity per piece and the number of pieces, EOS counted. Totals go
    to standard error.
    """
    from nmt.data.features import no_pictures
    from nmt.scoring.files import read_texts
    from nmt.system.files import check_not_input, check_writable
    from nmt.system.progress import Progress
    from nmt.translation.forced import score_pairs, totals
    from nmt.translation.formats import likelihood_json, likelihood_line

    if out:
        check_writable(out)
        check_not_input(out, [model, source, target, *([images] if images else [])])
    texts = read_texts({"target": target, "source": source})
    translator = load_translator(model, device, threads, source_language, target_language, single=False)
    check_endings(translator.languages, source, target)
    count = len(texts["source"])
    pictures = translator.pictures(images, None, count) if images else no_pictures
    with Progress("logprob", count, "pair") as bar:
        scored = score_pairs(translator, texts["source"], texts["target"], pictures, bar.update, report_cut=None)
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


def load_translator(
    model: Path, device: str, threads: int | None, source: str | None, target: str | None, single: bool
) -> "Translator":
    """Load a model for single sentences, or for many at once; the languages are those of `choose_direction`.

    Garbage collection is off meanwhile: it would search the many objects of the imported modules, also at exit.
    """
    import gc

    gc.disable()
    try:
        from nmt.system.workers import processes_for
        from nmt.translation.translator import Translator

        translator = Translator.load(model, device, threads, 1 if single else processes_for(device, threads))
        gc.freeze()
    finally:
        gc.enable()
    return translator.toward(target, source)
