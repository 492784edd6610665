"""Where everything lives: paths follow what determines the content, so equal work is done once."""

from dataclasses import dataclass
from pathlib import Path

from nmt.config.corpus.filters import ScoresFilter
from nmt.config.decoding import Decoding
from nmt.config.models import Backbone
from nmt.config.system import System
from nmt.config.table import Row
from nmt.corpora.catalogue import TRAIN_SAMPLE
from nmt.system.files import digest

SAMPLE = 1000
"""Pairs of a sample of the training text, where the training does not say how many."""
TABLES = Path("workflow/tables")
"""The folder of the table files, from the folder that the workflow runs in."""

DECODED = ("hypotheses.txt", "decoding.json", "alignments.json")
"""What `nmt decode` writes for a row."""
SCORED = ("hypotheses.tok", "references.tok", "hypotheses.detok", "references.detok", "sources.txt", "scores.json")
"""What `nmt score` writes for a row."""


@dataclass(frozen=True)
class Layout:
    """Paths below one results folder; ``limit`` (a quick trial) has corpora of its own."""

    results: Path
    limit: int | None = None

    def corpus(self, name: str) -> str:
        """A corpus's name in paths."""
        return name if self.limit is None else f"{name}-first{self.limit}"

    def raw(self, system: System) -> Path:
        """Raw text, one ``{split}.{language}`` each, and ``corpus.json``."""
        mixtures = reversed(system.mixtures)
        added = "".join(f"-{mixture.added.slug(mixture.added_direction)}" for mixture in mixtures if mixture.added)
        return self.results / "corpora" / f"{self.corpus(system.corpus)}{added}" / pairs_slug(system) / "raw"

    def translations(self, system: System) -> Path:
        """What a model wrote for a system's training text, ``translations.txt``; of two, the text added last."""
        assert system.added
        return (
            self.results
            / f"{system.added_direction}-translated"
            / self.corpus(system.added.translated.slug(system.languages))
        )

    def clean(self, system: System) -> Path:
        """Cleaned text, one ``{split}.{language}`` each, and ``report.json``."""
        return self.raw(system).parent / system.cleaning.slug("clean")

    def pair_scores(self, system: System, scores: ScoresFilter) -> Path:
        """Scores of a system's raw training pairs, for a filter: by models, or a file of the user."""
        made = self.raw(system).parent / f"{scores.model_copy(update={'minimum': 0.0}).slug('scores')}.txt"
        return scores.file or made

    def vectors(self, text: System) -> Path:
        """Word vectors of the model's width, learned from the cleaned training text of a system in one language."""
        return self.raw(text).parent / f"{text.cleaning.slug(f'vectors{text.model.width}')}.txt"

    def sample(self, system: System) -> Path:
        """A sample of the training text, ``raw/`` and ``clean/``: of ``train_bleu`` pairs, or 1,000 if that is off."""
        clean = self.clean(system)
        return clean.with_name(f"{clean.name}-sample{system.training.train_bleu or SAMPLE}")

    def texts(self, system: System, test: str) -> tuple[Path, Path]:
        """Folders of the raw and the cleaned text of a test set."""
        if test == TRAIN_SAMPLE:
            return self.sample(system) / "raw", self.sample(system) / "clean"
        return self.raw(system), self.clean(system)

    def subwords(self, system: System) -> Path:
        """Subword models ``source.model`` and ``target.model``."""
        slug = system.subwords.slug(f"{system.subwords.kind}{system.subwords.size}")
        return self.results / "subwords" / self.clean(system).relative_to(self.results / "corpora") / slug

    def encoded(self, system: System) -> Path:
        """Encoded training and validation text, all that training needs."""
        return self.results / "encoded" / self.subwords(system).relative_to(self.results / "subwords")

    def pictures(self, corpus: str) -> Path:
        """Pictures of a corpus that comes with some, with a list of names a split, ``{split}.txt``."""
        return self.results / "images" / self.corpus(corpus)

    def features(self, corpus: str, backbone: Backbone) -> Path:
        """Image features of a corpus, ``{split}.npy`` each."""
        return self.results / "features" / self.corpus(corpus) / backbone

    def run(self, table: str, system: str, seed: int | str) -> Path:
        """One system trained with one seed: ``training.json``, ``state/``, models and their scores.

        The folder of an ensemble, ``1-2-3``, holds only the ensemble's models and their scores.
        """
        return self.runs(table) / system / f"seed{seed}"

    def runs(self, table: str) -> Path:
        """All systems of a table."""
        return self.results / "runs" / table

    def selected(self, table: str, system: str, seed: int | str, at: str) -> Path:
        """Model directory of a system at a checkpoint selection, e.g. ``average best 5``."""
        return self.run(table, system, seed) / at.replace(" ", "-") / "model"

    def model(self, table: str, row: Row, seed: int | str) -> Path:
        """Model directory of a row: its system at its checkpoint selection."""
        assert row.system is not None
        return self.selected(table, row.system, seed, row.at)

    def scores(self, table: str, row: Row, test: str, seed: int | str) -> Path:
        """Hypotheses, references and scores of a row on a test set."""
        test = f"{test}.{row.pair}" if row.pair else test  # `test_and_pair` reads it
        if row.hypotheses:
            return self.runs(table) / row.hypotheses_slug / test
        return self.model(table, row, seed).parent / test / decoding_slug(row.decoding)

    def table(self, table: str) -> Path:
        """The rebuilt table: ``{table}.md``, ``.csv``, ``.html`` and ``.json`` in this folder."""
        return self.results / "tables" / table

    def record(self, table: str, path: Path) -> Path:
        """The committed record of a file of a table's runs."""
        return self.records(table) / path.relative_to(self.runs(table))

    def records(self, table: str) -> Path:
        """Small files of a table's runs that are committed: logs, translations and scores."""
        return self.results / "records" / table

    def figures(self, table: str) -> Path:
        """Figures of a table."""
        return self.results / "figures" / table


def table_path(table: str) -> Path:
    """The file of a table."""
    return TABLES / f"{table}.yaml"


def pairs_slug(system: System) -> str:
    """The pairs of languages of a system in paths: ``en-de``, or ``12pairs-1a2b3c4d``."""
    pairs = system.pairs
    return system.languages if len(pairs) == 1 else f"{len(pairs)}pairs-{digest(pairs)}"


def test_and_pair(system: System, folder: str) -> tuple[str, str | None]:
    """Return the test set, and of a system with several pairs the pair, that a folder of scores is named after."""
    test, _, pair = folder.rpartition(".")
    return (test, pair) if len(system.pairs) > 1 else (folder, None)


def decoding_slug(decoding: Decoding) -> str:
    """Readable and unique: ``greedy-…`` or ``beam5-…``."""
    return decoding.slug("greedy" if decoding.beam == 1 else f"beam{decoding.beam}")
