"""Score and compare plain text files, one sentence per line, whichever system wrote them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.base import Metric

from nmt.config.choices import Tokenizer
from nmt.config.data import Cleaning
from nmt.scoring.score import ScoredSet, Texts, command_for, compared_with, measure_all, metrics, write_scores
from nmt.scoring.significance import paired_test
from nmt.scoring.texts import as_written, composed, read_aligned, warn_of_empty, warn_of_missing_spaces, without_case
from nmt.scoring.tokenizers import tokenizer_of
from nmt.scoring.words import SAMPLES
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import Json, read_json, sha256
from nmt.text.clean import JOINERS_APART
from nmt.text.cleaner import Cleaner
from nmt.text.languages import DOTLESS, base


@dataclass(frozen=True)
class Comparison:
    """How plain texts are compared with their references.

    Attributes:
        tokenize: tokeniser of BLEU: one of sacrebleu's (``none``: the files are tokenised), or ``moses``: all texts are
            first cleaned by the default recipe, that is normalised, lowercased and Moses-tokenised. None: the tokeniser
            of the language.
        lowercase: whether case is ignored; None: it is if a system writes lower case only and the references do not.
        language: language of the texts, for BLEU's tokeniser, METEOR and ``moses``; empty if unknown.
        also: additional metrics, as for `nmt.scoring.score.score`.
    """

    tokenize: Tokenizer | None = None
    lowercase: bool | None = None
    language: str = ""
    also: Sequence[str] = ()

    def __post_init__(self) -> None:
        needing = ["--tokenize moses"] if self.tokenize == "moses" else []
        needing += [f"--also {metric}" for metric in ("meteor", "language") if metric in self.also]
        if needing and not self.language:
            raise ConfigError(
                f"{needing[0]}: expected the languages of the text, got none; give --languages, e.g. en-de"
            )

    @property
    def tokenizer(self) -> str:
        """The tokeniser of BLEU."""
        return self.tokenize or tokenizer_of(self.language)

    def ignores_case(self, systems: Sequence[Sequence[str]], references: Sequence[str]) -> bool:
        """Return whether case is ignored for these texts."""
        if self.lowercase is not None:
            return self.lowercase
        if self.tokenize == "moses":
            return True
        has_capitals = any(line != line.lower() for line in references)
        return has_capitals and any(" ".join(lines).islower() for lines in systems)

    def prepared(self, lines: Sequence[str], lowercase: bool) -> list[str]:
        """Return lines as they are compared: without trailing spaces or a case of their own; for ``moses`` cleaned."""
        if self.tokenize != "moses":
            return [line.rstrip() for line in (without_case(lines, self.language) if lowercase else lines)]
        clean = Cleaner(Cleaning(lowercase=lowercase), self.language)
        return [clean(line) for line in lines]

    def metrics(self, lowercase: bool) -> dict[str, Metric]:
        """Create the metrics; text that `prepared` has lowercased needs no lowercasing."""
        tokenizer, lower = ("none", False) if self.tokenize == "moses" else (self.tokenizer, lowercase)
        return metrics("detokenised", lower, False, self.also, self.language, tokenizer)


def score_file(hypotheses: Path, reference: Path, how: Comparison, source: Path | None = None) -> Json:
    """Score a plain text file with one reference per line.

    Args:
        hypotheses: translations of any system, one sentence per line.
        reference: the reference of each line.
        how: tokeniser, case and metrics.
        source: the source of each line, to count the lines that were only copied; None if there is none.

    Returns:
        ``hypotheses``, ``reference``, ``sentences``, ``tokenize``, ``case`` (``counted`` or ``ignored``; TER always
        ignores it), ``scores`` in the form of `nmt.scoring.score.score_lines`, ``sha256`` of the files and ``command``,
        which prints the scores with sacrebleu (none for ``moses``, nor where it would lowercase I to i in a language
        that has ı). With a source also ``copied``, the number of lines that equal their source. With empty references
        also ``empty_references``, their number.

    Raises:
        ConfigError: see `nmt.scoring.score.score`.
        DataError: a file is missing, empty or not UTF-8, or the numbers of lines differ.
    """
    files = {"hypotheses": hypotheses, "reference": reference} | ({"source": source} if source else {})
    texts = read_texts(files)
    if how.tokenizer in ("13a", "intl"):
        warn_of_missing_spaces(reference, texts["reference"])
    lowercase = how.ignores_case([texts["hypotheses"]], texts["reference"])
    ours, theirs = (how.prepared(texts[name], lowercase) for name in ("hypotheses", "reference"))
    fold = str.lower if lowercase else str
    pairs = zip(map(fold, texts["hypotheses"]), map(fold, composed(texts.get("source", []))), strict=False)
    empty = texts["reference"].count("")
    return {
        **{name: str(path) for name, path in files.items()}, **_made(how, lowercase, len(ours)),
        **({"copied": sum(line.strip() == original.strip() != "" for line, original in pairs)} if source else {}),
        **({"empty_references": empty} if empty else {}),
        "scores": measure_all(how.metrics(lowercase), ours, theirs),
        "sha256": {name: sha256(path) for name, path in files.items()},
        "command": _command(hypotheses, reference, how, lowercase),
    }  # fmt: skip


def compare_files(first: Path, second: Path, reference: Path, how: Comparison) -> Json:
    """Test whether two plain text files differ in their scores, by paired bootstrap.

    Args:
        first: translations of the first system, the baseline.
        second: translations of the second system.
        reference: the reference of each line.
        how: tokeniser, case and metrics.

    Returns:
        ``first``, ``second``, ``reference``, ``sentences``, ``samples``, ``tokenize``, ``case``, ``sha256`` of the
        files, and ``metrics`` in the form of one protocol of `nmt.scoring.significance.compare`.

    Raises:
        ConfigError, DataError: see `score_file`.
    """
    files = {"first": first, "second": second, "reference": reference}
    texts = read_texts(files)
    if how.tokenizer in ("13a", "intl"):
        warn_of_missing_spaces(reference, texts["reference"])
    lowercase = how.ignores_case([texts["first"], texts["second"]], texts["reference"])
    lines = [how.prepared(texts[name], lowercase) for name in files]
    return {
        **{name: str(path) for name, path in files.items()}, **_made(how, lowercase, len(lines[0])),
        "samples": SAMPLES, "metrics": paired_test(how.metrics(lowercase), *lines),
        "sha256": {name: sha256(path) for name, path in files.items()},
    }  # fmt: skip


def read_texts(files: Mapping[str, Path]) -> Texts:
    """Read files whose lines belong together, by name; the first name is that of the hypotheses.

    Raises:
        DataError: a file is missing, not UTF-8 or without a word, or the numbers of lines differ.
    """
    (name, hypotheses), *others = files.items()
    lines, texts = read_aligned(hypotheses, dict(others))
    for other, path in others:
        if not any(line.strip() for line in texts[other]):
            raise DataError(f"{path}: expected sentences, got {len(lines)} lines without a word; check the file")
    if "reference" in files:
        warn_of_empty(files["reference"], texts["reference"])
    return {name: lines, **texts}


def _made(how: Comparison, lowercase: bool, sentences: int) -> Json:
    return {"sentences": sentences, "tokenize": how.tokenizer, "case": "ignored" if lowercase else "counted"}


def _command(hypotheses: Path, reference: Path, how: Comparison, lowercase: bool) -> str | None:
    """Return sacrebleu's command that prints the scores of two files; None if they are changed first."""
    if how.tokenize == "moses" or (lowercase and base(how.language) in DOTLESS):
        return None
    return command_for(str(reference), str(hypotheses), how.tokenizer, lowercase, False, how.language)


def score_output(
    hypotheses: Path, clean: Path, raw: Path, test: str, source: str, target: str, out: Path, also: Sequence[str] = ()
) -> None:
    """Score another system's translations of a test set; writes the files that `nmt.scoring.score.score` writes.

    The translations are plain text. They are cleaned by the recipe of the corpus for the tokenised protocol, and stay
    as they are for the detokenised protocol.

    Args:
        hypotheses: the translations, one sentence per line.
        clean: folder of the cleaned corpus, for its recipe and the tokenised references.
        raw: folder of the raw corpus, for unchanged references and sources.
        test: name of the test set.
        source: source language.
        target: target language.
        out: folder to write.
        also: additional metrics.

    Raises:
        ConfigError, DataError: see `nmt.scoring.score.score`.
    """
    report = read_json(clean / "report.json")
    recipe = report["cleaning"]
    text_paths = compared_with(raw, clean, test, source, target)
    lines, texts = read_aligned(hypotheses, text_paths)
    cleaner = Cleaner(Cleaning(**recipe), target, report.get("corpus") in JOINERS_APART)
    cleaner.prepare(lines)
    texts |= {"hypotheses.tok": [cleaner(line) for line in lines], "hypotheses.detok": as_written(lines, target)}
    texts["references.detok"] = as_written(texts["references.detok"], target)
    made = {"provenance": {"hypotheses": str(hypotheses), "hypotheses_sha256": sha256(hypotheses)}, "decoding": {}}
    text_paths["hypotheses"] = hypotheses
    write_scores(texts, text_paths, ScoredSet(test, source, target), dict(recipe), also, out, made)
