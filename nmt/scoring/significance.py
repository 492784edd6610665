"""Significance tests between two systems: sacrebleu's paired bootstrap resampling (Koehn 2004)."""

from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from nmt.corpora.parts import misaligned
from nmt.scoring.score import ENDINGS, check_finite, fix_seed, metrics, spells_by_case
from nmt.scoring.texts import composed, without_case
from nmt.scoring.words import SAMPLES
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json
from nmt.system.lines import read_lines


def compare(a: Path, b: Path, names: Sequence[str] | None = None) -> Json:
    """Compare the scores of two systems by each protocol for which both have the same references.

    Args:
        a: folder of the first system, the baseline, written by `nmt.scoring.score.score`.
        b: folder of the second system.
        names: metrics to test; None for all metrics in both folders except the share of equal lines.

    Returns:
        ``{"first", "second", "test", "sentences", "samples", protocol: {metric: {"first", "second", "difference",
        "p_value", "signature"}}}``. A difference is second minus first. The p-value is sacrebleu's: the one-sided
        probability that equally good systems differ this much in this direction. sacrebleu centres the absolute
        differences of the samples, so it is below 0.5 even for very similar systems. The tokenised protocol is
        missing if two recipes clean the references differently.

    Raises:
        ConfigError: METEOR is tested, and Java, its jar or NLTK is missing.
        DataError: a folder has no scores, or the two systems have no common references.
    """
    first, second = (read_json(folder / "scores.json") for folder in (a, b))
    ours, theirs = first["references_sha256"], second["references_sha256"]
    shared = [protocol for protocol in ENDINGS if ours[protocol] == theirs[protocol]]
    if not shared:
        raise DataError(
            f"{a} and {b}: expected scores against the same references, got {_summary(first)} and "
            f"{_summary(second)}; compare two systems on one test set"
        )
    lowercase = first["cleaning"]["lowercase"] or second["cleaning"]["lowercase"]
    language = first["languages"].split("-")[1]
    case = lowercase, spells_by_case(first["cleaning"], language)
    wanted = [name for name in first[shared[0]] if name in second[shared[0]] and name != "exact"]
    wanted = [name for name in wanted if names is None or name in names]
    results: Json = {}
    for protocol in shared:
        available = metrics(protocol, *case, wanted, language)
        chosen = {name: metric for name, metric in available.items() if name in wanted}
        results[protocol] = paired_test(chosen, *_texts(a, b, ENDINGS[protocol], language if lowercase else ""))
    sizes = {"test": first["test"], "sentences": first["sentences"], "samples": SAMPLES}
    return {"first": str(a), "second": str(b), **sizes, **results}


def _summary(scores: Json) -> str:
    return f"{scores['test']} ({scores['languages']}, {scores['sentences']} sentences)"


def _texts(a: Path, b: Path, ending: str, lowercased: str) -> list[list[str]]:
    """Read the lines of both systems and of their references; raise DataError if their numbers differ.

    Args:
        a: folder of the first system.
        b: folder of the second system.
        ending: suffix of the protocol's texts.
        lowercased: language of the texts if their case is ignored, else empty.
    """
    files = [a / f"hypotheses.{ending}", b / f"hypotheses.{ending}", a / f"references.{ending}"]
    # Lines are stripped and in NFC because restored references are the raw text.
    texts = [without_case(composed(line.rstrip() for line in read_lines(path)), lowercased) for path in files]
    if len({*map(len, texts)}) > 1:
        raise misaligned(dict(zip(files, map(len, texts), strict=True)))
    return texts


def paired_test(
    chosen: dict[str, Metric], first: Sequence[str], second: Sequence[str], references: Sequence[str]
) -> Json:
    """Run the paired test of each metric on two systems' lines; return what `compare` returns for a protocol."""
    fix_seed()
    systems: list[tuple[str, Sequence[str]]] = [("0", first), ("1", second)]
    results: Json = {}
    for name, metric in chosen.items():  # one by one, because sacrebleu renames metrics, perhaps two of them alike
        signatures, outcomes = PairedTest(systems, {name: metric}, [references], test_type="bs", n_samples=SAMPLES)()
        [label] = signatures
        before, after = (result for result in outcomes[label] if isinstance(result, Result))
        check_finite(name, *(vars(each)[key] for each in (before, after) for key in ("score", "mean", "ci")))
        difference = float(after.score - before.score)
        results[name] = {
            "first": float(before.score), "second": float(after.score), "difference": difference,
            # sacrebleu counts only samples above the observed difference, so equal systems would get the smallest p.
            "p_value": after.p_value if difference else 1.0, "signature": str(signatures[label]),
        }  # fmt: skip
    return results
