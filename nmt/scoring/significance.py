"""Is the difference between two systems more than chance? Paired bootstrap resampling (Koehn 2004) by sacrebleu."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from nmt.corpora.catalogue import misaligned
from nmt.scoring.score import ENDINGS, case_tells, fix_seed, metrics
from nmt.scoring.words import SAMPLES
from nmt.system.errors import DataError
from nmt.system.files import read_json, read_lines


def compare(a: Path, b: Path, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Compare two folders that `nmt.scoring.score.score` wrote, by each protocol whose references are the same.

    Args:
        a: scores of the first system, the baseline.
        b: scores of the second.
        names: metrics to test; when not given, all that both were scored by, but the share of equal lines.

    Returns:
        ``{"first", "second", "test", "sentences", "samples", protocol: {metric: {"first", "second", "difference",
        "p_value", "signature"}}}``; a difference is second minus first. The p-value is sacrebleu's, which centres the
        samples' differences without their signs: one-sided, the chance that equally good systems differ so far this
        way, and below one half however near they are. Where two recipes clean references differently, the tokenised
        protocol is left out.

    Raises:
        ConfigError: Java, METEOR's jar or NLTK is missing, where those are tested.
        DataError: no scores there, or the two have no references in common.
    """
    first, second = (read_json(folder / "scores.json") for folder in (a, b))
    ours, theirs = first["references_sha256"], second["references_sha256"]
    shared = [protocol for protocol in ENDINGS if ours[protocol] == theirs[protocol]]
    if not shared:
        raise DataError(
            f"{a} and {b}: expected scores against the same references, got {_about(first)} and {_about(second)}; "
            f"compare two systems on one test set"
        )
    lowercase = first["cleaning"]["lowercase"] or second["cleaning"]["lowercase"]
    language = first["languages"].split("-")[1]
    tells = case_tells(first["cleaning"], language)
    wanted = [name for name in first[shared[0]] if name in second[shared[0]] and name != "exact"]
    wanted = [name for name in wanted if names is None or name in names]
    results: dict[str, Any] = {
        protocol: _test(a, b, metrics(protocol, lowercase, tells, wanted, language), ENDINGS[protocol], wanted)
        for protocol in shared
    }
    sizes = {"test": first["test"], "sentences": first["sentences"], "samples": SAMPLES}
    return {"first": str(a), "second": str(b), **sizes, **results}


def _about(scores: dict[str, Any]) -> str:
    return f"{scores['test']} ({scores['languages']}, {scores['sentences']} sentences)"


def _test(a: Path, b: Path, known: dict[str, Metric], ending: str, names: Sequence[str]) -> dict[str, Any]:
    """The paired test of each metric by one protocol, whose texts have this ending."""
    fix_seed()
    chosen = {name: metric for name, metric in known.items() if name in names}
    systems: list[tuple[str, Sequence[str]]] = [
        (str(number), _lines(folder / f"hypotheses.{ending}")) for number, folder in enumerate((a, b))
    ]
    references = [_lines(a / f"references.{ending}")]
    counts = {folder / f"hypotheses.{ending}": len(lines) for folder, (_, lines) in zip((a, b), systems, strict=True)}
    if {*counts.values()} != {len(references[0])}:
        raise misaligned(counts | {a / f"references.{ending}": len(references[0])})
    signatures, found = PairedTest(systems, chosen, references, test_type="bs", n_samples=SAMPLES)()
    results: dict[str, Any] = {}
    # sacrebleu renames metrics (chrF2) but keeps their order.
    for name, label in zip(chosen, signatures, strict=True):
        one, other = (result for result in found[label] if isinstance(result, Result))
        difference = float(other.score - one.score)
        results[name] = {
            "first": float(one.score), "second": float(other.score), "difference": difference,
            # sacrebleu counts differences above the observed one, so that equal systems would get the smallest p.
            "p_value": other.p_value if difference else 1.0, "signature": str(signatures[label]),
        }  # fmt: skip
    return results


def _lines(path: Path) -> list[str]:
    return [line.rstrip() for line in read_lines(path)]
