"""The plan of a workflow: settings, tables, and what each file is made from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from nmt.config.corpus.filters import ScoresFilter
from nmt.config.corpus.sources import sources_with
from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig, Shown
from nmt.config.system import System
from nmt.config.table import GIVEN, Row, Table
from nmt.config.workflow import Workflow
from nmt.corpora.catalogue import TRAINING, pictured, with_corpus_of
from nmt.plan import commands
from nmt.plan.checks import check_table, has_training_text
from nmt.plan.layout import DECODED, SCORED, TABLES, Layout, decoding_slug, table_path
from nmt.plan.load import choose, load_settings, load_tables
from nmt.plan.recipes import Mixture, Output, PairScores, Pictures, RawText, Translation
from nmt.plan.systems import as_json, reads_descriptions, sees_pictures, with_descriptions


@dataclass(frozen=True)
class Plan:
    """The settings of a workflow and every table it can build."""

    settings: Workflow
    tables: Mapping[str, Table]

    @classmethod
    def load(cls, settings: Mapping[str, Any], where: str, targets: Iterable[str] = (), own_files: bool = True) -> Self:
        """Read the settings and the tables, and check the tables that are asked for.

        Args:
            settings: the content of ``config.yaml``, with the values of the command line laid over it.
            where: its file, for messages.
            targets: those of the command line, ``table_NAME``, ``comet_NAME`` and ``inputs_NAME``.
            own_files: whether the user's own text must exist; encoded text can do without.

        Raises:
            ConfigError: the settings or a table are wrong, or no table has a target's name.
        """
        checked = load_settings(settings, where)
        names = sorted({path.stem for path in TABLES.glob("*.yaml")} | set(checked.tables))
        requested = set(checked.tables)
        for target in targets:
            kind, _, name = target.partition("_")
            choose("no target", target, {f"{kind}_{known}": None for known in names})
            requested.add(name)
        tables = load_tables(names, requested)
        for name in requested & set(tables):
            check_table(name, tables, checked, where, own_files)
        return cls(checked, tables)

    @property
    def layout(self) -> Layout:
        """Where files live."""
        return Layout(self.settings.results, self.settings.limit)

    # Systems, and the data folders that they share

    def system(self, table: str, system: str) -> System:
        """A system by its names; raises ConfigError with the nearest."""
        return choose(f"{table_path(table)}: no system", system, self.table(table).systems)

    def table(self, table: str) -> Table:
        """A table by its name; raises ConfigError with the nearest."""
        return choose("no table", table, self.tables)

    def tested(self, table: str, system: str, test: str, pair: str | None = None) -> System:
        """A system with the corpus that holds a test set, and a pair, for the folders of its text."""
        return with_corpus_of(self.system(table, system), test).of_pair(pair)

    def system_for(self, folder: str) -> System:
        """Any system that needs this data folder: those that share it agree on how to make it."""
        return choose("no data folder", folder, self._system_by_folder)

    @cached_property
    def _system_by_folder(self) -> dict[str, System]:
        systems = list(self._systems)
        for name, table in self.tables.items():
            texts = [(table.text_system(row), table.test_of(row), row.pair) for row in table.rows]
            systems += [self.tested(name, system, test, pair) for system, test, pair in texts if system]
        systems += [text for system in self._systems if len(system.pairs) > 1 for text in system.by_pair]
        systems += [
            text for mixture in self._mixtures for text in (mixture.text_to_translate, mixture.without_last_added)
        ]
        systems += [text for system in self._systems for text in system.texts_of_vectors.values()]
        described = (system for system in self._systems if reads_descriptions(system))
        systems += [text for system in described for text in with_descriptions(system)]
        layout = self.layout
        folders = (layout.raw, layout.clean, layout.subwords, layout.encoded, layout.vectors)
        return {str(folder(system)): system for system in systems for folder in folders}

    @property
    def _systems(self) -> list[System]:
        return [system for table in self.tables.values() for system in table.systems.values()]

    @property
    def _mixtures(self) -> list[System]:
        return [mixture for system in self._systems for mixture in system.mixtures]

    # The parts of a table

    def runs(self, table: str) -> list[tuple[str, int]]:
        """Each training of a table: system and seed."""
        chosen = self.table(table)
        systems = dict.fromkeys(row.system for row in chosen.rows if row.system)
        return [(system, seed) for system in systems for seed in chosen.seeds_of(system, self.settings.seeds)]

    def ensembles(self, table: str) -> list[tuple[str, str]]:
        """Each ensemble of a table: system and seeds, ``1-2-3``."""
        return list(dict.fromkeys((row.system or "", str(seed)) for row, seed in self._models(table) if row.ensemble))

    def scores(self, table: str, run: tuple[str, int | str] | None = None) -> list[str]:
        """The score files behind a table, or behind one of its runs (``1``) or ensembles (``1-2-3``)."""
        return [
            str(self.layout.scores(table, row, self.tables[table].test_of(row), seed) / "scores.json")
            for row, seed in self._models(table)
            if run is None or (row.system, str(seed)) == (run[0], str(run[1]))
        ]

    def _models(self, table: str) -> list[tuple[Row, int | str]]:
        """Each row that has scores, once for each of its models, which their seeds name."""
        chosen, seeds = self.table(table), self.settings.seeds
        return [(row, seed) for row in chosen.rows if row.is_scored for seed in chosen.models_of(row, seeds)]

    def outputs(self, table: str) -> list[Output]:
        """The translations of other systems that a table scores."""
        chosen, outputs = self.table(table), []
        for row in chosen.rows:
            if row.hypotheses:
                name, test = chosen.text_system(row), chosen.test_of(row)
                tested = self.tested(table, name or "", test, row.pair)
                folder = self.layout.scores(table, row, test, GIVEN)
                outputs.append(Output(row.hypotheses, folder, test, tested.languages, *self.layout.texts(tested, test)))
        return outputs

    def output(self, table: str, folder: str) -> Output:
        """The translations of another system whose scores a folder holds."""
        return choose("no scores of hypotheses", folder, {str(output.folder): output for output in self.outputs(table)})

    def training_files(self, table: str) -> list[str]:
        """The files of a table's trainings that its report reads."""
        runs = [self.layout.run(table, system, seed) for system, seed in self.runs(table)]
        return [f"{run}/{name}" for run in runs for name in ("training.json", "log.jsonl")]

    def table_files(self, table: str) -> list[str]:
        """All files of a table's target: the table, its figures, and the markers of its runs in MLflow."""
        pages = [f"{self.layout.table(table)}.{kind}" for kind in ("md", "csv", "html", "json")]
        return [*pages, str(self.layout.figures(table)), *self.markers(table)]

    def markers(self, table: str) -> list[str]:
        """The files that say where a table is in MLflow: its trainings, and the table with its rows."""
        trainings = [self.layout.run(table, *run) for run in self.runs(table)]
        return [f"{folder}/tracked.json" for folder in (*trainings, self.layout.runs(table))]

    def inputs(self, table: str, *systems: str) -> list[str]:
        """All files that some systems of a table, by default all with rows, and their rows are made from."""
        chosen, files = self.table(table), list[str | Path]()
        for name in systems or dict.fromkeys(system for system, _ in self.runs(table)):
            files += self.training_inputs(table, name)
            for row in chosen.rows_of(name):
                test = chosen.test_of(row)
                tested = self.tested(table, name, test, row.pair)
                files += [*self.layout.texts(tested, test), *self.features(tested, [test], row.decoding.images)]
        for output in () if systems else self.outputs(table):
            files += [output.raw, output.clean, output.hypotheses]
        return list(dict.fromkeys(map(str, [*files, *self.pictures_shown(table)])))

    def training_inputs(self, table: str, name: str) -> list[str | Path]:
        """All files that a system is trained on, and those of its parent."""
        system = self.system(table, name)
        files: list[str | Path] = [self.layout.encoded(system)]
        files += [*self.features(system, TRAINING), *self.vectors(system).values()]
        files += [system.alignments] if system.alignments else []
        initialise = system.initialise
        if initialise is None:
            return files
        return [*files, *([initialise.folder] if initialise.folder else self.training_inputs(*initialise.parent))]

    def report_files(self, table: str) -> list[str]:
        """The files of other stages that a table's report and its runs in MLflow read, beside trainings and scores."""
        chosen, files = self.table(table), [file for file in self.inputs(table) if file not in self.own([file])]
        for system in dict.fromkeys(system for system, _ in self.runs(table)):
            files += [str(folder(chosen.systems[system])) for folder in (self.layout.raw, self.layout.clean)]
        for row, seed in self._models(table):
            folder = self.layout.scores(table, row, chosen.test_of(row), seed)
            files += [f"{folder}/{name}" for name in (*(DECODED if row.system else ()), *SCORED)]
            files += [str(self.layout.model(table, row, seed))] if row.system else []
        return list(dict.fromkeys(files))

    def report_settings(self, tables: list[str]) -> str:
        """The settings that `report` reads, as JSON; a change of others, such as the device, makes no table again."""
        used = ["results", "limit", "seeds"]
        if any(self.tables[table].overlays for table in tables):
            used.append("images")
        return as_json(Workflow(tables=tables, **{key: getattr(self.settings, key) for key in used}))

    # What one file is made from

    def raw_text(self, folder: str) -> RawText:
        """The corpus that a folder of raw text holds."""
        system = self.system_for(folder)
        custom = self.settings.corpora.get(system.corpus)
        codes = system.languages.split("-")
        sources = (
            [source for split in custom.splits.values() for source in sources_with(split, codes)] if custom else []
        )
        files = [str(path) for source in sources for path in source.local_files(codes)]
        return RawText(system.corpus, files, commands.download_options(self.settings.limit, custom), custom)

    def score_files(self, folder: str) -> list[str]:
        """The files of scores that the filters of a folder of cleaned text read."""
        system = self.system_for(folder)
        if not has_training_text(system, self.settings.corpora):  # a corpus of test sets has nothing to filter
            return []
        return [str(self.layout.pair_scores(system, each)) for each in system.cleaning.scores]

    def cleaning(self, folder: str) -> Cleaning:
        """The recipe of a folder of cleaned text, with the files of its scores in the place of models."""
        system = self.system_for(folder)
        filters = [
            each.scored_by(self.layout.pair_scores(system, each)) if isinstance(each, ScoresFilter) else each
            for each in system.cleaning.filters
        ]
        return system.cleaning.model_copy(update={"filters": filters})

    def pair_scores(self, file: str) -> PairScores:
        """The text and the models that a file of scores is made from."""
        layout = self.layout
        filters = [(each, scores) for each in self._system_by_folder.values() for scores in each.cleaning.scores]
        known = {str(layout.pair_scores(*each)): each for each in filters}
        system, scores = choose("no scores of training pairs", file, known)
        models = [layout.selected(*scorer, scores.seed, scores.at) for scorer in scores.scorers]
        return PairScores(layout.raw(system), models, system.languages)

    def own(self, files: Iterable[str | Path]) -> list[str]:
        """Those of some files that no stage writes: the user's own."""
        return [str(file) for file in files if not Path(file).is_relative_to(self.settings.results)]

    def translation(self, folder: str) -> Translation:
        """The model, text and decoding that the translations in a folder are made from."""
        known = {str(self.layout.translations(mixture)): mixture for mixture in self._mixtures}
        system = choose("no translations", folder, known)
        assert system.added
        added, text = system.added, system.text_to_translate
        model = self.layout.selected(added.table, added.system, added.seed, added.at)
        several = len(self.system(added.table, added.system).pairs) > 1
        options = commands.direction_options(system.translated_pair) if several else []
        return Translation(model, self.layout.raw(text), text.languages, as_json(added.decoding), options)

    def mixture(self, folder: str) -> Mixture:
        """The texts that a folder of raw text with added pairs is made from."""
        system = self.system_for(folder)
        assert system.added
        raw, text = self.layout.raw(system.without_last_added), self.layout.raw(system.text_to_translate)
        return Mixture(raw, text, self.layout.translations(system), commands.mix_options(system.added))

    def decoding(self, slug: str) -> Decoding:
        """The decoding whose slug a path has."""
        return choose("no decoding", slug, self._decoding_by_slug)

    @cached_property
    def _decoding_by_slug(self) -> dict[str, Decoding]:
        decodings = [row.decoding for table in self.tables.values() for row in table.rows]
        return {decoding_slug(decoding): decoding for decoding in decodings}

    def vectors(self, system: System) -> dict[str, Path]:
        """The files of word vectors that a system's embeddings start from, by side; raises ConfigError."""
        known, learned = self.settings.word_vectors, system.texts_of_vectors
        files: dict[str, Path | None] = {
            side: choose("config.yaml: no word_vectors", name, known)
            for side, name in system.word_vectors.items()
            if isinstance(name, str)
        }
        files |= {side: self.layout.vectors(text) for side, text in learned.items()}
        return {side: path for side in system.word_vectors if (path := files[side])}

    def parent_run(self, table: str, system: str, seed: int) -> tuple[str, str, int] | None:
        """The training that a training starts from: table, system and seed; None without a parent of a table.

        The parent has the same seed, if it is trained with it, else the first of its own.
        """
        initialise = self.system(table, system).initialise
        if initialise is None or initialise.folder:
            return None
        parent = initialise.parent
        seeds = self.table(parent[0]).seeds_of(parent[1], self.settings.seeds)
        return *parent, seed if seed in seeds else seeds[0]

    def parent(self, table: str, system: str, seed: int) -> Path | None:
        """The model directory that a training starts from; None without a parent."""
        initialise, run = self.system(table, system).initialise, self.parent_run(table, system, seed)
        if initialise is None:
            return None
        return self.layout.selected(*run, initialise.at) if run else initialise.folder

    def inherited_subwords(self, folder: str) -> tuple[System, Path]:
        """A system that needs this folder of inherited subwords, and the folder of its parent that has them."""
        system = self.system_for(folder)
        assert system.initialise
        if system.initialise.folder:
            return system, system.initialise.folder
        return system, self.layout.subwords(self.system(*system.initialise.parent))

    def features(self, system: System, splits: Iterable[str], shown: Shown | None = None) -> list[str]:
        """The arrays of image features of some splits; none for a system that sees no pictures, or blank ones."""
        if not sees_pictures(system, shown):
            return []
        assert isinstance(system.model, MultimodalConfig)
        images = None if reads_descriptions(system) else self.settings.images.get(system.corpus)
        ready = images and images.features
        folder = ready or self.layout.features(system.corpus, system.model.backbone)
        return [str(folder / f"{split}.npy") for split in splits]

    def pictures(self, name: str, split: str) -> Pictures:
        """The pictures that the features of a split are made from, by the corpus's name in paths."""
        corpus = self._pictured(name)
        images = self.settings.images.get(corpus)
        options = commands.features_options(self.settings.limit, images)
        if images and images.folder:
            names = images.lists[split]
            return Pictures(
                images.folder, names, names, options, [names, *([images.weights] if images.weights else [])]
            )
        folder = self.layout.pictures(corpus)
        return Pictures(folder, folder / f"{split}.txt", folder, options, [])

    def draw_options(self, name: str) -> list[str]:
        """Options of the stage that writes the pictures of a corpus, by its name in paths."""
        return commands.draw_options(self.settings.limit, self._pictured(name))

    def _pictured(self, name: str) -> str:
        given = [corpus for corpus, images in self.settings.images.items() if images.folder]
        return choose("no pictures of", name, {self.layout.corpus(known): known for known in [*pictured(), *given]})

    def described(self, name: str) -> tuple[Path, Path]:
        """Folders of raw text of a corpus, by its name in paths, and of the corpus that describes the same images."""
        described = [system for system in self._systems if reads_descriptions(system)]
        known = {self.layout.corpus(system.corpus): system for system in described}
        text, descriptions = with_descriptions(choose("no descriptions for", name, known))
        return self.layout.raw(text), self.layout.raw(descriptions)

    def pictures_shown(self, table: str) -> list[str]:
        """The file or folder of the pictures that a table's figures show, if any."""
        chosen = self.table(table)
        if not chosen.overlays or not (chosen.region_row and chosen.region_row.system):
            return []
        corpus = chosen.systems[chosen.region_row.system].corpus
        return [str(self.pictures(self.layout.corpus(corpus), chosen.tests[0]).source)]
