"""Checks of a table that need more than its file: what they reject would fail after hours of work."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Images
from nmt.config.models import MultimodalConfig
from nmt.config.system import System, why_unselectable, why_unsupported
from nmt.config.table import Row, Table
from nmt.config.training import check_mixing
from nmt.config.workflow import Workflow
from nmt.config.yaml import place
from nmt.corpora.catalogue import (
    TRAIN_SAMPLE,
    TRAINING,
    check_known,
    check_trainable,
    declared,
    names_of_parts,
    pictured,
    splits,
    test_sets,
    with_corpus_of,
)
from nmt.plan.helpers import (
    SystemKey,
    check_helpers,
    check_own_files,
    check_parents,
    place_of_added,
    translator,
    why_misread,
    with_helpers,
)
from nmt.plan.layout import Layout, table_path
from nmt.plan.load import choose
from nmt.plan.systems import description_corpus, reads_descriptions, sees_pictures
from nmt.system.errors import ConfigError


def check_table(
    name: str, tables: Mapping[str, Table], settings: Workflow, where: str | None = None, own_files: bool = True
) -> None:
    """Check everything about a table that can be known before work begins.

    Args:
        name: the table's.
        tables: every table; systems of others may translate text for this one's.
        settings: the workflow's.
        where: the settings' file, for messages.
        own_files: whether the user's own text must exist.

    Raises:
        ConfigError: a check below failed.
    """
    check_tests(name, tables[name], settings)
    check_ensembles(name, tables[name], settings)
    if own_files:
        check_own_files(tables[name].systems.values(), settings, where)
        check_table_files(name, tables[name])
    check_parents(name, tables)
    check_added_text(name, tables, settings)
    check_scorers(name, tables)
    check_helpers(name, tables, settings, own_files, where)
    check_images(name, tables[name], settings)
    check_vectors(name, tables, settings)
    check_alignments(name, tables[name], settings)
    check_parts(name, tables[name], settings)


def check_tests(name: str, table: Table, settings: Workflow) -> None:
    """Reject rows that name an unknown corpus, language pair or test set, or compare different sentences."""
    for row in table.rows:
        if row.is_scored:
            _check_test(name, table, row, settings)
        if (rival := table.row_against(row)) and not _same_text(table, row, rival):
            raise ConfigError(
                f"{table_path(name)}: row '{row.label}': against: '{row.against}' translates {table.test_of(row)} of "
                "another corpus, or another sample; name a row of the same sentences"
            )


def _check_test(name: str, table: Table, row: Row, settings: Workflow) -> None:
    system_name = table.text_system(row) or ""
    system = table.systems[system_name]
    try:
        check_known(system.corpus, settings.corpora)
        for text in system.by_pair:
            check_trainable(text.corpus, text.languages, settings.corpora.get(text.corpus))
        system = system.of_pair(row.pair)
        corpus = system.corpus, system.languages, settings.corpora.get(system.corpus)
        tests = test_sets(*corpus)
        if "train" in splits(*corpus):  # a pair that is translated without training has test sets alone
            tests += ["valid", TRAIN_SAMPLE]
    except ConfigError as error:
        raise ConfigError(f"{table_path(name)}: systems.{system_name}: {error}") from None
    what = f"{table_path(name)}: row '{row.label}': {system.corpus} {system.languages} has no test set"
    choose(what, table.test_of(row), dict.fromkeys(tests))
    for metric in ("meteor", "language"):
        if metric in table.requested_metrics:
            _check_language(f"{table_path(name)}: metrics", metric, system.target)


def _check_language(where: str, metric: str, language: str) -> None:
    if metric == "meteor":
        from nmt.scoring.meteor import check_language
    else:
        from nmt.scoring.language import check_language
    try:
        check_language(language)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _same_text(table: Table, *rows: Row) -> bool:
    """Whether rows of one test set have the same sentences."""
    test, anywhere = table.test_of(rows[0]), Layout(Path())
    systems = [with_corpus_of(table.text(row), test) for row in rows]
    texts = {anywhere.sample(system) if test == TRAIN_SAMPLE else system.corpus for system in systems}
    return len(texts) == 1


def check_tools(tables: Iterable[Table]) -> None:
    """Reject metrics of tables that no code makes, or whose tools this machine lacks; raises ConfigError."""
    from nmt.scoring.score import metrics

    for table in tables:
        for target in {text.target for system in table.systems.values() for text in system.by_pair}:
            metrics("detokenised", True, also=table.requested_metrics, language=target)


def check_ensembles(name: str, table: Table, settings: Workflow) -> None:
    """Reject an ensemble of one model."""
    for row in table.rows:
        if row.system:
            try:
                table.models_of(row, settings.seeds)
            except ConfigError as error:
                raise ConfigError(f"{table_path(name)}: {error}") from None


def check_table_files(name: str, table: Table) -> None:
    """Reject translations and alignments whose file does not exist, or has a path that Snakemake misreads."""
    files: list[tuple[Path | None, list[list[str | int]]]]
    files = [(row.hypotheses, [["rows", number, "hypotheses"]]) for number, row in enumerate(table.rows)]
    for key, system in table.systems.items():
        files.append((system.alignments, [["systems", key, "alignments"], ["defaults", "alignments"]]))
    for file, paths in files:
        if file and (fault := _fault(file)):
            raise ConfigError(f"{place(str(table_path(name)), *paths)}: {file}: {fault}")


def _fault(file: Path) -> str | None:
    """Return why a file cannot be an input of the workflow, or None if it can."""
    if file.is_file():
        return why_misread(file)
    return f"expected a file, got {'a folder' if file.is_dir() else 'no such file'}; paths start at {Path.cwd()}"


def check_alignments(name: str, table: Table, settings: Workflow) -> None:
    """Reject alignments of the whole text where a trial takes only its first lines."""
    for key, system in table.systems.items():
        if system.alignments and settings.limit:
            raise ConfigError(
                f"{table_path(name)}: systems.{key}.alignments: limit: {settings.limit} cuts the text, but not its "
                "alignments; leave limit out"
            )


def check_parts(name: str, table: Table, settings: Workflow) -> None:
    """Reject weights of training.mixing that are not of the parts of a system's training text."""
    for key, system in table.systems.items():
        if system.training.mixing and len(system.pairs) == 1:
            try:
                check_mixing(system.training.mixing, names_of_parts(system, settings.corpora.get(system.corpus)))
            except ValueError as error:
                raise ConfigError(f"{table_path(name)}: systems.{key}.{error}") from None


def check_added_text(name: str, tables: Mapping[str, Table], settings: Workflow) -> None:
    """Reject text to translate or a model for it that does not exist or does not fit."""
    for key, system in tables[name].systems.items():
        for mixture in system.mixtures:
            where = place_of_added(name, key, mixture)
            _check_text(where, mixture.text_to_translate, settings)
            _check_translator(where, mixture, tables)
            _check_topics(where, mixture, settings)
            assert mixture.added
            writer = (mixture.added.table, mixture.added.system)
            _check_no_circle(f"{where}.model", (name, key), writer, translator(where, mixture.added, tables), tables)
        if system.initialise and system.initialise.system:
            where, parent = f"{table_path(name)}: systems.{key}.initialise.system", system.initialise.parent
            _check_no_circle(where, (name, key), parent, tables[parent[0]].systems[parent[1]], tables)


def check_scorers(name: str, tables: Mapping[str, Table]) -> None:
    """Reject a filter by models that do not exist, translate other languages, or need the filtered text themselves."""
    for key, system in tables[name].systems.items():
        for scores in system.cleaning.scores:
            where = f"{table_path(name)}: systems.{key}.cleaning.filters: kind: scores"
            directions = system.languages, f"{system.target}-{system.source}"
            for scorer, languages in zip(scores.scorers, directions, strict=False):
                table = choose(f"{where}: no table", scorer[0], tables)
                model = choose(f"{where}: no system", scorer[1], table.systems)
                if model.languages != languages:
                    raise ConfigError(
                        f"{where}: expected a system for {languages}, got {'/'.join(scorer)}, which translates "
                        f"{model.languages}"
                    )
                if why := why_unselectable(scores.at, model):
                    raise ConfigError(f"{where}: at: '{scores.at}' is not kept by {'/'.join(scorer)}: {why}")
                if sees_pictures(model):
                    raise ConfigError(f"{where}: expected a system of text alone, got {'/'.join(scorer)}; name another")
                _check_no_circle(where, (name, key), scorer, model, tables)


def has_training_text(system: System, corpora: Mapping[str, CustomCorpus]) -> bool:
    """Whether a system's corpus has training text in its languages, and not test sets alone."""
    try:
        check_trainable(system.corpus, system.languages, corpora.get(system.corpus))
    except ConfigError:
        return False
    return True


def _check_no_circle(
    where: str, key: SystemKey, helper: SystemKey, system: System, tables: Mapping[str, Table]
) -> None:
    """Reject a helper that needs the very system that it helps."""
    if key in with_helpers({helper: system}, tables):
        raise ConfigError(
            f"{where}: expected a system that does without {key[1]}, got {'/'.join(helper)}; name another"
        )


def _check_text(where: str, text: System, settings: Workflow) -> None:
    try:
        check_known(text.corpus, settings.corpora)
        check_trainable(text.corpus, text.languages, settings.corpora.get(text.corpus))
    except ConfigError as error:
        raise ConfigError(f"{where}.text: {error}") from None


def _check_translator(where: str, system: System, tables: Mapping[str, Table]) -> None:
    """Reject a model that translates other languages, lacks the checkpoint, or cannot decode as asked."""
    assert system.added
    added, model = system.added, translator(where, system.added, tables)
    if system.translated_pair not in model.pairs:
        raise ConfigError(
            f"{where}.model: expected a system for {system.translated_pair}, got {added.model}, which translates "
            f"{model.languages}"
        )
    if why := why_unselectable(added.at, model):
        raise ConfigError(f"{where}.at: '{added.at}' is not kept by {added.model}: {why}")
    if why := why_unsupported(added.decoding, model):
        raise ConfigError(f"{where}.decoding: {added.model}: {why}")
    if sees_pictures(model, added.decoding.images):
        raise ConfigError(
            f"{where}.model: expected a system that translates text alone, got {added.model}, which is shown "
            "pictures, and the text has none; name another, or give decoding: {images: blank}"
        )


def _check_topics(where: str, system: System, settings: Workflow) -> None:
    """Reject text to add to a system that sees pictures, if line n does not describe picture n."""
    assert system.added
    text, descriptions = system.added.text, description_corpus(system)
    together = system.corpus in settings.corpora and text in declared() and declared()[text].together
    if sees_pictures(system) and not together and text != descriptions:
        remedy = f"add {descriptions}" if descriptions else "leave the added text out"
        raise ConfigError(
            f"{where}.text: expected descriptions of the pictures of {system.corpus}, in their order, got {text}; the "
            f"system sees a picture with each pair: {remedy}, or show it none, model: {{images: blank}}"
        )


def check_images(name: str, table: Table, settings: Workflow) -> None:
    """Reject a row whose system sees pictures that nobody has given, or that a figure cannot show."""
    for row in table.rows:
        if row.system is None:
            continue
        where = f"{table_path(name)}: row '{row.label}'"
        for system, split in _splits_with_pictures(table, row):
            _check_pictures(where, system, split, settings)
            images = settings.images.get(system.corpus)
            if table.overlays and row == table.region_row and images and images.folder is None:
                raise ConfigError(
                    f"{table_path(name)}: figures: {table.overlays[0]} needs the pictures of {system.corpus}, "
                    f"got features alone; give images: {system.corpus}: a folder and lists, or leave the figure out"
                )


def _splits_with_pictures(table: Table, row: Row) -> list[tuple[System, str]]:
    """The splits whose pictures a row needs, each with the system that has their corpus."""
    assert row.system is not None
    system, test = table.systems[row.system], table.test_of(row)
    splits = [(system, split) for split in TRAINING if sees_pictures(system)]
    return splits + ([(with_corpus_of(system, test), test)] if sees_pictures(system, row.decoding.images) else [])


def _check_pictures(where: str, system: System, split: str, settings: Workflow) -> None:
    images = settings.images.get(system.corpus)
    if not _has_pictures(system, split, images):
        raise ConfigError(f"{where}: {_pictures_expected(system, split)}")
    if (custom := settings.corpora.get(system.corpus)) and custom.disjoint:
        raise ConfigError(
            f"{where}: corpora: {system.corpus}: disjoint leaves out lines of the text, but not their pictures; "
            "take these lines out of the files and lists, and leave disjoint out"
        )
    if settings.limit and images and images.features and not reads_descriptions(system):
        raise ConfigError(
            f"{where}: limit: {settings.limit} cuts the text of {system.corpus}, but not the ready features of "
            "its pictures; give images a folder and lists, or leave limit out"
        )


def _has_pictures(system: System, split: str, images: Images | None) -> bool:
    """Whether there are pictures, or descriptions in their place, of a split of a system's corpus."""
    assert isinstance(system.model, MultimodalConfig)
    if system.model.backbone == "descriptions":
        descriptions = description_corpus(system)
        return descriptions is not None and split in declared()[descriptions].splits
    return images.features is not None or split in images.lists if images else system.corpus in pictured()


def _pictures_expected(system: System, split: str) -> str:
    assert isinstance(system.model, MultimodalConfig)
    if system.model.backbone == "descriptions":
        return f"expected a corpus with other descriptions of the images of {split}, got {system.corpus}"
    return (
        f"expected pictures of {system.corpus}'s {split}, got none; "
        f"give them, or features made of them, under images: {system.corpus}: in config.yaml (docs/how-to/images.md)"
    )


def check_vectors(name: str, tables: Mapping[str, Table], settings: Workflow) -> None:
    """Reject a system of a row, or one that must be trained before, whose word vectors have no file in the settings."""
    rows = tables[name].rows
    systems = {(name, row.system): tables[name].systems[row.system] for row in rows if row.system}
    for (table, key), system in with_helpers(systems, tables).items():
        for side, text in system.texts_of_vectors.items():
            _check_text(f"{table_path(table)}: systems.{key}.word_vectors.{side}", text, settings)
        for vectors in system.word_vectors.values():
            if isinstance(vectors, str) and vectors not in settings.word_vectors:
                raise ConfigError(
                    f"{table_path(table)}: systems.{key}: expected a file of the word vectors {vectors}, got none; "
                    f"give one in config.yaml, word_vectors: {{{vectors}: FILE}}, or do without: "
                    f"word_vectors: {{{vectors}: none}}"
                )
