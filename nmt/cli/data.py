"""Commands that turn a corpus into encoded training text."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nmt.cli.options import (
    COUNT,
    OUTPUT,
    PATH,
    config_option,
    device_options,
    direction_options,
    languages_option,
    load_settings,
    pairs_option,
    shard_option,
)
from nmt.config.choices import joined_subtags
from nmt.system.errors import ConfigError
from nmt.system.warnings import recorded

if TYPE_CHECKING:
    from nmt.system.chunks import Shard


@click.command()
@click.argument("corpus")
@click.argument("languages", callback=lambda *given: joined_subtags(given[-1]))
@click.argument("out", type=OUTPUT)
@click.option(
    "--mirror",
    type=PATH,
    show_default="NMT_MIRROR, else the corpus's URLs",
    help="Folder with the same files, read instead of the network.",
)
@click.option(
    "--limit",
    type=COUNT,
    show_default="all lines",
    help="Keep only the first lines of every split; several sources share them.",
)
@click.option(
    "--custom",
    show_default="a corpus of the catalogue",
    help="YAML text that describes a corpus of your own: train, valid, tests.",
)
@click.option(
    "--checksums",
    type=PATH,
    show_default="none",
    help="Of a corpus of your own: JSON file that records the checksums of downloads, and later enforces them.",
)
def download(
    corpus: str,
    languages: str,
    out: Path,
    mirror: Path | None,
    limit: int | None,
    custom: str | None,
    checksums: Path | None,
) -> None:
    """Download CORPUS into the folder OUT and verify its checksums.

    LANGUAGES is a pair, e.g. en-de; or one language, e.g. en, for text alone.
    """
    from nmt.config import yaml
    from nmt.config.corpus.sources import CustomCorpus
    from nmt.corpora.catalogue import fetch

    description = yaml.parse(CustomCorpus, custom, "--custom") if custom else None
    with recorded("download", out):
        fetch(corpus, languages, out, mirror=mirror, limit=limit, custom=description, checksums=checksums)


@click.command()
@click.argument("raw", type=PATH)
@click.argument("text", type=PATH)
@click.argument("translations", type=PATH)
@click.argument("out", type=OUTPUT)
@languages_option
@click.option("--copies", type=COUNT, default=1, help="How often the true pairs are repeated.")
@click.option("--tag", show_default="no tag", help="A word put before each added source sentence.")
def mix(raw: Path, text: Path, translations: Path, out: Path, languages: str, copies: int, tag: str | None) -> None:
    """Add machine-translated pairs to the training text of RAW; writes the new corpus OUT.

    TEXT is the raw corpus whose training text was translated. TRANSLATIONS is the folder that `nmt translate-text`
    wrote its translations into.
    """
    from nmt.config.types import TAG
    from nmt.translation.augment import mix as mix_corpora

    if tag and not re.fullmatch(TAG, tag):
        raise ConfigError(f"--tag: expected letters, got {tag!r}")
    with recorded("mix", out):
        mix_corpora(raw, text, translations, out, languages, copies, tag)


@click.command("word-vectors")
@click.argument("text", type=PATH)
@click.argument("out", type=OUTPUT)
@click.option("--language", required=True, help="Language of the text, e.g. en.")
@config_option
@click.option("--width", type=COUNT, required=True, help="Numbers per vector: the model's width.")
def word_vectors(text: Path, out: Path, language: str, settings: str, width: int) -> None:
    """Learn word vectors from the raw TEXT by word2vec; writes OUT, for `nmt train --word-vectors`.

    The text is cleaned first, as the configuration says.
    """
    from nmt.config.data import Cleaning
    from nmt.data.word2vec import learn

    learn(text, out, width, load_settings(Cleaning, settings), language)


@click.command()
@click.argument("raw", type=PATH)
@click.argument("out", type=OUTPUT)
@languages_option
@config_option
@click.option("--jobs", type=COUNT, default=1, help="Worker processes.")
@shard_option
def clean(raw: Path, out: Path, languages: str, settings: str, jobs: int, shard: "Shard | None") -> None:
    """Normalise, tokenise and filter the raw corpus RAW; writes the cleaned corpus OUT."""
    from nmt.config.data import Cleaning
    from nmt.text.clean import clean as clean_corpus

    with recorded("clean", None if shard else out):
        clean_corpus(raw, out, load_settings(Cleaning, settings), languages, jobs, shard)


@click.command()
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.argument("out", type=OUTPUT)
@click.option("--forward", type=PATH, required=True, help="Model directory, from the source's language.")
@click.option("--backward", type=PATH, show_default="none", help="Model directory of the other direction.")
@direction_options
@device_options
def score_pairs(
    source: Path,
    target: Path,
    out: Path,
    forward: Path,
    backward: Path | None,
    source_language: str | None,
    target_language: str | None,
    device: str,
    threads: int | None,
) -> None:
    """Score each pair of SOURCE and TARGET, raw text, by models; writes a number on each line of OUT.

    The filter `scores` of cleaning drops the pairs below a number. SOURCE and TARGET are train.LANGUAGE of the raw
    corpus. With both models, the score is minus the dual conditional cross-entropy (Junczys-Dowmunt 2018).
    """
    from tqdm import tqdm

    from nmt.cli.streams import check_endings
    from nmt.system.files import check_not_input, check_writable
    from nmt.system.workers import processes_for
    from nmt.translation.pairs import score_text
    from nmt.translation.translator import Translator

    check_writable(out)
    check_not_input(out, [source, target])
    models = [model for model in (forward, backward) if model]
    workers = processes_for(device, threads)
    with tqdm(unit="pair", disable=None) as bar:
        translators = [Translator.load(model, device, threads, workers) for model in models]
        given = (target_language, source_language), (source_language, target_language)
        translators = [t.toward(*languages) for t, languages in zip(translators, given, strict=False)]
        check_endings(translators[0].languages, source, target)
        score_text(translators, source, target, out, bar.update)


@click.command()
@click.argument("raw", type=PATH)
@click.argument("clean", type=PATH)
@click.argument("out", type=OUTPUT)
@languages_option
@click.option("--count", type=COUNT, required=True, help="Number of sentence pairs.")
def sample(raw: Path, clean: Path, out: Path, languages: str, count: int) -> None:
    """Write a sample of the training text of RAW and CLEAN into the folder OUT, as a test set.

    CLEAN is the corpus that `nmt clean` made of RAW.
    """
    from nmt.text.sample import sample as sample_corpus

    with recorded("sample", out):
        sample_corpus(raw, clean, out, languages, count)


@click.command()
@click.argument("clean", type=PATH, nargs=-1, required=True)
@click.argument("out", type=OUTPUT)
@pairs_option
@config_option
@click.option("--threads", type=COUNT, default=1, help="CPU threads.")
def subwords(clean: tuple[Path, ...], out: Path, languages: str, settings: str, threads: int) -> None:
    """Learn the vocabularies of the training text in CLEAN; writes the subword models into the folder OUT.

    Several pairs of languages have a folder CLEAN each, in the order of --languages. They share one vocabulary.
    """
    from nmt.config.data import Subwords
    from nmt.text.subwords import learn

    with recorded("subwords", out):
        learn(clean, out, languages, load_settings(Subwords, settings), threads)


@click.command()
@click.argument("parent", type=PATH)
@click.argument("out", type=PATH)
@pairs_option
@click.option("--dropout", type=click.FloatRange(0, 1, max_open=True), default=0.0, help="BPE dropout.")
@click.option("--segmentations", type=COUNT, default=1, help="With dropout: segmentations of the training text.")
def inherit_subwords(parent: Path, out: Path, languages: str, dropout: float, segmentations: int) -> None:
    """Take the subword models of PARENT, a model directory or a folder of subword models; writes the folder OUT."""
    from nmt.text.subwords import inherit

    inherit(parent, out, languages, dropout, segmentations)


@click.command()
@click.argument("clean", type=PATH, nargs=-1, required=True)
@click.argument("subwords", type=PATH)
@click.argument("out", type=OUTPUT)
@pairs_option
@shard_option
def encode(clean: tuple[Path, ...], subwords: Path, out: Path, languages: str, shard: "Shard | None") -> None:
    """Encode the training and validation text of CLEAN with the vocabularies in SUBWORDS; writes the folder OUT.

    Several pairs of languages have a folder CLEAN each, in the order of --languages.
    """
    from nmt.data.encode import encode_corpus

    with recorded("encode", None if shard else out):
        encode_corpus(clean, subwords, out, languages, shard)
