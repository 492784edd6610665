"""Two kinds of METEOR, Java METEOR 1.5 and NLTK's, as sacrebleu metrics with intervals and significance tests."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Score, Signature

from nmt.scoring.sacrebleu_metrics import SummedMetric
from nmt.system.errors import ConfigError, DataError
from nmt.text.languages import base

JAR = "pycocoevalcap/meteor/meteor-1.5.jar"
"""Path of the jar in its package; the paraphrase tables are in ``data/`` beside it."""
EXTRA = "python3 envs/install.py run meteor"


@dataclass(frozen=True)
class Language:
    """METEOR 1.5's settings for a language: the jar's defaults, after Denkowski and Lavie (2014)."""

    code: str  # the jar's code of the language
    weights: Mapping[str, float]  # weight of each matching module, in the jar's order
    parameters: tuple[float, float, float, float] = (0.75, 1.4, 0.7, 0.5)  # alpha, beta, gamma, delta
    normalizer: bool = True  # whether the jar can normalise the text; otherwise it only lowercases


_DEFAULT = {"exact": 1.0, "stem": 0.5}
LANGUAGES = {
    "cs": Language("cz", {"exact": 1.0, "paraphrase": 0.4}, (0.95, 0.2, 0.6, 0.8)),
    "de": Language("de", {"exact": 1.0, "stem": 0.8, "paraphrase": 0.2}, (0.95, 1.0, 0.55, 0.55)),
    "en": Language("en", {"exact": 1.0, "stem": 0.6, "synonym": 0.8, "paraphrase": 0.6}, (0.85, 0.2, 0.6, 0.75)),
    "es": Language("es", {"exact": 1.0, "stem": 0.8, "paraphrase": 0.6}, (0.65, 1.3, 0.5, 0.8)),
    "fr": Language("fr", {"exact": 1.0, "stem": 0.2, "paraphrase": 0.4}, (0.9, 1.4, 0.6, 0.65)),
    "ru": Language("ru", _DEFAULT | {"paraphrase": 0.5}),
    "sv": Language("se", _DEFAULT, normalizer=False),
} | {
    code: Language(code, _DEFAULT, normalizer=False) for code in ("da", "fi", "hu", "it", "nl", "no", "pt", "ro", "tr")
}
"""Languages that METEOR 1.5 knows, by ISO code."""


def check_language(language: str) -> None:
    """Raise ConfigError if METEOR does not know a language."""
    if base(language) not in LANGUAGES:
        known = ", ".join(sorted(LANGUAGES))
        raise ConfigError(f"METEOR 1.5 does not know the language '{language}'; it knows {known}; leave meteor out")


def java() -> str:
    """Return the path of the Java command; raise ConfigError if it is missing."""
    if path := shutil.which("java"):
        return path
    raise ConfigError(
        "meteor needs Java, but there is no command 'java'; install it (on Debian: apt-get install "
        "default-jre-headless), or leave meteor out"
    )


def jar() -> Path:
    """Return METEOR's jar: the file in METEOR_JAR, else the jar of pycocoevalcap; raise ConfigError if missing."""
    if value := os.environ.get("METEOR_JAR"):
        path = Path(value).absolute()
        if not path.is_file():
            raise ConfigError(
                f"METEOR_JAR: expected the path of meteor-1.5.jar, got '{value}', which is not a file; correct it"
            )
        return path
    try:
        path = Path(str(distribution("pycocoevalcap").locate_file(JAR)))
    except PackageNotFoundError:
        path = Path(JAR)
    if path.is_file():
        return path
    raise ConfigError(
        f"meteor needs meteor-1.5.jar of the package pycocoevalcap, which is not installed; {EXTRA}, or download "
        "METEOR and set METEOR_JAR to the path of its jar, or leave meteor out"
    )


class _JavaSignature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info |= {"id": args["id"], "options": shlex.join(args["options"]), "version": "1.5"}


class Meteor(SummedMetric):
    """Java METEOR 1.5 (Denkowski and Lavie 2014), 0 to 100.

    One process of the jar aligns all lines and prints the statistics of each sentence (``-ssOut``). This class sums
    them and computes the corpus score from the sums, as the jar does. If the paraphrase table of the language is
    missing beside the jar, the score does not use the paraphrase module.

    Attributes:
        reduced: whether the paraphrase module is missing.
        weights: weight of each module.
        options: options of the jar.
        id: METEOR's name for these settings, as the jar prints it.

    Raises:
        ConfigError: METEOR does not know the language, or Java or the jar is missing.
    """

    _SIGNATURE_TYPE = _JavaSignature

    def __init__(self, language: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_language(language)
        self._java, self._jar, self._language = java(), jar(), LANGUAGES[base(language)]
        table = self._jar.parent / "data" / f"paraphrase-{self._language.code}.gz"
        self.reduced = "paraphrase" in self._language.weights and not table.is_file()
        self.weights = {m: w for m, w in self._language.weights.items() if not (self.reduced and m == "paraphrase")}
        self.options = self._options()
        self.id = self._id()

    def _options(self) -> list[str]:
        options = ["-l", self._language.code, "-norm" if self._language.normalizer else "-lower"]
        if self.reduced:
            options += ["-m", self.modules, "-w", " ".join(map(str, self.weights.values()))]
        return options

    def _id(self) -> str:
        parameters = "_".join(map(str, self._language.parameters))
        modules = "_".join(module[:2] for module in self.weights)
        weights = "_".join(map(str, self.weights.values()))
        case = "norm" if self._language.normalizer else "lc_only"
        return f"meteor-1.5-wo-{self._language.code}-{case}-{parameters}-{modules}-{weights}"

    @property
    def modules(self) -> str:
        """Names of the modules that align words, e.g. ``exact stem``."""
        return " ".join(self.weights)

    def command(self, hypotheses: str, references: str) -> str:
        """Return the command that prints the score (0 to 1) of two files."""
        return f"java -Xmx2G -jar {self._jar.name} {hypotheses} {references} {shlex.join(self.options)}"

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> NDArray[np.float64]:
        """Return the statistics of each sentence (N, 7).

        The columns are weighted words, weighted matches and matched words, each of hypothesis and reference, and
        chunks. As in the jar, a sentence that equals its reference has 0 chunks.
        """
        assert references is not None and len(references) == 1
        self.num_refs = 1
        counts = self._align(hypotheses, references[0])
        *_, delta = self._language.parameters
        lengths, function_words = counts[:, 0:2], counts[:, 2:4]
        # (N, module, content or function word, hypothesis or reference)
        matches = counts[:, 4:20].reshape(-1, 4, 2, 2)[:, : len(self.weights)]
        weighted = np.einsum("nmks,m,k->ns", matches, list(self.weights.values()), [delta, 1 - delta])
        weighted_lengths = delta * (lengths - function_words) + (1 - delta) * function_words
        chunks, matched = counts[:, 20:21], counts[:, 21:23]
        equal = (chunks == 1) & (matched == lengths).all(axis=1, keepdims=True)
        return np.concatenate([weighted_lengths, weighted, matched, np.where(equal, 0.0, chunks)], axis=1)

    def _align(self, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
        """Run the jar; return the 23 counts that it prints for each sentence (N, 23)."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("hypotheses", "references")]
            for path, lines in zip(paths, (hypotheses, references), strict=True):
                # Java treats a carriage return as the end of a line.
                path.write_text("".join(line.replace("\r", " ") + "\n" for line in lines), encoding="utf-8")
            jvm_options = ["-XX:+UseSerialGC", "-Xmx2G", "-Dfile.encoding=UTF-8"]
            command = [self._java, *jvm_options, "-jar", str(self._jar), *map(str, paths), *self.options, "-ssOut"]
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        rows = [line.split() for line in done.stdout.splitlines()]
        if done.returncode or len(rows) != len(hypotheses) or any(len(row) != 23 for row in rows):
            message = (done.stderr.strip() or "nothing").splitlines()[0]
            raise DataError(
                f"{self._jar}: expected 23 numbers for each of {len(hypotheses)} lines; Java said: {message}"
            )
        return np.array(rows, np.float64)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [float(v) for v in self._extract_corpus_statistics([hypothesis], [[ref_kwargs["reference"]]])[0]]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        """Return the F-mean times (1 - penalty), Denkowski and Lavie (2014), section 2."""
        words, reference_words, matches, reference_matches, matched, reference_matched, chunks = map(float, stats)
        if not (matches and reference_matches):
            return Score("METEOR", 0.0)
        alpha, beta, gamma, _ = self._language.parameters
        precision, recall = matches / words, reference_matches / reference_words
        f_mean = 1 / ((1 - alpha) / precision + alpha / recall)
        fragmentation = 2 * chunks / (matched + reference_matched)
        return Score("METEOR", 100 * max(0.0, f_mean * (1 - gamma * fragmentation**beta)))


class _NltkSignature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info |= {"kind": "nltk", "stem": "porter", "wordnet": "en", "version": version("nltk")}


class NltkMeteor(SummedMetric):
    """NLTK's ``meteor_score`` with its defaults, 0 to 100: Porter stems and English WordNet for every language.

    Its scores are not comparable with METEOR 1.5: it uses alpha 0.9, beta 3 and gamma 0.5 (Banerjee and Lavie 2005;
    Lavie and Agarwal 2007), and the corpus score is the mean of the sentence scores. Words are separated by spaces
    and compared without case.

    Raises:
        ConfigError: NLTK or its WordNet is missing.
    """

    _SIGNATURE_TYPE = _NltkSignature

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._score = _nltk_score()

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [self._score([ref_kwargs["reference"].split()], hypothesis.split()), 1.0]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score("METEOR (NLTK)", 100 * float(stats[0]) / float(stats[1]))


def _nltk_score() -> Callable[..., float]:
    """Import NLTK's ``meteor_score`` and load WordNet; raise ConfigError if one is missing."""
    try:
        from nltk.corpus import wordnet
        from nltk.translate.meteor_score import meteor_score
    except ImportError:
        raise ConfigError(f"meteor_nltk needs the package nltk, which is not installed; {EXTRA}") from None
    try:
        wordnet.ensure_loaded()
    except LookupError:
        raise ConfigError(
            "meteor_nltk needs NLTK's WordNet, which is in none of its data folders; python -m nltk.downloader "
            "wordnet, or set NLTK_DATA to the folder that contains corpora/wordnet"
        ) from None
    return meteor_score  # type: ignore[no-any-return]
