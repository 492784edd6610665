"""The scores of one translated test set, by two protocols, each with what is needed to repeat it."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.config.data import Cleaning
from nmt.corpora.catalogue import misaligned
from nmt.scoring.meteor import Meteor, NltkMeteor
from nmt.scoring.words import SAMPLES, SEED, accuracy, share
from nmt.system.errors import DataError
from nmt.system.files import check_no_stage, read_json, read_lines, sha256, write_json, write_text
from nmt.text.clean import restore
from nmt.text.transliterate import scheme

Protocol = Literal["tokenised", "detokenised"]
Texts = dict[str, list[str]]

ENDINGS: dict[Protocol, str] = {"tokenised": "tok", "detokenised": "detok"}
"""The two protocols, and how the names of the texts that each compares end."""


class _CHRF(CHRF):
    """sacrebleu's chrF, each score a plain float: its bootstrap fails where some samples match nothing at all."""

    def _compute_f_score(self, statistics: list[int]) -> float:
        return float(super()._compute_f_score(statistics))


class _ShortBLEU(BLEU):
    """sacrebleu's BLEU of shorter n-grams than 4, which its name and signature tell."""

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        found = super()._compute_score_from_stats(stats)
        found.name = f"BLEU{self.max_ngram_order}"
        return found

    def get_signature(self) -> Signature:
        """BLEU's, and the length of the longest n-grams."""
        signature = super().get_signature()
        signature.update("order", self.max_ngram_order)
        return signature


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
    """Score a translated test set; writes the texts that were compared and, last, ``scores.json``.

    Where the raw corpus has ``{test}.words.tsv``, its ambiguous words are scored too (`nmt.scoring.words`).

    Args:
        hypotheses: the model's output, tokenised as its training text was; ``decoding.json`` lies beside it.
        clean: folder of the cleaned corpus, for tokenised references.
        raw: folder of the raw corpus, for untouched references and sources.
        test: name of the test set.
        source: source language.
        target: target language.
        model: model directory, for its cleaning recipe and provenance.
        out: folder to write.
        also: metrics besides those that are always measured, of bleu1, bleu2, bleu3, meteor, meteor_nltk.

    Raises:
        ConfigError: METEOR does not know the language, or Java, its jar or NLTK is missing.
        DataError: a file is missing, empty or not UTF-8; hypotheses and references differ in length; the hypotheses
            are of another text or model; ``out`` is a file, or what another stage made.
    """
    made = read_json(model / "cleaning.json")
    recipe = made["cleaning"]
    given = compared_with(raw, clean, test, source, target)
    texts = _read_aligned(hypotheses, given, target, recipe)
    decoding = read_json(hypotheses.with_name("decoding.json"))
    _check_made(hypotheses, decoding, clean / f"{test}.{source}", model)
    if made["languages"] != f"{source}-{target}":
        raise DataError(f"{model}: expected a model of {source}-{target}, got one of {made['languages']}")
    case = recipe["lowercase"], case_tells(recipe, target)
    chosen: dict[Protocol, dict[str, Metric]] = {p: metrics(p, *case, also, target) for p in ENDINGS}
    check_no_stage(out)
    (out / "scores.json").unlink(missing_ok=True)
    for name, lines in texts.items():
        write_text(out / name, "".join(f"{line}\n" for line in lines))
    results = {protocol: _score_texts(texts, protocol, found) for protocol, found in chosen.items()}
    if (ambiguous := raw / f"{test}.words.tsv").is_file():
        results["tokenised"]["words"] = accuracy(texts["hypotheses.tok"], ambiguous, target, Cleaning(**recipe))
    making = {
        "sentences": len(texts["sources.txt"]), "test": test, "languages": f"{source}-{target}",
        "references_sha256": {p: sha256(given[f"references.{ending}"]) for p, ending in ENDINGS.items()},
        "commands": {protocol: commands(protocol, *case, found) for protocol, found in chosen.items()},
        "cleaning": recipe, "provenance": read_json(model / "provenance.json"),
        "decoding": decoding,
    }  # fmt: skip
    write_json(out / "scores.json", {**results, **making})


def _check_made(hypotheses: Path, decoding: dict[str, Any], source: Path, model: Path) -> None:
    """Refuse translations of another text, or by another model, than their scores would say."""
    made_with = {"source_sha256": source, "model_sha256": model / "weights.safetensors"}
    if "hypotheses_sha256" in decoding:  # older ones have none
        made_with["hypotheses_sha256"] = hypotheses
    for key, path in made_with.items():
        if decoding[key] != sha256(path):
            raise DataError(
                f"{hypotheses}: expected translations that were made with {path}, got others by decoding.json beside "
                "them; translate again"
            )


def compared_with(raw: Path, clean: Path, test: str, source: str, target: str) -> dict[str, Path]:
    """The texts of a corpus that belong beside the translations of a test set, by their names there."""
    return {
        "references.tok": clean / f"{test}.{target}", "references.detok": raw / f"{test}.{target}",
        "sources.txt": raw / f"{test}.{source}",
    }  # fmt: skip


def _read_aligned(hypotheses: Path, others: dict[str, Path], language: str, recipe: dict[str, Any]) -> Texts:
    """The texts of a scores folder by name, each equally long."""
    tokenised = list(read_lines(hypotheses))
    read = {name: list(read_lines(path)) for name, path in others.items()}
    for name, path in others.items():
        if len(read[name]) != len(tokenised):
            raise misaligned({hypotheses: len(tokenised), path: len(read[name])})
    if not tokenised:
        raise DataError(f"{hypotheses}: expected sentences, got an empty file; look at the test set")
    cleaning = Cleaning(**recipe)
    restored = [restore(line, language, cleaning) for line in tokenised]
    return {"hypotheses.tok": tokenised, "hypotheses.detok": restored, **read}


def case_tells(recipe: dict[str, Any], language: str) -> bool:
    """Whether case is part of the spelling, as of Hindi in Latin letters: it must count in every metric."""
    return scheme(Cleaning(**recipe), language) is not None


def _score_texts(texts: Texts, protocol: Protocol, chosen: dict[str, Metric]) -> dict[str, Any]:
    ending = ENDINGS[protocol]
    return _measure_all(chosen, texts[f"hypotheses.{ending}"], texts[f"references.{ending}"])


def score_lines(
    hypotheses: Sequence[str],
    references: Sequence[str],
    protocol: Protocol,
    lowercase: bool = True,
    case_tells: bool = False,
    also: Sequence[str] = (),
    language: str = "",
) -> dict[str, Any]:
    """Score hypotheses, one reference each.

    Args:
        hypotheses: one a sentence.
        references: as many.
        protocol: ``tokenised`` splits at spaces only, ``detokenised`` as mteval-v13a does.
        lowercase: whether the hypotheses are lowercased, so that case must not count.
        case_tells: whether case is part of the spelling, so that it must count.
        also: metrics besides those below, as `score` takes them.
        language: of the text, which METEOR needs to know.

    Returns:
        For ``bleu``, ``chrf``, ``ter`` and ``exact`` (see there) their ``score`` (0 to 100; TER may pass 100, lower is
        better), ``low`` and ``high`` (95 % bootstrap interval) and ``signature``; for BLEU also the n-gram
        ``precisions`` and the ``brevity_penalty``; for METEOR its ``modules`` and whether one is missing, ``reduced``.

    Raises:
        ConfigError: as `score` does.
    """
    return _measure_all(metrics(protocol, lowercase, case_tells, also, language), hypotheses, references)


def _measure_all(chosen: dict[str, Metric], hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    fix_seed()
    found = {name: _measure(metric, hypotheses, references) for name, metric in chosen.items()}
    return found | {"exact": exact(hypotheses, references)}


def exact(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Share of lines that equal their reference but for spaces at the end, 0 to 100, as `score_lines` gives scores."""
    pairs = zip(hypotheses, references, strict=True)
    return share(sum(one.rstrip() == other.rstrip() for one, other in pairs), len(references), "equal lines")


def metrics(
    protocol: Protocol, lowercase: bool, case_tells: bool = False, also: Sequence[str] = (), language: str = ""
) -> dict[str, Metric]:
    """The metrics as a protocol sets them, those in ``also`` after sacrebleu's; `commands` sets them the same."""
    # Tokenised text is compared as it is.
    lower = lowercase and not case_tells and protocol == "detokenised"
    tokenizer = "none" if protocol == "tokenised" else "13a"
    # force: no warning that the text looks tokenised, which it is.
    bleu = BLEU(tokenize=tokenizer, lowercase=lower, force=True)
    standard: dict[str, Metric] = {"bleu": bleu, "chrf": _CHRF(lowercase=lower), "ter": TER(case_sensitive=case_tells)}
    asked: dict[str, Callable[[], Metric]] = {
        f"bleu{n}": partial(_ShortBLEU, tokenize=tokenizer, lowercase=lower, force=True, max_ngram_order=n)
        for n in (1, 2, 3)
    }
    asked |= {"meteor": partial(Meteor, language), "meteor_nltk": NltkMeteor}
    return standard | {name: make() for name, make in asked.items() if name in also}


def commands(protocol: Protocol, lowercase: bool, case_tells: bool, chosen: Mapping[str, Metric]) -> str:
    """The commands that print a protocol's scores, a line each: sacrebleu's, and METEOR's where it is measured."""
    lines = [command(protocol, lowercase, case_tells)]
    if isinstance(meteor := chosen.get("meteor"), Meteor):
        lines.append(meteor.command(f"hypotheses.{ENDINGS[protocol]}", f"references.{ENDINGS[protocol]}"))
    return "\n".join(lines)


def command(protocol: Protocol, lowercase: bool, case_tells: bool = False) -> str:
    """Sacrebleu's command that prints a protocol's scores, to be run in the folder of ``scores.json``."""
    ending = ENDINGS[protocol]
    options = "--tokenize none --force"
    if protocol == "detokenised":
        options = "--tokenize 13a --force" + (" --lowercase --chrf-lowercase" if lowercase and not case_tells else "")
    options += " --ter-case-sensitive" if case_tells else ""
    files = f"references.{ending} -i hypotheses.{ending}"
    return f"sacrebleu {files} -m bleu chrf ter {options} --confidence --width 2"


def fix_seed() -> None:
    """Make sacrebleu's bootstrap draw the same samples on every machine."""
    os.environ["SACREBLEU_SEED"] = str(SEED)


def _measure(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """One metric with its interval."""
    # As sacrebleu's command line reads files; TER would otherwise see trailing spaces.
    stripped = [[line.rstrip() for line in lines] for lines in (hypotheses, references)]
    found = metric.corpus_score(stripped[0], [stripped[1]], n_bootstrap=SAMPLES)
    signature = str(metric.get_signature())
    printed = json.loads(found.format(width=6, signature=signature, is_json=True))
    middle, half = printed.get("confidence_mean", found.score), printed.get("confidence_var", 0.0)
    most = (
        float("inf") if isinstance(metric, TER) else 100.0
    )  # sacrebleu's interval is symmetric and may leave the scale
    interval = {"low": max(0.0, round(middle - half, 6)), "high": min(most, round(middle + half, 6))}
    result = {"score": found.score, **interval, "signature": signature}
    if isinstance(metric, BLEU):
        result |= {"precisions": found.precisions, "brevity_penalty": found.bp}
    if isinstance(metric, Meteor):
        result |= {"modules": metric.modules, "reduced": metric.reduced}
    return result
