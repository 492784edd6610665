"""Score one translated test set by two protocols; record what is needed to repeat each score."""

import json
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from nmt.config.choices import ON_REQUEST
from nmt.config.data import Cleaning
from nmt.scoring.language import LanguageShare
from nmt.scoring.meteor import Meteor, NltkMeteor
from nmt.scoring.sacrebleu_metrics import ParallelTER, PlainCHRF, ShortBLEU
from nmt.scoring.texts import as_written, composed, read_aligned, warn_of_compatibility, warn_of_empty, without_case
from nmt.scoring.tokenizers import SpBLEU, check_tokenizer, edits_characters, tokenizer_of
from nmt.scoring.words import SAMPLES, SEED, accuracy, share
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import Json, check_not_input, check_not_stage_output, read_json, sha256, write_json, write_text
from nmt.text.cleaner import restore
from nmt.text.transliterate import scheme

Protocol = Literal["tokenised", "detokenised"]
Texts = dict[str, list[str]]

ENDINGS: dict[Protocol, str] = {"tokenised": "tok", "detokenised": "detok"}
"""The two protocols and the suffixes of the files that they compare."""
PERCENTAGES = (BLEU, CHRF, LanguageShare, Meteor, NltkMeteor)
"""Metrics whose scores cannot exceed 100."""


def score(
    hypotheses: Path,
    clean: Path,
    raw: Path,
    test: str,
    source: str,
    target: str,
    model: Path,
    out: Path,
    also: Sequence[str] = (),
) -> None:
    """Score a translated test set; writes the compared texts and, last, ``scores.json``.

    If the raw corpus has ``{test}.words.tsv``, translations of ambiguous words are scored too (`nmt.scoring.words`).

    Args:
        hypotheses: output of the model, tokenised like its training text, with ``decoding.json`` beside it.
        clean: folder of the cleaned corpus, for tokenised references.
        raw: folder of the raw corpus, for unchanged references and sources.
        test: name of the test set.
        source: source language.
        target: target language.
        model: model directory, for its cleaning recipe and provenance.
        out: folder to write.
        also: additional metrics, of `nmt.config.choices.ON_REQUEST`.

    Raises:
        ConfigError: METEOR does not know the language, or Java, its jar or NLTK is missing.
        DataError: a file is missing, empty or not UTF-8; hypotheses and references differ in length; the hypotheses
            belong to another text or model, or are a file to write; ``out`` is a file or another stage's output.
    """
    training = read_json(model / "cleaning.json")
    recipe = training["cleaning"]
    text_paths = compared_with(raw, clean, test, source, target)
    texts = _read_aligned(hypotheses, text_paths, target, recipe)
    decoding = read_json(hypotheses.with_name("decoding.json"))
    _check_origin(hypotheses, decoding, clean / f"{test}.{source}", model)
    wanted = decoding.get("languages", training["languages"])  # those of a model with several pairs depend on the text
    if wanted != f"{source}-{target}":
        raise DataError(f"{model}: expected translations of {source}-{target}, got {wanted}; choose another model")
    made = {"provenance": read_json(model / "provenance.json"), "decoding": decoding}
    text_paths["hypotheses"] = hypotheses
    write_scores(texts, text_paths, ScoredSet(test, source, target), recipe, also, out, made)


class ScoredSet(NamedTuple):
    """A test set: its name and its languages."""

    name: str
    source: str
    target: str


def write_scores(
    texts: Texts, text_paths: dict[str, Path], test: ScoredSet, recipe: Json, also: Sequence[str], out: Path, made: Json
) -> None:
    """Score the texts of a scores folder and write them and, last, ``scores.json``; raises the errors of `score`.

    Args:
        texts: lines of each text, by its name in the folder.
        text_paths: files that the texts come from, as `compared_with` returns them, and ``hypotheses``.
        test: the test set.
        recipe: cleaning recipe of the tokenised texts.
        also: additional metrics, as for `score`.
        out: folder to write.
        made: how the hypotheses were made, ``provenance`` and ``decoding``.
    """
    case = recipe["lowercase"], spells_by_case(recipe, test.target)
    chosen: dict[Protocol, dict[str, Metric]] = {p: metrics(p, *case, also, test.target) for p in ENDINGS}
    if recipe["lowercase"]:
        texts |= {name: without_case(texts[name], test.target) for name in texts if name.endswith(".detok")}
    check_not_stage_output(out)
    for name in (*texts, "scores.json"):
        check_not_input(out / name, text_paths.values())
    (out / "scores.json").unlink(missing_ok=True)
    for name, lines in texts.items():
        write_text(out / name, "".join(f"{line}\n" for line in lines))
    results = {
        protocol: measure_all(chosen[protocol], texts[f"hypotheses.{ending}"], texts[f"references.{ending}"])
        for protocol, ending in ENDINGS.items()
    }
    if (ambiguous := text_paths["sources.txt"].with_name(f"{test.name}.words.tsv")).is_file():
        results["tokenised"]["words"] = accuracy(texts["hypotheses.tok"], ambiguous, test.target, Cleaning(**recipe))
    record = {
        "sentences": len(texts["sources.txt"]), "test": test.name, "languages": f"{test.source}-{test.target}",
        "references_sha256": {p: sha256(text_paths[f"references.{ending}"]) for p, ending in ENDINGS.items()},
        "commands": {p: commands(p, *case, selected, test.target) for p, selected in chosen.items()},
        "cleaning": recipe, **made, **_empty_references(texts, text_paths),
    }  # fmt: skip
    write_json(out / "scores.json", {**results, **record})


def _empty_references(texts: Texts, paths: Mapping[str, Path]) -> Json:
    """Count the empty references of each protocol, for ``scores.json``; warn of them; nothing if there are none."""
    counts = {protocol: texts[f"references.{ending}"].count("") for protocol, ending in ENDINGS.items()}
    for protocol in {count: protocol for protocol, count in counts.items()}.values():  # equal counts once
        warn_of_empty(paths[f"references.{ENDINGS[protocol]}"], texts[f"references.{ENDINGS[protocol]}"])
    return {"empty_references": counts} if any(counts.values()) else {}


def _check_origin(hypotheses: Path, decoding: Json, source: Path, model: Path) -> None:
    """Raise DataError if decoding.json shows that the translations belong to another text or model."""
    inputs = {"source_sha256": source, "model_sha256": model / "weights.safetensors"}
    if "hypotheses_sha256" in decoding:  # older files do not record it
        inputs["hypotheses_sha256"] = hypotheses
    for key, path in inputs.items():
        if decoding[key] != sha256(path):
            raise DataError(
                f"{hypotheses}: expected translations made with {path}, but decoding.json beside them has another "
                "checksum; translate again"
            )


def compared_with(raw: Path, clean: Path, test: str, source: str, target: str) -> dict[str, Path]:
    """Return the corpus files that belong to translations of a test set, by their names in the scores folder."""
    return {
        "references.tok": clean / f"{test}.{target}", "references.detok": raw / f"{test}.{target}",
        "sources.txt": raw / f"{test}.{source}",
    }  # fmt: skip


def _read_aligned(hypotheses: Path, others: dict[str, Path], language: str, recipe: Json) -> Texts:
    """Read the texts of a scores folder by name; raise DataError unless they have the same number of lines."""
    tokenised, texts = read_aligned(hypotheses, others)
    cleaning = Cleaning(**recipe)
    if cleaning.unicode == "NFKC":
        warn_of_compatibility(others["references.detok"], texts["references.detok"])
    restored = as_written(composed(restore(line, language, cleaning) for line in tokenised), language)
    texts["references.detok"] = as_written(texts["references.detok"], language)
    return {"hypotheses.tok": tokenised, "hypotheses.detok": restored, **texts}


def spells_by_case(recipe: Json, language: str) -> bool:
    """Return whether every metric must compare case: it carries meaning in transliterated text, e.g. Hindi."""
    return scheme(Cleaning(**recipe), language) is not None


def score_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    protocol: Protocol,
    lowercase: bool = True,
    case_sensitive: bool = False,
    also: Sequence[str] = (),
    language: str = "",
) -> Json:
    """Score hypotheses with one reference each.

    Args:
        hypotheses: one per sentence.
        references: one per sentence.
        protocol: ``tokenised`` splits words at spaces only, ``detokenised`` tokenises like mteval-v13a; languages
            that these do not suit have a tokeniser of their own (`nmt.scoring.tokenizers`).
        lowercase: whether the hypotheses are lowercased, so that the metrics must ignore case.
        case_sensitive: whether case is part of the spelling, so that the metrics must compare it.
        also: additional metrics, as for `score`.
        language: language of the text, for BLEU's tokeniser and METEOR.

    Returns:
        For ``bleu``, ``chrf``, ``ter`` and ``exact`` (see `exact`) the ``score`` from 0 to 100 (TER may exceed 100,
        lower is better), ``low`` and ``high`` (95 % bootstrap interval) and the ``signature``; for BLEU also the n-gram
        ``precisions`` and the ``brevity_penalty``; for METEOR also its ``modules`` and ``reduced``, whether one is
        missing.

    Raises:
        ConfigError: see `score`.
        DataError: the numbers of lines differ.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            f"expected one reference for each of {len(hypotheses):,} hypotheses, got {len(references):,}; line n of "
            "one belongs to line n of the other"
        )
    return measure_all(metrics(protocol, lowercase, case_sensitive, also, language), hypotheses, references)


def measure_all(chosen: dict[str, Metric], hypotheses: Sequence[str], references: Sequence[str]) -> Json:
    """Compute these metrics and the share of equal lines, in the form of `score_lines`."""
    fix_seed()
    results = {name: _measure(name, metric, hypotheses, references) for name, metric in chosen.items()}
    lowercase = isinstance(bleu := chosen["bleu"], BLEU) and bleu.lowercase
    return results | {"exact": exact(hypotheses, references, lowercase)}


def exact(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False) -> Json:
    """Score the share of lines that equal their reference, in the form of `score_lines`.

    Trailing spaces do not count; with ``lowercase``, nor does case.
    """
    compared = [[line.lower() if lowercase else line for line in side] for side in (hypotheses, references)]
    hits = sum(ours.rstrip() == theirs.rstrip() for ours, theirs in zip(*compared, strict=True))
    return share(hits, len(references), f"equal lines{', case ignored' * lowercase}")


def metrics(
    protocol: Protocol,
    lowercase: bool,
    case_sensitive: bool = False,
    also: Sequence[str] = (),
    language: str = "",
    tokenizer: str | None = None,
) -> dict[str, Metric]:
    """Create the metrics with the settings of a protocol: sacrebleu's, then those in ``also``.

    `commands` uses the same settings. ``tokenizer`` names another tokeniser of sacrebleu for BLEU.
    """
    lower = _lowers(protocol, lowercase, case_sensitive)
    tokenizer = tokenizer or tokenizer_of(language, protocol)
    check_tokenizer(tokenizer)
    # force: suppress the warning that the text looks tokenised.
    bleu = BLEU(tokenize=tokenizer, lowercase=lower, force=True)
    asian = edits_characters(language)
    ter = ParallelTER(normalized=asian, asian_support=asian, case_sensitive=case_sensitive)
    standard: dict[str, Metric] = {"bleu": bleu, "chrf": PlainCHRF(lowercase=lower), "ter": ter}
    additional: dict[str, Callable[[], Metric]] = {
        f"bleu{n}": partial(ShortBLEU, tokenize=tokenizer, lowercase=lower, force=True, max_ngram_order=n)
        for n in (1, 2, 3)
    }
    additional |= {"meteor": partial(Meteor, language), "meteor_nltk": NltkMeteor}
    additional |= {"language": partial(LanguageShare, language)}
    additional |= {"chrfpp": partial(PlainCHRF, word_order=2, lowercase=lower), "spbleu": partial(SpBLEU, lower)}
    return standard | _requested(additional, also)


def _requested(additional: Mapping[str, Callable[[], Metric]], also: Sequence[str]) -> dict[str, Metric]:
    """Create the additional metrics that are asked for; raise ConfigError if one has a name, but no code."""
    if unbuilt := [name for name in ON_REQUEST if name in also and name not in additional]:
        raise ConfigError(f"{unbuilt[0]}: expected a metric that nmt.scoring.score.metrics builds; add it there")
    return {name: create() for name, create in additional.items() if name in also}


def commands(
    protocol: Protocol, lowercase: bool, case_sensitive: bool, chosen: Mapping[str, Metric], language: str = ""
) -> str:
    """Return the commands that print a protocol's scores in the folder of ``scores.json``, one per line.

    The first is sacrebleu's; METEOR's follows if it is chosen.
    """
    references, hypotheses = (f"{text}.{ENDINGS[protocol]}" for text in ("references", "hypotheses"))
    tokenizer, lower = tokenizer_of(language, protocol), _lowers(protocol, lowercase, case_sensitive)
    lines = [command_for(references, hypotheses, tokenizer, lower, case_sensitive, language)]
    if isinstance(meteor := chosen.get("meteor"), Meteor):
        lines.append(meteor.command(hypotheses, references))
    return "\n".join(lines)


def _lowers(protocol: Protocol, lowercase: bool, case_sensitive: bool) -> bool:
    """Whether sacrebleu lowercases the texts of a protocol; tokenised text is compared as it is."""
    return lowercase and not case_sensitive and protocol == "detokenised"


def command_for(
    reference: str, hypotheses: str, tokenizer: str, lower: bool, case_sensitive: bool, language: str
) -> str:
    """Return sacrebleu's command that prints the scores of a file."""
    options = f"--tokenize {tokenizer} --force" + (" --lowercase --chrf-lowercase" if lower else "")
    options += " --ter-case-sensitive" if case_sensitive else ""
    options += " --ter-normalized --ter-asian-support" if edits_characters(language) else ""
    files = shlex.join([reference, "-i", hypotheses])
    return f"sacrebleu {files} -m bleu chrf ter {options} --confidence --width 2"


def fix_seed() -> None:
    """Set the seed of sacrebleu's bootstrap, so that every machine draws the same samples."""
    os.environ["SACREBLEU_SEED"] = str(SEED)


def check_finite(name: str, *values: float) -> None:
    """Raise DataError unless what a metric computed, on the whole text and on samples of it, are finite numbers."""
    if wrong := [value for value in values if not math.isfinite(value)]:
        raise DataError(f"metric {name}: expected finite numbers, got {wrong[0]}; correct it, it must work on any text")


def _measure(name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Json:
    """Compute one metric with its interval, in the form of `score_lines`."""
    # sacrebleu's command line strips lines too; otherwise trailing spaces would change TER.
    stripped = [[line.rstrip() for line in lines] for lines in (hypotheses, references)]
    outcome = metric.corpus_score(stripped[0], [stripped[1]], n_bootstrap=SAMPLES)
    signature = str(metric.get_signature())
    printed = json.loads(outcome.format(width=6, signature=signature, is_json=True))
    middle, half = printed.get("confidence_mean", outcome.score), printed.get("confidence_var", 0.0)
    check_finite(name, outcome.score, outcome._mean, outcome._ci)  # format() prints no interval if the mean is NaN
    # sacrebleu's interval is symmetric and may leave the scale.
    maximum = 100.0 if isinstance(metric, PERCENTAGES) else math.inf
    interval = {"low": max(0.0, round(middle - half, 6)), "high": min(maximum, round(middle + half, 6))}
    result = {"score": outcome.score, **interval, "signature": signature}
    if isinstance(metric, BLEU):
        result |= {"precisions": outcome.precisions, "brevity_penalty": outcome.bp}
    if isinstance(metric, LanguageShare):
        result |= {"references": metric.share(stripped[1])}
    if isinstance(metric, Meteor):
        result |= {"modules": metric.modules, "reduced": metric.reduced}
    return result
