"""What a workflow makes: the checked settings and tables, and which part of them each file is made with."""

import json
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from nmt.config.data import CustomCorpus, Images
from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig, Shown
from nmt.config.selection import never_kept
from nmt.config.system import AddedText, System, misfit
from nmt.config.table import Row, Table, load_table
from nmt.config.types import Strict, check_name
from nmt.config.workflow import Shards, Workflow
from nmt.config.yaml import load_yaml, nearest, parse, read_config, validate
from nmt.corpora.catalogue import (
    TRAIN_SAMPLE,
    TRAINING,
    check_known,
    check_trainable,
    declared,
    own_parts,
    test_sets,
    with_corpus_of,
)
from nmt.plan.layout import Layout, decoding_slug
from nmt.system.errors import ConfigError
from nmt.system.files import read_json

TABLES = Path("workflow/tables")
DRAWN = {"scenes"}
"""The corpora whose pictures are drawn."""


def or_exit(make: Callable[..., Any], *arguments: Any) -> Any:
    """The result, or an end with the message alone: Snakemake would show an exception with places in its files."""
    try:
        return make(*arguments)
    except ConfigError as error:
        sys.exit(f"snakemake: {error}")


def check_readable(where: str) -> None:
    """Refuse a file of settings that is no YAML, before Snakemake does in words of its own; raises ConfigError."""
    if Path(where).exists() and not isinstance(load_yaml(read_config(Path(where)), where), dict):
        raise ConfigError(
            f"{where}: expected keys and their values, got none; the project's own file explains each key"
        )


def _checked(settings: Mapping[str, Any], where: str) -> Workflow:
    """The settings, validated; what the command line laid over a file that is right is not blamed on the file."""
    text = read_config(Path(where))
    try:
        return validate(Workflow, settings, text, where)
    except ConfigError:
        with suppress(ConfigError):
            parse(Workflow, text, where)
            text, where = "", "--config"
        return validate(Workflow, settings, text, where)


def _tables(names: Iterable[str], asked: Container[str]) -> dict[str, Table]:
    """Every table; one that nobody asked for is left out, with a warning, where it cannot be read."""
    found = {}
    for name in names:
        try:
            check_name(name, str(table_path(name)))
            found[name] = load_table(table_path(name))
        except ConfigError as error:
            if name in asked:
                raise
            print(f"warning: {error}; this table is left out", file=sys.stderr)
    return found


@dataclass(frozen=True)
class Plan:
    """The settings of a workflow and every table it can make."""

    settings: Workflow
    tables: Mapping[str, Table]

    @classmethod
    def load(cls, settings: Mapping[str, Any], where: str, targets: Iterable[str] = (), own_files: bool = True) -> Self:
        """Check everything that a workflow is configured by.

        Args:
            settings: what ``config.yaml`` holds, with the command line's values laid over it.
            where: its file, for messages.
            targets: those asked for on the command line, ``table_NAME`` and ``inputs_NAME``.
            own_files: whether a user's own text must be there; not where it has been encoded already.

        Raises:
            ConfigError: as `nmt.config.yaml.validate` and `load_table` do, or no table has a target's name.
        """
        checked = _checked(settings, where)
        names = sorted({path.stem for path in TABLES.glob("*.yaml")} | set(checked.tables))
        asked = set(checked.tables)
        for target in targets:
            kind, _, name = target.partition("_")
            _choose("no target", target, {f"{kind}_{known}": None for known in names})
            asked.add(name)
        tables = _tables(names, asked)
        for name in asked & set(tables):
            check_tests(name, tables[name], checked)
            check_ensembles(name, tables[name], checked)
            if own_files:
                check_own_files(tables[name], checked)
            check_added_text(name, tables, checked)
            check_images(name, tables[name], checked)
            check_vectors(name, tables, checked)
        return cls(checked, tables)

    @property
    def layout(self) -> Layout:
        """Where files live."""
        return Layout(self.settings.results, self.settings.limit)

    @property
    def device(self) -> dict[str, Any]:
        """Where tensors are computed, as a job's resources; a GPU is claimed unless the CPU is asked for."""
        gpu = {} if self.settings.device == "cpu" else {"gpu": 1}
        return {"device": self.settings.device} | gpu

    @property
    def training(self) -> dict[str, Any]:
        """The same of a training, a GPU for each of its processes; in a SLURM job they are tasks, which srun starts."""
        processes = self.settings.processes
        gpus = {"gpu": processes} if "gpu" in self.device else {}
        return self.device | gpus | ({"tasks": processes, "mpi": "srun"} if processes > 1 else {})

    def system(self, table: str, system: str) -> System:
        """A system by its names; raises ConfigError with the nearest."""
        found: Table = _choose("no table", table, self.tables)
        chosen: System = _choose(f"{table_path(table)}: no system", system, found.systems)
        return chosen

    @cached_property
    def _made_for(self) -> dict[str, System]:
        rows = [(name, row) for name, row in self._rows() if row.system]
        tested = [self.tested(name, row.system or "", self.tables[name].test_of(row)) for name, row in rows]
        added = [text for one in self._mixtures for text in (text_of(one), one.before_added)]
        described = [part for one in self._systems if reads_descriptions(one) for part in with_descriptions(one)]
        systems = (*self._systems, *tested, *added, *described)
        folders = (self.layout.raw, self.layout.clean, self.layout.subwords, self.layout.encoded)
        return {str(folder(system)): system for system in systems for folder in folders}

    @property
    def _systems(self) -> list[System]:
        return [system for table in self.tables.values() for system in table.systems.values()]

    @property
    def _mixtures(self) -> list[System]:
        return [mixture for system in self._systems for mixture in system.mixtures]

    def _rows(self) -> list[tuple[str, Row]]:
        return [(name, row) for name, table in self.tables.items() for row in table.rows]

    def tested(self, table: str, system: str, test: str) -> System:
        """A system with the corpus that holds a test set, for the folders of its text."""
        return with_corpus_of(self.system(table, system), test)

    def made_for(self, folder: str) -> System:
        """Any system that needs this data folder: those that share it agree on how to make it."""
        found: System = _choose("no data folder", folder, self._made_for)
        return found

    def decoding(self, slug: str) -> Decoding:
        """The decoding whose slug a path has."""
        known = {decoding_slug(row.decoding): row.decoding for _, row in self._rows()}
        found: Decoding = _choose("no decoding", slug, known)
        return found

    def translation(self, folder: str) -> dict[str, Any]:
        """What the translations in a folder are made of: model, text, its language and decoding."""
        known = {str(self.layout.translations(one)): one for one in self._mixtures}
        system: System = _choose("no translations", folder, known)
        assert system.added
        recipe = system.added
        run = self.layout.run(recipe.table, recipe.system, recipe.seed)
        return {
            "model": run / recipe.at.replace(" ", "-") / "model", "text": self.layout.raw(text_of(system)),
            "language": text_of(system).languages, "decoding": dump(recipe.decoding),
        }  # fmt: skip

    def mixture(self, folder: str) -> dict[str, Any]:
        """What raw text with added pairs is made of: the text itself, what was translated, and how to mix."""
        system = self.made_for(folder)
        assert system.added
        recipe = system.added
        return {
            "raw": self.layout.raw(system.before_added),
            "text": self.layout.raw(text_of(system)), "translations": self.layout.translations(system),
            "options": [f"--copies={recipe.copies}", *([f"--tag={recipe.tag}"] if recipe.tag else [])],
        }  # fmt: skip

    def runs(self, table: str) -> list[tuple[str, int]]:
        """Each training of a table: system and seed."""
        found: Table = _choose("no table", table, self.tables)
        systems = dict.fromkeys(row.system for row in found.rows if row.system)
        return [(system, seed) for system in systems for seed in found.seeds_of(system, self.settings.seeds)]

    def ensembles(self, table: str) -> list[tuple[str, str]]:
        """Each ensemble of a table: system and seeds, ``1-2-3``."""
        return list(dict.fromkeys((row.system or "", str(key)) for row, key in self._made(table) if row.ensemble))

    def training_files(self, table: str) -> list[str]:
        """What a table's trainings leave behind for its report."""
        runs = [self.layout.run(table, system, seed) for system, seed in self.runs(table)]
        return [f"{run}/{name}" for run in runs for name in ("training.json", "log.jsonl")]

    def scores(self, table: str, run: tuple[str, int | str] | None = None) -> list[str]:
        """The score files behind a table, or behind one of its runs (``1``) or ensembles (``1-2-3``)."""
        return [
            str(self.layout.scores(table, row, self.tables[table].test_of(row), key) / "scores.json")
            for row, key in self._made(table)
            if run is None or (row.system, str(key)) == (run[0], str(run[1]))
        ]

    def _made(self, table: str) -> list[tuple[Row, int | str]]:
        """Each row that is trained, once a model that translates it."""
        found: Table = _choose("no table", table, self.tables)
        seeds = self.settings.seeds
        return [(row, key) for row in found.rows if row.system for key in found.models_of(row, seeds)]

    def table_files(self, table: str) -> list[str]:
        """Everything that a table's target asks for: the table, its figures, and its runs told to MLflow."""
        pages = [f"{self.layout.table(table)}.{kind}" for kind in ("md", "csv", "html", "json")]
        runs: list[tuple[str, int | str]] = [*self.runs(table), *self.ensembles(table)]
        published = [f"{self.layout.run(table, *run)}/tracked.json" for run in runs]
        return [*pages, str(self.layout.figures(table)), *published]

    def inputs(self, table: str, name: str) -> list[str]:
        """Everything that a system of a table and its rows are made from."""
        system, found = self.system(table, name), self.tables[table]
        files = [self.layout.encoded(system), *self.features(system, TRAINING), *self.vectors(system).values()]
        for row in found.rows_of(name):
            test = found.test_of(row)
            tested = self.tested(table, name, test)
            files += [*self.layout.texts(tested, test), *self.features(tested, [test], row.decoding.images)]
        drawn = self.drawn_over(table)  # without which its table could not be written
        return list(dict.fromkeys(map(str, [*files, *drawn])))

    def table_inputs(self, table: str) -> list[str]:
        """Everything that the systems of a table's rows are made from, and these rows."""
        systems = dict.fromkeys(system for system, _ in self.runs(table))
        return list(dict.fromkeys(path for system in systems for path in self.inputs(table, system)))

    def features(self, system: System, splits: Iterable[str], shown: Shown | None = None) -> list[str]:
        """The arrays of image features of some splits: none for a system that looks at no pictures, or blank ones."""
        if not looks(system, shown):
            return []
        assert isinstance(system.model, MultimodalConfig)
        images = None if reads_descriptions(system) else self.settings.images.get(system.corpus)
        ready = images and images.features
        folder = ready or self.layout.features(system.corpus, system.model.backbone)
        return [str(folder / f"{split}.npy") for split in splits]

    def vectors(self, system: System) -> dict[str, Path]:
        """The files of word vectors that a system's embeddings start from, by side; raises ConfigError."""
        known = self.settings.word_vectors
        named = {side: _choose("config.yaml: no word_vectors", v, known) for side, v in system.word_vectors.items()}
        return {side: path for side, path in named.items() if path}

    def vector_options(self, system: System) -> list[str]:
        """Those options of ``nmt train`` that name word vectors, quoted."""
        return [shlex.quote(f"--word-vectors={side}={file}") for side, file in self.vectors(system).items()]

    def pictures(self, name: str, split: str) -> dict[str, Any]:
        """What the features of a split are made of: ``folder`` and ``names``, and ``made``, what a change of is seen.

        Args:
            name: of the corpus, as paths have it.
            split: which.
        """
        corpus = _choose("no pictures of", name, {self.layout.corpus(known): known for known in self._pictured})
        if images := self.settings.images.get(corpus):
            return {"folder": images.folder, "names": images.lists[split], "made": images.lists[split]}
        folder = self.layout.pictures(corpus)
        return {"folder": folder, "names": folder / f"{split}.txt", "made": folder}

    def described(self, name: str) -> tuple[Path, Path]:
        """Raw text of a corpus, by its name in paths, and of the one that has other descriptions of the same."""
        known = {self.layout.corpus(one.corpus): one for one in self._systems if reads_descriptions(one)}
        text, others = with_descriptions(_choose("no descriptions for", name, known))
        return self.layout.raw(text), self.layout.raw(others)

    @property
    def _pictured(self) -> set[str]:
        """The corpora that have pictures."""
        return DRAWN | {name for name, images in self.settings.images.items() if images.folder}

    def drawn_over(self, table: str) -> list[str]:
        """What names the pictures that a table's figures show."""
        found = self.tables[table]
        if "picture" not in found.figures or not (found.looking and found.looking.system):
            return []
        corpus = found.systems[found.looking.system].corpus
        return [str(self.pictures(self.layout.corpus(corpus), found.tests[0])["made"])]

    def features_options(self, name: str) -> list[str]:
        """Those options of ``nmt features`` that decide what is written."""
        limit = [f"--limit={self.settings.limit}"] if self.settings.limit else []
        corpus = name.removesuffix(f"-first{self.settings.limit}")
        if (images := self.settings.images.get(corpus)) is None:
            return limit
        weights = [f"--weights={images.weights}"] if images.weights else []
        return [*limit, *weights, f"--missing={images.missing}"]

    def own_files(self, folder: str) -> list[str]:
        """The user's files that raw text is made of; none for the corpora that come with nmt."""
        system = self.made_for(folder)
        corpus = self.settings.corpora.get(system.corpus)
        splits = [corpus.train, corpus.valid, *corpus.tests.values()] if corpus else []
        codes = system.languages.split("-")
        return [str(split[language]) for split in splits for language in codes if language in split]

    def download_options(self, folder: str) -> list[str]:
        """Those options of ``nmt download`` that decide what is written."""
        corpus = self.settings.corpora.get(self.made_for(folder).corpus)
        limit = [f"--limit={self.settings.limit}"] if self.settings.limit else []
        return limit + ([f"--custom={dump(corpus)}"] if corpus else [])

    def score_options(self, table: str) -> list[str]:
        """Those options of ``nmt score`` that a table asks for."""
        return [f"--also={metric}" for metric in self.tables[table].also]

    def check_tools(self, targets: Iterable[str]) -> None:
        """Refuse metrics whose tools this machine lacks, before anything is trained; raises ConfigError."""
        asked = self._asked(targets)
        wanted = {metric for table in asked for metric in self.tables[table].also}
        if wanted & {"meteor", "meteor_nltk"}:
            from nmt.scoring import meteor

            meteor.check_tools(wanted)

    def _asked(self, targets: Iterable[str]) -> list[str]:
        """The tables that a run makes: those named on the command line, else those of the settings."""
        named = [name.removeprefix("table_") for name in targets if name.startswith("table_")]
        return named if named or any(name.startswith("inputs_") for name in targets) else self.settings.tables

    def settings_for(self, tables: list[str]) -> str:
        """The settings that the closing stages read; another device, mirror or corpus re-makes nothing."""
        unused: dict[str, Any] = {
            "device": "auto", "processes": 1, "shards": Shards(), "mirror": None, "corpora": {}, "word_vectors": {},
        }  # fmt: skip
        if not any("picture" in self.tables[table].figures for table in tables):
            unused["images"] = {}
        return dump(self.settings.model_copy(update={"tables": tables, **unused}))

    def closing_words(self, targets: Iterable[str]) -> str:
        """The tables just made, and where to look at everything."""
        lines = []  # of a table's page only the table: how it was made follows its first heading
        for table in self._asked(targets):
            page = self.layout.table(table)
            if Path(f"{page}.md").is_file():
                lines += [
                    Path(f"{page}.md").read_text(encoding="utf-8").split("\n## ")[0],
                    f"table    {page}.html   for a browser; .md, .csv and .json lie beside it",
                    f"figures  {self.layout.figures(table)}/",
                ]
        store = self.settings.results / "tracking.json"
        if store.is_file():
            place = "" if store.parent == Workflow.model_fields["results"].default else f" RESULTS={store.parent}"
            uri = read_json(store).get("uri")
            how = f"make ui{place}" if Path("Makefile").is_file() else f"mlflow ui --backend-store-uri {uri}"
            lines.append(f"MLflow   {uri}   look at it with: {how}")
        return "\n".join(
            [
                *lines,
                f"report   nmt page {self.settings.results} report.html   writes all tables and figures on one page",
            ]
        )


def check_tests(name: str, table: Table, settings: Workflow) -> None:
    """Refuse a row whose corpus, languages or test set there is not, before anything is trained."""
    for row in table.rows:
        if row.system is not None:
            system, test = table.systems[row.system], table.test_of(row)
            try:
                check_known(system.corpus, settings.corpora)
                there = test_sets(system.corpus, system.languages, settings.corpora.get(system.corpus))
            except ConfigError as error:
                raise ConfigError(f"{table_path(name)}: systems.{row.system}: {error}") from None
            there += ["valid", TRAIN_SAMPLE]
            what = f"{table_path(name)}: row '{row.label}': {system.corpus} {system.languages} has no test set"
            _choose(what, test, dict.fromkeys(there))
            if "meteor" in table.also:
                _check_meteor(f"{table_path(name)}: metrics", system.target)
        if (rival := table.rival(row)) and not _same_text(table, row, rival):
            raise ConfigError(
                f"{table_path(name)}: row '{row.label}': against: '{row.against}' translates {table.test_of(row)} of "
                "another corpus, or another sample; name a row of the same sentences"
            )


def check_ensembles(name: str, table: Table, settings: Workflow) -> None:
    """Refuse an ensemble of one model, before anything is trained."""
    for row in table.rows:
        if row.system:
            try:
                table.models_of(row, settings.seeds)
            except ConfigError as error:
                raise ConfigError(f"{table_path(name)}: {error}") from None


def _same_text(table: Table, *rows: Row) -> bool:
    """Whether rows that name one test set have the same sentences."""
    test, anywhere = table.test_of(rows[0]), Layout(Path())
    systems = [with_corpus_of(table.systems[row.system or ""], test) for row in rows]
    texts = {anywhere.sample(one) if test == TRAIN_SAMPLE else one.corpus for one in systems}
    return len(texts) == 1


def check_own_files(table: Table, settings: Workflow) -> None:
    """Refuse a user's own text that is not where the settings say, before anything is made."""
    for system in table.systems.values():
        for one in (system, *map(text_of, system.mixtures)):
            if custom := settings.corpora.get(one.corpus):
                own_parts(one.corpus, custom, one.languages)
                _check_no_wildcards(one.corpus, custom)


def _check_no_wildcards(name: str, custom: CustomCorpus) -> None:
    splits = (custom.train, custom.valid, *custom.tests.values())
    if braced := [path for split in splits for path in split.values() if {"{", "}"} & set(str(path))]:
        raise ConfigError(
            f"corpora.{name}: {braced[0]}: expected a path without {{ and }}, in which Snakemake sees wildcards; "
            "rename it, or link to it"
        )


def check_added_text(name: str, tables: Mapping[str, Table], settings: Workflow) -> None:
    """Refuse text to translate, or a model for it, that there is not, or one that translates the wrong way round."""
    mixtures = [(key, one) for key, system in tables[name].systems.items() for one in system.mixtures]
    for key, system in mixtures:
        where, recipe = _added_in(name, key, system), system.added
        assert recipe
        _check_text(where, text_of(system), settings)
        model = _translator(where, recipe, tables)
        expected = f"{system.target}-{system.source}" if system.way == "back" else system.languages
        if model.languages != expected:
            raise ConfigError(
                f"{where}.model: expected a system for {expected}, got {recipe.model}, which "
                f"translates {model.languages}"
            )
        if why := never_kept(recipe.at, model.training):
            raise ConfigError(f"{where}.at: '{recipe.at}' is not kept by {recipe.model}: {why}")
        if why := misfit(recipe.decoding, model):
            raise ConfigError(f"{where}.decoding: {recipe.model}: {why}")
        if looks(model, recipe.decoding.images):
            raise ConfigError(
                f"{where}.model: expected a system that translates text alone, got {recipe.model}, which is shown "
                "pictures, and the text has none; name another, or give decoding: {images: blank}"
            )
        if (name, key) in _with_writers({(recipe.table, recipe.system): model}, tables):
            raise ConfigError(
                f"{where}.model: expected a system that does without {key}, got {recipe.model}; name another"
            )


def _check_text(where: str, text: System, settings: Workflow) -> None:
    try:
        check_known(text.corpus, settings.corpora)
        check_trainable(text.corpus, text.languages, settings.corpora.get(text.corpus))
    except ConfigError as error:
        raise ConfigError(f"{where}.text: {error}") from None


def _added_in(table: str, name: str, system: System) -> str:
    """Where a system says what is added to its training text, for messages."""
    return f"{table_path(table)}: systems.{name}.{system.way}_translation"


def _translator(where: str, recipe: AddedText, tables: Mapping[str, Table]) -> System:
    table: Table = _choose(f"{where}.model: no table", recipe.table, tables)
    found: System = _choose(f"{where}.model: no system", recipe.system, table.systems)
    return found


def _behind(name: str, tables: Mapping[str, Table]) -> dict[tuple[str, str], System]:
    """By table and name, the systems of a table's rows, and those whose translations are part of their text."""
    rows = tables[name].rows
    return _with_writers({(name, row.system): tables[name].systems[row.system] for row in rows if row.system}, tables)


def _with_writers(
    systems: Mapping[tuple[str, str], System], tables: Mapping[str, Table]
) -> dict[tuple[str, str], System]:
    """By table and name, systems, those that write for them, those that write for these, and so on."""
    found, waiting = dict(systems), list(systems.items())
    while waiting:
        (table, system), one = waiting.pop()
        for mixture in one.mixtures:
            assert mixture.added
            key = (mixture.added.table, mixture.added.system)
            if key not in found:
                found[key] = _translator(_added_in(table, system, mixture), mixture.added, tables)
                waiting.append((key, found[key]))
    return found


def _check_meteor(where: str, language: str) -> None:
    from nmt.scoring.meteor import check_language

    try:
        check_language(language)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def looks(system: System, shown: Shown | None = None) -> bool:
    """Whether a system is shown pictures that are not blank: in its training, or those that a decoding names."""
    return isinstance(system.model, MultimodalConfig) and (shown or system.model.images) != "blank"


def text_of(system: System) -> System:
    """A system for the folders of the text, in one language, that is translated for another."""
    assert system.added
    language = system.target if system.way == "back" else system.source
    return system.without_added(corpus=system.added.text, languages=language)


def reads_descriptions(system: System) -> bool:
    """Whether the pictures of a system are pseudo-regions, made of other descriptions in English."""
    found = isinstance(system.model, MultimodalConfig) and system.model.backbone == "descriptions"
    return found and _descriptions(system) is not None


def with_descriptions(system: System) -> tuple[System, System]:
    """Two systems for the folders of raw text: that of the sentences in English, and that of other descriptions."""
    text = system.without_added(languages="en-de")
    return text, text.model_copy(update={"corpus": _descriptions(system)})


def _descriptions(system: System) -> str | None:
    corpus = declared().get(system.corpus)
    return corpus.descriptions if corpus else None


def _only_features(system: System, settings: Workflow) -> bool:
    images = settings.images.get(system.corpus)
    return images is not None and images.folder is None


def _has_pictures(system: System, split: str, images: Images | None) -> bool:
    """Whether there are pictures of a split of a system's corpus."""
    assert isinstance(system.model, MultimodalConfig)
    if system.model.backbone == "descriptions":
        others = _descriptions(system)
        return others is not None and split in declared()[others].splits
    return images.features is not None or split in images.lists if images else system.corpus in DRAWN


def check_images(name: str, table: Table, settings: Workflow) -> None:
    """Refuse a row that looks at pictures which nobody has given, before anything is trained."""
    for row in table.rows:
        if row.system is None:
            continue
        system, test = table.systems[row.system], table.test_of(row)
        wanted = [(system, split) for split in TRAINING if looks(system)]
        wanted += [(with_corpus_of(system, test), test)] if looks(system, row.decoding.images) else []
        for one, split in wanted:
            where, images = f"{table_path(name)}: row '{row.label}'", settings.images.get(one.corpus)
            if not _has_pictures(one, split, images):
                raise ConfigError(_no_pictures(where, one, split))
            if settings.limit and images and images.features and not reads_descriptions(one):
                raise ConfigError(
                    f"{where}: limit: {settings.limit} cuts the text of {one.corpus}, but not the ready features of "
                    "its pictures; give images a folder and lists, or leave limit out"
                )
            if "picture" in table.figures and row == table.looking and _only_features(one, settings):
                raise ConfigError(
                    f"{table_path(name)}: figures: picture needs the pictures of {one.corpus}, got features alone; "
                    f"give images: {one.corpus}: a folder and lists, or leave the figure out"
                )


def check_vectors(name: str, tables: Mapping[str, Table], settings: Workflow) -> None:
    """Refuse a system whose word vectors nobody has said where they are, before anything is trained."""
    for (table, key), system in _behind(name, tables).items():
        for one in system.word_vectors.values():
            if one not in settings.word_vectors:
                raise ConfigError(
                    f"{table_path(table)}: systems.{key}: expected a file of the word vectors {one}, got none; give "
                    f"one in config.yaml, word_vectors: {{{one}: FILE}}, or do without: word_vectors: {{{one}: none}}"
                )


def _no_pictures(where: str, system: System, split: str) -> str:
    assert isinstance(system.model, MultimodalConfig)
    if system.model.backbone == "descriptions":
        return f"{where}: expected a corpus with other descriptions of the images of {split}, got {system.corpus}"
    return (
        f"{where}: expected pictures of {system.corpus}'s {split}, got none; "
        f"give them, or features made of them, under images: {system.corpus}: in config.yaml (docs/images.md)"
    )


def table_path(table: str) -> Path:
    """The file of a table, from the folder that the workflow runs in."""
    return TABLES / f"{table}.yaml"


def experiment(system: System) -> str:
    """The part of a system that ``nmt train`` is given, as JSON."""
    return json.dumps({"model": system.model.essence(), "training": system.training.essence()})


def dump(model: Strict) -> str:
    """A model as JSON: for a command line, and what Snakemake compares to see whether to run again."""
    return json.dumps(model.essence(), ensure_ascii=False)


def _choose(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """The value of a name, or a ConfigError with the nearest one."""
    if name in known:
        return known[name]
    there = ", ".join(known) or "nothing, for there is none"
    raise ConfigError(f"{what} '{name}'{nearest(name, list(known))}; expected one of: {there}")
