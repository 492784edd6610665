"""The command line of each stage, ``nmt STAGE …``, as a list of words.

The rules of the workflow give Snakemake's placeholders, ``{input.model}``; `nmt.reproduce` gives values. `options` are
words made by the function ``STAGE_options``, or a placeholder for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Images, Subwords
from nmt.config.system import AddedText
from nmt.config.workflow import Tracking
from nmt.plan.systems import as_json

Word = str | int | Path
CHECKSUMS = Path("corpora.lock.json")
"""Checksums of what the user's own corpora download, kept beside config.yaml."""


def download(corpus: Word, languages: Word, out: Word, *options: Word) -> list[str]:
    """Fetch raw text."""
    return _command("download", corpus, languages, out, options=options)


def download_options(limit: int | None, custom: CustomCorpus | None) -> list[str]:
    """Options of `download`: the lines of a trial, the user's own corpus, and the checksums of what it downloads."""
    sources = [source for split in custom.splits.values() for source in split] if custom else []
    recorded = [f"--checksums={CHECKSUMS}"] if any(source.is_remote for source in sources) else []
    return _limit(limit) + ([f"--custom={as_json(custom)}"] if custom else []) + recorded


def translate_text(
    model: Word, text: Word, out: Word, *options: Word, config: Word, device: Word, threads: Word
) -> list[str]:
    """Translate text for another system's training."""
    return _command("translate-text", model, text, out, config=config, device=device, threads=threads, options=options)


def mix(raw: Word, text: Word, translations: Word, out: Word, *options: Word, languages: Word) -> list[str]:
    """Add translated pairs to raw text."""
    return _command("mix", raw, text, translations, out, languages=languages, options=options)


def mix_options(added: AddedText) -> list[str]:
    """Options of `mix`: how often the true pairs are there, and a tag on the added sources."""
    return [f"--copies={added.copies}", *([f"--tag={added.tag}"] if added.tag else [])]


def clean(raw: Word, out: Word, *options: Word, languages: Word, config: Word, jobs: Word) -> list[str]:
    """Normalise, tokenise and filter raw text."""
    return _command("clean", raw, out, languages=languages, config=config, jobs=jobs, options=options)


def score_pairs(source: Word, target: Word, out: Word, *options: Word, device: Word, threads: Word) -> list[str]:
    """Score raw training pairs by models, for a filter of cleaning."""
    return _command("score-pairs", source, target, out, device=device, threads=threads, options=options)


def score_pairs_options(models: Sequence[Word]) -> list[str]:
    """Options of `score_pairs`: the model of the text's direction, and perhaps that of the other one."""
    return [f"--{way}={model}" for way, model in zip(("forward", "backward"), models, strict=False)]


def sample(raw: Word, clean: Word, out: Word, *, languages: Word, count: Word) -> list[str]:
    """Sample training pairs as a test set."""
    return _command("sample", raw, clean, out, languages=languages, count=count)


def subwords(clean: Word, out: Word, *, languages: Word, config: Word, threads: Word) -> list[str]:
    """Learn the subword models; of several pairs of languages, ``clean`` is a placeholder for their folders."""
    return _command("subwords", clean, out, languages=languages, config=config, threads=threads)


def inherit_subwords(parent: Word, out: Word, *options: Word, languages: Word) -> list[str]:
    """Take over the subword models of a parent."""
    return _command("inherit-subwords", parent, out, languages=languages, options=options)


def inherit_subwords_options(subwords: Subwords) -> list[str]:
    """Options of `inherit_subwords`: how training text is encoded."""
    chosen = subwords.model_dump(include={"dropout", "segmentations"}, exclude_defaults=True)
    return [f"--{name}={value}" for name, value in chosen.items()]


def encode(clean: Word, subwords: Word, out: Word, *options: Word, languages: Word) -> list[str]:
    """Encode training and validation text; of several pairs of languages, ``clean`` is as in `subwords`."""
    return _command("encode", clean, subwords, out, languages=languages, options=options)


def draw(out: Word, *options: Word) -> list[str]:
    """Draw or unpack the pictures of a corpus that comes with some."""
    return _command("draw", out, options=options)


def draw_options(limit: int | None, corpus: str) -> list[str]:
    """Options of `draw`: the pictures of a trial, and a corpus whose pictures are not drawn."""
    return _limit(limit) + ([] if corpus == "scenes" else [f"--corpus={corpus}"])


def features(
    folder: Word, names: Word, out: Word, *options: Word, backbone: Word, device: Word, threads: Word
) -> list[str]:
    """Extract the image features of a split."""
    return _command("features", folder, names, out, backbone=backbone, device=device, threads=threads, options=options)


def features_options(limit: int | None, images: Images | None) -> list[str]:
    """Options of `features`: the pictures of a trial, and the user's choices for their own pictures."""
    weights = [f"--weights={images.weights}"] if images and images.weights else []
    return _limit(limit) + ([*weights, f"--missing={images.missing}"] if images else [])


def lsa(text: Word, out: Word) -> list[str]:
    """Learn vectors of image descriptions."""
    return _command("lsa", text, out)


def pseudo_regions(analysis: Word, sentences: Word, descriptions: Word, out: Word) -> list[str]:
    """Write vectors of descriptions in place of image features."""
    return _command("pseudo-regions", analysis, sentences, descriptions, out)


def word_vectors(text: Word, out: Word, *, language: Word, config: Word, width: Word) -> list[str]:
    """Learn word vectors from text."""
    return _command("word-vectors", text, out, language=language, config=config, width=width)


def train(
    encoded: Word, run: Word, *options: Word, config: Word, seed: Word, name: Word, device: Word, threads: Word
) -> list[str]:
    """Train a system with one seed."""
    return _command(
        "train", encoded, run, config=config, seed=seed, name=name, device=device, threads=threads, options=options
    )


def train_options(
    features: Sequence[Word], vectors: Mapping[str, Path], parent: Path | None = None, alignments: Path | None = None
) -> list[str]:
    """Options of `train`: folder of the image features, word vectors by side, the parent's model, alignments."""
    images = _named(images=Path(str(features[0])).parent) if features else []
    start = [f"--initialise={parent}"] if parent else []
    links = [f"--alignments={alignments}"] if alignments else []
    return [*images, *(f"--word-vectors={side}={file}" for side, file in vectors.items()), *start, *links]


def keep_state(state: Word, url: Word, *command: Word, lock: bool = False) -> list[str]:
    """Keep a training's state in a bucket while another command runs; a lock refuses a second one that trains."""
    return [*_command("keep-state", *(["--lock"] if lock else []), state, url), "--", *map(str, command)]


def average(run: Word, model: Word, *, at: Word, encoded: Word) -> list[str]:
    """Make a model directory of the checkpoints that a selection names."""
    return _command("average", run, model, at=at, encoded=encoded)


def average_with_start(run: Word, model: Word, *, at: Word, encoded: Word, start: Word) -> list[str]:
    """Make a model directory of the weights that the training started from, or of their mean with checkpoints."""
    return _command("average", run, model, at=at, encoded=encoded, start=start)


def ensemble(out: Word, *models: Word) -> list[str]:
    """Make a model directory of several models."""
    return _command("ensemble", *models, out)


def decode(
    model: Word, source: Word, out: Word, *options: Word, config: Word, device: Word, threads: Word
) -> list[str]:
    """Translate a test set."""
    return _command("decode", model, source, out, config=config, device=device, threads=threads, options=options)


def decode_options(features: Sequence[Word], lines: Sequence[int] = (), pair: str | None = None) -> list[str]:
    """Options of `decode`: the test set's image features, lines whose attention is written, the pair of languages."""
    languages = direction_options(pair) if pair else []
    return [*(_named(images=features[0]) if features else []), *(f"--attend={line}" for line in lines), *languages]


def direction_options(pair: str) -> list[str]:
    """Options of the commands that translate, for a model with several pairs of languages."""
    source, target = pair.split("-")
    return [f"--from={source}", f"--to={target}"]


def score(
    hypotheses: Word, *options: Word, clean: Word, raw: Word, test: Word, languages: Word, model: Word, out: Word
) -> list[str]:
    """Score the translations of a test set."""
    return _command(
        "score", hypotheses, clean=clean, raw=raw, test=test, languages=languages, model=model, out=out, options=options
    )


def score_output(
    hypotheses: Word, *options: Word, clean: Word, raw: Word, test: Word, languages: Word, out: Word
) -> list[str]:
    """Score another system's translations of a test set."""
    return _command("score", hypotheses, clean=clean, raw=raw, test=test, languages=languages, out=out, options=options)


def score_options(metrics: Iterable[str]) -> list[str]:
    """Options of `score`: the metrics that a table asks for besides those of every row."""
    return [f"--also={metric}" for metric in metrics]


def comet_environment(folder: Word) -> list[str]:
    """Install unbabel-comet into an environment of its own."""
    return _command("comet-environment", folder)


def comet(hypotheses: Word, *, source: Word, reference: Word, checkpoint: Word, python: Word, out: Word) -> list[str]:
    """Score a row's translations by COMET."""
    return _command(
        "comet", hypotheses, source=source, reference=reference, checkpoint=checkpoint, python=python, out=out
    )


def report(table: Word, *, config: Word) -> list[str]:
    """Write a table and its figures."""
    return _command("report", table, config=config)


def track(run: Word, *, tracking: Word, name: Word, seed: Word, out: Word) -> list[str]:
    """Publish a finished training to MLflow."""
    return _command("track publish", run, tracking=tracking, name=name, seed=seed, out=out)


def track_table(table: Word, *options: Word, tracking: Word, out: Word) -> list[str]:
    """Publish a built table to MLflow."""
    return _command("track table", table, tracking=tracking, out=out, options=options)


def track_table_options(tracking: Tracking) -> list[str]:
    """Options of `track_table`: what happens to the rows' models."""
    return [
        *([] if tracking.models else ["--no-models"]),
        *([f"--register={tracking.register}"] if tracking.register else []),
    ]


def _command(stage: str, *arguments: Word, options: Iterable[Word] = (), **named: Word) -> list[str]:
    return ["nmt", *stage.split(), *map(str, arguments), *_named(**named), *map(str, options)]


def _named(**values: Word) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def _limit(limit: int | None) -> list[str]:
    return [f"--limit={limit}"] if limit else []
