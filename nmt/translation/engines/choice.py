"""The choice of the program that searches: PyTorch by `nmt.models.search`, or CTranslate2."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch

from nmt.config.decoding import Decoding
from nmt.models.base import TranslationModel
from nmt.system.errors import ConfigError
from nmt.system.warnings import say
from nmt.text.subwords import Vocabulary
from nmt.translation.engines.fast import FastSearch
from nmt.translation.engines.specification import unsupported

PACKAGE = "ctranslate2"
NOT_THERE = ("sampling", "prefix", "length_reward", "coverage_penalty", "no_repeat_ngram", "min_length")
"""Options of the search that CTranslate2 lacks, or has with another meaning."""
PENALTIES = (0.0, 1.0)
"""Least and greatest length penalty with which `auto` takes CTranslate2.

With a greater one, search stops too early more often: longer translations score better, and CTranslate2 does not wait
for them. With one below 0 it is the other way round.
"""


@dataclass
class Engines:
    """The engines of one model directory; the converted model is loaded when the first search needs it."""

    folder: Path
    models: Sequence[TranslationModel]
    source: Vocabulary
    target: Vocabulary
    device: torch.device
    workers: int
    _fast: FastSearch | None = None
    _reported: set[str] = field(default_factory=set)  # the reasons against CTranslate2

    def choose(self, decoding: Decoding) -> FastSearch | None:
        """Return the search of CTranslate2, or None for that of PyTorch.

        Where ``engine: auto`` takes PyTorch, one line says why, once for each reason.

        Raises:
            ConfigError: ``engine: ctranslate2`` with a model or a search that CTranslate2 does not support.
            ModuleNotFoundError: ``engine: ctranslate2``, and the package is not installed.
        """
        if decoding.engine == "torch":
            return None
        if reason := self._obstacle(decoding):
            if reason not in self._reported:
                self._reported.add(reason)
                say(f"engine: auto takes torch, because {reason}")
            return None
        if not self._fast:
            threads = max(self.workers, torch.get_num_threads())
            self._fast = FastSearch.load(self.folder, self.models[0], self.source, self.target, threads)
        return self._fast

    def name(self, decoding: Decoding) -> str:
        """Return the name and version of the engine for provenance."""
        package = PACKAGE if self.choose(decoding) else "torch"
        return f"{package} {metadata.version(package)}"

    def _obstacle(self, decoding: Decoding) -> str | None:
        """Return why CTranslate2 cannot be used; raises as `choose` does."""
        if problem := self._problem(decoding):
            expected, got = problem
            if decoding.engine == "ctranslate2":
                raise ConfigError(f"engine: ctranslate2: expected {expected}, got {got}; use engine: auto or torch")
            return f"CTranslate2 needs {expected}, not {got}"
        if decoding.engine == "auto" and not find_spec(PACKAGE):
            return f"the package {PACKAGE} is not installed (python3 envs/install.py run export)"
        return None

    def _problem(self, decoding: Decoding) -> tuple[str, str] | None:
        """Return what CTranslate2 expects of the model and the search and what was given, if it cannot be used."""
        if problem := unsupported(self.models, self.source):
            return problem
        if self.device.type != "cpu":
            return "the device cpu", self.device.type
        given = decoding.non_defaults()
        if options := [name for name in NOT_THERE if name in given]:
            return "greedy or beam search without further options", options[0]
        if decoding.engine == "auto":
            if decoding.nbest > 1:
                return "nbest: 1", str(decoding.nbest)
            if not PENALTIES[0] <= decoding.length_penalty <= PENALTIES[1]:
                return f"a length penalty from {PENALTIES[0]:g} to {PENALTIES[1]:g}", f"{decoding.length_penalty:g}"
        return None
