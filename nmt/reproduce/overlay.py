"""A shared results folder under one's own: what it has complete is linked into one's own, and it is never written.

A link is made only where the user's settings would make the same, and only if all that it was made from is linked too.
A link has the date of its file. So Snakemake sees the same order of dates as in the shared folder. It removes a link
before it makes a file itself.
"""

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from nmt.config.corpus.sources import sources_with
from nmt.config.system import System
from nmt.config.table import Row
from nmt.corpora.catalogue import TRAINING, splits
from nmt.plan.layout import DECODED, SCORED
from nmt.plan.plan import Plan
from nmt.plan.systems import sees_pictures
from nmt.reproduce.runs import Run, has_attention_of
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import Json, digest, read_json
from nmt.system.fingerprints import OWN_FILES, fingerprint
from nmt.system.warnings import SUFFIX

VARIABLE = "NMT_SHARED_RESULTS"
"""Environment variable: the shared folder, where the settings name none."""
STAMP = ".snakemake_timestamp"
TRANSLATED = ("translations.txt", "decoding.json", "alignments.json")


def link_shared(plan: Plan, tables: Iterable[str]) -> None:
    """Link what the shared results folder has of some tables and their texts into the plan's results folder.

    Raises:
        ConfigError: there is no such folder, or it is the plan's own.
    """
    shared = plan.settings.shared_results or os.environ.get(VARIABLE)
    if not shared:
        return
    source = f"config.yaml: shared_results: {shared}" if plan.settings.shared_results else f"{VARIABLE}: {shared}"
    folder, results = Path(shared).expanduser().absolute(), plan.settings.results
    if not folder.is_dir():
        raise ConfigError(f"{source}: expected a results folder, got none; correct the path, or remove the setting")
    if folder.resolve() == results.resolve():
        raise ConfigError(
            f"{source}: expected another folder than results: {results}; choose a results folder of your own"
        )
    overlay = Overlay(plan, folder)
    for table in tables:
        for system, seed in plan.runs(table):
            overlay.training(table, system, seed)
        for row in plan.table(table).rows:
            if row.system:
                for model in plan.table(table).models_of(row, plan.settings.seeds):
                    overlay.row(table, row, model)


class Overlay:
    """Links from a plan's results folder into a shared one."""

    def __init__(self, plan: Plan, shared: Path) -> None:
        self.plan, self.layout, self.shared = plan, plan.layout, shared
        self.text = cache(self._text)
        self.training = cache(self._training)

    def _text(self, folder: str) -> bool:
        """Link the texts and vocabularies up to a folder of encoded text; return whether all are linked."""
        system, layout = self.plan.system_for(folder), self.layout
        cleaned = all([self.clean(text) for text in system.by_pair])  # noqa: C419  links all of them
        return self.link(layout.encoded(system), given=self.link(layout.subwords(system), given=cleaned))

    def clean(self, system: System) -> bool:
        """Link the raw and the cleaned text of a pair of languages, and a sample; return whether both are linked."""
        folder, sample = self.layout.clean(system), self.layout.sample(system)
        unscored = not self.plan.score_files(str(folder))  # nothing tells whether theirs has the same scores
        cleaned = self.link(folder, given=self.raw(system) and unscored)
        self.link(sample / "raw", sample / "clean", given=cleaned)
        return cleaned

    def raw(self, system: System) -> bool:
        """Link raw text, and what its added pairs were made from; return whether it is linked."""
        raw = self.layout.raw(system)
        if not system.added:
            return self.link(raw, given=self._is_same_text(system))
        added, folder = system.added, self.layout.translations(system)
        text, model = self.raw(system.text_to_translate), self.model(added.table, added.system, added.seed, added.at)
        translated = self.link(*(folder / name for name in TRANSLATED), given=text and model)
        return self.link(raw, given=translated and self.raw(system.without_last_added))

    def _training(self, table: str, system: str, seed: int) -> bool:
        """Link a finished training, if it is the one of the plan; return whether it is linked."""
        run = Run(self.plan, table, system, seed)
        made_from = self.text(str(run.encoded)) and self.features(run.system, TRAINING) and self._parent(run)
        linked = self.link(
            run.folder / "training.json", run.folder / "log.jsonl", given=made_from and self._matches(run)
        )
        self.link(run.folder / "state", given=linked)
        return linked

    def _parent(self, run: Run) -> bool:
        initialise, parent = run.system.initialise, run.parent
        return not (initialise and parent) or self.model(parent.table, parent.name, parent.seed, initialise.at)

    def _matches(self, run: Run) -> bool:
        try:
            return run.matches(self.theirs(run.folder / "training.json"))
        except (DataError, KeyError, OSError):  # the file is missing, or of another version
            return False

    def model(self, table: str, system: str, seed: int | str, at: str) -> bool:
        """Link the model of a seed, or of an ensemble and its members (``1-2-3``); return whether it is linked."""
        models = {int(member): self.layout.selected(table, system, member, at) for member in str(seed).split("-")}
        linked = all([self.link(path, given=self.training(table, system, n)) for n, path in models.items()])  # noqa: C419
        return linked if len(models) == 1 else self.link(self.layout.selected(table, system, seed, at), given=linked)

    def row(self, table: str, row: Row, model: int | str) -> None:
        """Link a row's models, test set, translations and scores, as far as they belong together."""
        assert row.system
        test = self.plan.table(table).test_of(row)
        tested = self.plan.tested(table, row.system, test, row.pair)
        folder = self.layout.scores(table, row, test, model)
        decoded, scored = ([folder / name for name in names] for names in (DECODED, SCORED))
        linked = self.model(table, row.system, model, row.at)
        made = [folder for folder in self.layout.texts(tested, test) if folder != self.layout.raw(tested)]
        texts = self.link(*made, given=self.clean(tested))
        has_inputs = linked and texts and self.features(tested, [test], row)
        lines, alignments = self.plan.table(table).lines_of(test), self.theirs(folder / "alignments.json")
        has_inputs = has_inputs and has_attention_of(lines, alignments)
        self.link(*scored, given=self.link(*decoded, given=has_inputs))

    def features(self, system: System, names: Sequence[str], row: Row | None = None) -> bool:
        """Link the image features of some splits; return whether all are linked, or none are seen."""
        if not sees_pictures(system, row.decoding.images if row else None):
            return True
        arrays = list(map(Path, self.plan.features(system, names, row.decoding.images if row else None)))
        if self.plan.settings.images.get(system.corpus):  # the user's own: nothing tells whether they are the same
            return False
        self.link(self.layout.pictures(system.corpus))
        return self.link(*arrays, *(array.with_suffix(".json") for array in arrays))

    def _is_same_text(self, system: System) -> bool:
        """Whether the shared raw text is made from the same files; of nmt's own corpora the name tells."""
        custom = self.plan.settings.corpora.get(system.corpus)
        file = self.theirs(self.layout.raw(system) / "corpus.json")
        if custom is None or not file.is_file():
            return file.is_file()
        record: Json = read_json(file)
        if record.get("declared") != custom.fingerprint:
            return False
        codes, sums = system.languages.split("-"), dict[Path, str | None]()
        for split in splits(system.corpus, system.languages, custom):
            read = sources_with(custom.splits[split], codes)
            for source, made in zip(read, record["sources"][split], strict=True):
                recorded = [made["sha256"].get(code) for code in source.read_for(codes)]  # older ones lack slice.by
                sums |= dict(zip(source.local_files(codes), recorded, strict=False))
        return fingerprint(sums, OWN_FILES) == digest(list(sums.values()))

    def theirs(self, own: Path) -> Path:
        """The shared file for one of one's own."""
        return self.shared / own.relative_to(self.layout.results)

    def link(self, *paths: Path, given: bool = True) -> bool:
        """Link files or folders that belong together; return whether they are linked.

        They are not if one of them is missing there, or one's own is here. Then earlier links are removed.

        Args:
            paths: one's own.
            given: whether all is linked that they are made from.
        """
        if (
            given
            and all(self.theirs(path).exists() for path in paths)
            and not any(self._is_own(path) for path in paths)
        ):
            for path in paths:
                self._link(path)
                record = path.with_name(path.name + SUFFIX)
                if self.theirs(record).exists() and not self._is_own(record):
                    self._link(record)
            return True
        for path in paths:
            if path.is_symlink() and not self._is_own(path):
                path.unlink()
        return False

    def _is_own(self, path: Path) -> bool:
        if path.is_symlink():
            return path.readlink() != self.theirs(path)
        return path.exists()

    def _link(self, path: Path) -> None:
        there = self.theirs(path)
        if not path.is_symlink():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(there)
        stamp = there / STAMP
        time = (stamp if stamp.exists() else there).stat().st_mtime_ns
        os.utime(path, ns=(time, time), follow_symlinks=False)
