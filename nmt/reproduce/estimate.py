"""How long a table's systems will take: all stages on a small sample of the text, and some updates of each training."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from nmt.config.data import Cleaning, InheritedSubwords, Subwords
from nmt.config.system import System
from nmt.config.types import amount
from nmt.corpora.catalogue import TRAINING, fetch
from nmt.data.encode import encode_corpus
from nmt.plan.commands import CHECKSUMS
from nmt.plan.plan import Plan
from nmt.plan.systems import experiment
from nmt.system import machine
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_json, write_lines
from nmt.system.lines import read_lines
from nmt.system.warnings import renamed
from nmt.text.clean import clean
from nmt.text.subwords import SIDES, learn
from nmt.training.checkpoint import Progress
from nmt.training.experiment import Experiment
from nmt.training.trainer import Trainer
from nmt.training.updates import Update

SAMPLE = 3000
"""Pairs of each split that are prepared."""
VALIDATION = 300
"""Validation pairs among them; a model that is hardly trained translates slowly."""
MEASURED = 6.0
"""Seconds of updates that are measured, after `WARM_UP` updates."""
WARM_UP, FEWEST = 3, 5
BEAM = 0.5
"""Cost of a further hypothesis of a beam, as a share of greedy search."""


class Stopwatch:
    """Seconds that work would take on an idle machine: those of the clock, or of the processor if others had it too.

    Args:
        threads: of the work; 0 for work on a GPU, of which only the clock knows.
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads, self._clock, self._processor = threads, time.perf_counter(), sum(os.times()[:4])

    @property
    def clock(self) -> float:
        """Seconds of the clock."""
        return time.perf_counter() - self._clock

    @property
    def seconds(self) -> float:
        """Seconds on an idle machine."""
        if not self._threads:
            return self.clock
        return min(self.clock, (sum(os.times()[:4]) - self._processor) / self._threads)


@dataclass
class Estimate:
    """Seconds by stage, and what a training consists of."""

    seconds: dict[str, float] = field(default_factory=dict)
    pairs: dict[str, int] = field(default_factory=dict)
    """Raw pairs of each split, before cleaning."""
    kept: int = 0
    """Training pairs that cleaning is expected to keep."""
    pieces: int = 0
    """Size of the vocabularies that were learned from the sample, or of the parent's."""
    updates: int = 0
    per_update: float = 0.0
    per_sentence: float = 0.0
    """Seconds of greedy search for a sentence."""

    def add(self, stage: str, seconds: float) -> None:
        """Add to the seconds of a stage."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @property
    def text(self) -> float:
        """Seconds of the stages that prepare text."""
        return sum(seconds for stage, seconds in self.seconds.items() if stage != "train")


def estimate(plan: Plan, system: System, threads: int) -> Estimate:
    """Measure the stages of a system on a sample, and multiply.

    Args:
        plan: the settings.
        system: a text-only system on a corpus of its own text. Its alignments, of the whole text, are left out.
        threads: as many as the workflow will use.

    Returns:
        Seconds of the text's stages, and of one training; with patience, a training may end earlier.

    Raises:
        ConfigError, DataError: a stage cannot do its work, as it will in the workflow.
    """
    found = Estimate()
    with TemporaryDirectory() as scratch, renamed(Path(scratch), f"sample of {system.corpus}"):
        folder = Path(scratch)
        pieces, encoded = folder / "subwords", folder / "encoded"
        cleaned = [folder / "clean" / pair for pair in system.pairs]
        ratio = max(_clean(found, plan, *each, threads) for each in zip(system.by_pair, cleaned, strict=True))
        inherited = isinstance(system.subwords, InheritedSubwords)  # copied; only the sample's are learned
        with _timed(found, "subwords", 0 if inherited else max(1.0, ratio / threads)):
            learned = _learn(cleaned, pieces, system, whole=ratio <= 1 and not inherited)
            found.pieces = system.subwords.size if inherited else learned
        with _timed(found, "encode", ratio):
            encode_corpus(cleaned, pieces, encoded, system.languages)
        _set_vocabulary(encoded, system)
        _measure_training(found, encoded, folder / "state", system, plan.settings.device, threads)
    return found


def _clean(found: Estimate, plan: Plan, system: System, cleaned: Path, threads: int) -> float:
    """Fetch and clean a sample of the text of one pair of languages.

    Returns:
        How many times the sample's training text the whole is.
    """
    raw, custom = cleaned.parents[1] / "raw" / cleaned.name, plan.settings.corpora.get(system.corpus)
    limit, watch = min(SAMPLE, plan.settings.limit or SAMPLE), Stopwatch()
    fetch(
        system.corpus, system.languages, raw, mirror=plan.settings.mirror, limit=limit, custom=custom,
        checksums=CHECKSUMS,
    )  # fmt: skip
    seconds = watch.seconds
    pairs, ratio = _sizes(raw, plan.settings.limit)
    for path in raw.glob("valid.*"):
        write_lines(path, list(islice(read_lines(path), VALIDATION)))
    found.add("download", seconds * (1 if custom else ratio))
    with _timed(found, "clean", ratio / threads), renamed(raw, f"sample of {system.corpus}"):
        clean(raw, cleaned, _without_scores(system.cleaning), system.languages)
    report = read_json(cleaned / "report.json")["splits"]["train"]
    found.kept += round(report["kept"] / report["read"] * pairs["train"])
    for split, count in pairs.items():  # a row translates the test set of one pair
        before = found.pairs.get(split, 0)
        found.pairs[split] = before + count if split in TRAINING else max(before, count)
    return ratio


@contextmanager
def _timed(found: Estimate, stage: str, factor: float = 1.0) -> Iterator[None]:
    watch = Stopwatch()
    yield
    found.add(stage, factor * watch.seconds)


def _sizes(raw: Path, limit: int | None) -> tuple[dict[str, int], float]:
    """Return the pairs of each split, and how many times the sample's training text the whole is."""
    corpus = read_json(raw / "corpus.json")
    lines = {split: next(iter(sides.values()))["lines"] for split, sides in corpus["splits"].items()}
    whole = {}
    for split, count in lines.items():
        sources = [source for source in corpus["sources"].get(split, []) if "pairs" in source]
        full = sum(source["pairs"] - source["dropped"] for source in sources) or count
        whole[split] = min(full, limit) if limit else full
    return whole, max(1.0, whole["train"] / lines["train"])


def _without_scores(recipe: Cleaning) -> Cleaning:
    """The recipe without files of scores, which belong to the whole text."""
    return recipe.model_copy(update={"filters": [each for each in recipe.filters if each.kind != "scores"]})


def _learn(cleaned: Sequence[Path], pieces: Path, system: System, whole: bool) -> int:
    """Learn subwords; a vocabulary that is too large for a sample, and perhaps not for all text, is halved.

    Returns:
        The size that was learned.
    """
    config = Subwords.model_validate(system.subwords.model_dump(exclude={"origin"}))
    while True:
        try:
            learn(cleaned, pieces, system.languages, config)
            return config.size
        except ConfigError:
            if whole or config.size <= 64:
                raise
            config = config.model_copy(update={"size": config.size // 2})


def _set_vocabulary(encoded: Path, system: System) -> None:
    """Let models have as many output pieces as in the workflow; the sample's text uses the first of them."""
    meta = read_json(encoded / "meta.json")
    sizes = {side: max(meta["vocabulary"][side], system.subwords.size) for side in SIDES}
    write_json(encoded / "meta.json", dict(meta) | {"vocabulary": sizes})


def _measure_training(found: Estimate, encoded: Path, state: Path, system: System, device: str, threads: int) -> None:
    """Time updates and a validation, and multiply."""
    training = system.training.model_copy(update={"guided_alignment": None})
    config = Experiment.model_validate_json(experiment(system.model_copy(update={"training": training})))
    trainer = Trainer(encoded, state, config, 1, machine.prepare(device, threads))
    trainer.model.train()
    updates = chain.from_iterable(trainer.updates.after(Progress()) for _ in repeat(None))  # again and again
    for update in islice(updates, WARM_UP):
        trainer.train_on(update)
    found.per_update = min(_per_update(trainer, updates, count) for count in sorted({min(1, threads), threads}))
    epoch = trainer.updates.per_epoch * found.kept / max(1, len(trainer.updates.data.indices))
    limits = [system.training.updates, system.training.epochs and system.training.epochs * epoch]
    found.updates = math.ceil(min(limit for limit in limits if limit is not None))
    number, unit = amount(system.training.validate_every)
    validations = found.updates / (number if unit == "updates" else number * max(1.0, epoch))
    found.seconds["train"] = found.updates * found.per_update + validations * _validation(found, trainer, threads)


def _per_update(trainer: Trainer, updates: Iterator[Update], threads: int) -> float:
    """Measure the seconds of an update with so many threads.

    Threads that wait for one another take the processor too. So on a busy machine, a measurement with one thread comes
    nearer to the time of several threads on an idle one.
    """
    torch.set_num_threads(threads)
    watch, count = Stopwatch(_threads(trainer, threads)), 0
    for update in updates:
        trainer.train_on(update)
        count += 1
        if count >= FEWEST and watch.clock > MEASURED:
            break
    return watch.seconds / max(1, count)


def _threads(trainer: Trainer, threads: int) -> int:
    return threads if trainer.device.type == "cpu" else 0


def _validation(found: Estimate, trainer: Trainer, threads: int) -> float:
    """Measure one validation and return its seconds on the whole validation text.

    A model that is hardly trained writes translations of the greatest length, so the time of search is reduced.
    """
    pairs = trainer.validation.pairs
    ratio = found.pairs.get("valid", 0) / max(1, len(pairs.indices))
    watch = Stopwatch(_threads(trainer, threads))
    trainer.validation.loss(trainer.model)
    seconds, watch = watch.seconds, Stopwatch(_threads(trainer, threads))
    with suppress(IndexError):  # after the search: it may write pieces that the sample's vocabulary lacks
        trainer.validation.bleu(trainer.model)
    search = watch.seconds
    source, target = (float(side.lengths.mean()) for side in (pairs.source, pairs.target))
    search *= min(1.0, target / (2 * source + 10))
    found.per_sentence = search / max(1, len(pairs.indices))
    bleu = trainer.config.validation_bleu
    return ratio * (seconds + search * bleu)


def decoding(found: Estimate, sentences: int, beam: int) -> float:
    """Return the seconds that a row's translations take."""
    return sentences * found.per_sentence * (1 + BEAM * (beam - 1))


def job_seconds() -> float:
    """Measure how long the start of a job takes, which imports the packages of a stage."""
    watch = Stopwatch()
    subprocess.run([sys.executable, "-c", "import torch, nmt.config.table"], check=True)
    return watch.seconds


def spoken(seconds: float) -> str:
    """Say a duration in words: ``40 s``, ``5 min``, ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
