"""A first table for a user's own text: look at the files, and write a table and the corpus's entry for config.yaml."""

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nmt.config.corpus.sources import REMOTE, CustomCorpus
from nmt.config.table import load_table
from nmt.config.workflow import Workflow
from nmt.config.yaml import parse, read_config
from nmt.corpora.catalogue import names
from nmt.corpora.formats import packed
from nmt.corpora.formats.tables import WITH_COLUMNS
from nmt.corpora.own import FORMATS, table_head
from nmt.data.order import blocks, cut
from nmt.plan.layout import table_path
from nmt.plan.load import check_table_name
from nmt.plan.survey import JUDGED, Survey, describe, survey
from nmt.system.arrays import evenly
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import check_regular, check_writable, write_text
from nmt.text.filters.judges import scripts_of
from nmt.text.languages import UNSPACED, base, columns_named, is_listed, is_spaceless

HELD_OUT = 1850
"""Validation and test pairs that are cut from much training text, each. A hash chooses them, so there are some more
or less, up to 2,000."""
LEAST = 50
"""Fewest training pairs that validation or test text is cut from."""
SAMPLED = 1_000_000
"""Most pairs that updates are estimated from."""
COLUMNS = ("pieces", "layers", "width", "ffn", "dropout", "batch", "passes", "peak")
SIZES: list[tuple[int, tuple[float, ...]]] = [
    (3_000, (500, 2, 128, 256, 0.3, 1024, 40, 0.003)),
    (60_000, (4000, 3, 128, 512, 0.3, 2048, 30, 0.003)),
    (500_000, (8000, 4, 256, 1024, 0.2, 4096, 20, 0.001)),
    (5_000_000, (16000, 6, 512, 2048, 0.1, 8192, 10, 0.0007)),
    (10**12, (32000, 6, 512, 2048, 0.1, 25000, 4, 0.0007)),
]
"""Settings for up to so many training pairs, by the habits of published work on corpora of this size."""
PER_WORD = {500: 2.4, 4000: 1.5, 8000: 1.3}
"""Pieces per word with so many pieces; the first two are those of Multi30K and Tatoeba, English and French."""
WORD, LONG_WORD = 2.5, 5
"""Characters that as many pieces stand for as for a word: in Chinese and Japanese, and in other languages without
spaces. Translations of programs' messages have 1.9 to 3.3, and 4.6 to 9."""
CORPORA = re.compile(r"^corpora:(?:[ \t]*\{[ \t]*\})?([ \t]*|[ \t]+#.*)(?:\n|\Z)", re.MULTILINE)
"""The line above the corpora in the settings, with its comment; nothing may be on it, or an empty map."""

SCHEMA = "# yaml-language-server: $schema=../schemas/table.schema.json\n"
"""The line that tells editors where the schema of tables is."""
TABLE = """\
# A first table for your text, written by nmt new. Change what you like: docs/reference/configuration.md
caption: {name}, {source}→{target}
tests: [{test}]

systems:
  small:
    corpus: {corpus}
    languages: {source}-{target}        # source-target
    cleaning:
      lowercase: false          # keep the case, as your users will read it
      deduplicate: true         # the same pair once
      filters:                  # what to drop besides, in this order: docs/how-to/filters.md
        - {{kind: script}}        # sides with few letters of the language's script
        - {{kind: equal}}         # sides that were not translated
        - {{kind: overlap}}       # pairs near validation or test text
        # - {{kind: duplicates}}  # pairs near an earlier one
        # - {{kind: language}}    # sides in another language; needs: python3 envs/install.py run filters
    subwords: {{kind: bpe, size: {pieces}, joint: {joint}}}   # {pairs} pairs; more text carries more subwords
    model: {{layers: {layers}, width: {width}, ffn: {ffn}, heads: 4, tied: {tied}, dropout: {dropout}}}
    training:
      batch: {batch} tokens       # about {updates:,} updates a pass
      epochs: {passes}                # at most; patience ends earlier
      patience: 5               # validations without a better one
      label_smoothing: 0.1
      schedule: {{peak: {peak}, warmup: {warmup}}}   # warm-up: a tenth of all updates, at least 20
      keep_last: 1

rows:
  - {{label: Small Transformer, system: small, at: best}}
  - {{label: "Small Transformer, greedy", system: small, at: best, decoding: {{beam: 1}}}}
"""


def new_table(
    name: str, languages: str, train: Sequence[str], valid: Sequence[str], test: Sequence[str], config: Path
) -> Iterator[str]:
    """Look at the user's text; write ``workflow/tables/NAME.yaml`` and the corpus's entry in the settings.

    Args:
        name: of the table and of the corpus.
        languages: source and target, e.g. ``en-hi``.
        train: one source with both languages, or a file for each language, in this order.
        valid: the same for validation text; empty: a part of the training text.
        test: the same for test text.
        config: file of the settings. It is made if it does not exist.

    Yields:
        Lines that say what was found and written, and what to do next.

    Raises:
        ConfigError: the table or the corpus exists, a language does not, or a file cannot be read as it is named.
        DataError: a file is damaged, misaligned or empty.
    """
    _check_new(name, codes := languages.split("-"), config)
    given = {"train": ("FILES", train), "valid": ("--valid", valid), "held_out": ("--test", test)}
    whole = {split: _source(option, files, codes) for split, (option, files) in given.items() if files}
    surveys = {split: survey(split, source, languages) for split, source in whole.items()}
    text = surveys["train"]
    if len(whole) < 3 and text.filled < LEAST:
        raise DataError(
            f"{train[0]}: expected at least {LEAST} sentence pairs to cut validation and test text from, got "
            f"{text.filled}; give more text, or both with --valid and --test"
        )
    share = _per_mille(text.filled)
    entry = _corpus(whole, share, codes[0])
    pairs = int(text.filled * (1000 - (3 - len(whole)) * share) / 1000)
    settings = _with_corpus(config, name, entry)
    table = (SCHEMA if Path("workflow/schemas").is_dir() else "") + _table(name, codes, pairs, text)
    yield from describe(surveys, codes, CustomCorpus.model_validate(entry))
    _write(table_path(name), table, config, settings)
    yield f"wrote {table_path(name)}, and corpora: {name} in {config}"
    yield _next_steps(name, config)


def _next_steps(name: str, config: Path) -> str:
    """The commands that check and build a new table, with what they need outside the project or for other settings."""
    own = "" if config == Path("config.yaml") else f" {shlex.quote(str(config))}"
    elsewhere = "" if Path("Snakefile").is_file() else " --snakefile PATH/TO/Snakefile"
    return (
        f"next: nmt check {name}{own and f' --config{own}'}, "
        f"then: snakemake{elsewhere} --cores all table_{name}{own and f' --configfile{own}'}"
    )


def _check_new(name: str, codes: Sequence[str], config: Path) -> None:
    """Reject a name that is taken or no word for YAML, a wrong language, or settings that cannot be written."""
    check_table_name(name, "TABLE")
    if (node := yaml.compose(name, yaml.SafeLoader)) and node.tag != "tag:yaml.org,2002:str":
        raise ConfigError(
            f"TABLE: expected a name that YAML reads as a word, got '{name}'; choose another, e.g. corpus-{name}"
        )
    if table_path(name).exists():
        raise ConfigError(
            f"{table_path(name)}: exists already; choose another name, or delete it, and its corpus in {config}"
        )
    if name in names():
        raise ConfigError(f"{name}: nmt has a corpus of this name; choose another")
    for code in codes:
        if not is_listed(code):
            raise ConfigError(
                f"--languages: ISO 639 has no language '{code}'; expected codes such as de, cs, ja or zh_Hant; take "
                "qaa for a language without a code"
            )
    check_writable(config)


def _write(path: Path, table: str, config: Path, settings: str) -> None:
    """Write the table and the settings, or neither."""
    write_text(path, table)
    try:
        load_table(path)
        write_text(config, settings)
    except BaseException:
        path.unlink()
        raise


def _source(option: str, files: Sequence[str], codes: Sequence[str]) -> dict[str, Any]:
    """The declaration of one source with both languages, or of a file for each; the option names them in messages."""
    if len(files) > 2:
        raise ConfigError(
            f"{option}: expected one file with both languages, or two, {' and '.join(codes)}, got {len(files)}; write "
            "--valid or --test before each of its files"
        )
    remote = len(files) == 1 and re.match(REMOTE, files[0])
    for file in files:
        check_regular(path := Path(file).expanduser())
        if not remote and not path.exists():
            raise ConfigError(f"{option}: {file}: no such file; paths start at {Path.cwd()}")
    if len(files) == 2:
        if [packed.bare_suffix(file) for file in files] == [f".{code}" for code in reversed(codes)]:
            raise ConfigError(
                f"{option}: expected the file in {codes[0]} first, got {files[0]}; swap files or languages"
            )
        return {"files": dict(zip(codes, files, strict=True))}
    if remote:
        columns: Any = list(codes) if FORMATS.get(packed.bare_suffix(files[0])) in WITH_COLUMNS else []
    else:
        columns = _columns(files[0], codes)
    return {"source": files[0]} | ({"columns": columns} if columns else {"languages": list(codes)})


def _columns(file: str, codes: Sequence[str]) -> list[str] | dict[str, str]:
    """The columns of a table: named in its head line, or the first two whose first cell is no number."""
    kind, head = table_head(Path(file).expanduser(), codes)
    if named := columns_named(head, codes):
        return named if kind in WITH_COLUMNS or list(named.values()) != list(codes) else []
    if kind not in WITH_COLUMNS:
        return []
    text = [place for place, cell in enumerate(head) if not cell.strip().isdigit()]
    if len(text) < 2:
        return [*codes, *["_"] * (len(head) - 2)]
    return [dict(zip(text, codes, strict=False)).get(place, "_") for place in range(len(head))]


def _per_mille(pairs: int) -> float:
    """The parts in a thousand of training text that become validation text, and again test text: at least ten pairs."""
    exact = 1000 * min(HELD_OUT, max(10, pairs / 20)) / pairs
    return int(exact) if exact >= 10 else float(f"{exact:.3g}")


def _corpus(whole: dict[str, dict[str, Any]], share: float, source: str) -> dict[str, Any]:
    """The entry of the corpus; validation and test text that is not given is a slice of the training text."""
    splits = dict(whole)
    begin: float = 0
    for split in ("valid", "held_out"):
        if split not in whole:
            splits[split] = whole["train"] | {"slice": {"by": source, "per_mille": [begin, begin + share]}}
            begin += share
    if begin:
        splits["train"] = whole["train"] | {"slice": {"by": source, "per_mille": [begin, 1000]}}
    return {
        "train": splits["train"], "valid": splits["valid"], "tests": {"held_out": splits["held_out"]},
        "disjoint": "all", "licence": "not stated",
    }  # fmt: skip


def _entry(name: str, entry: dict[str, Any], indent: int = 2) -> str:
    """The entry as YAML, with one line for each split, behind so many spaces."""

    def line(value: Any) -> str:
        text: str = yaml.dump(
            value, Dumper=_WithoutAnchors, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True
        )
        return text.removesuffix("...\n").strip()

    text = f"""\
{name}:
  train: {line(entry["train"])}
  valid: {line(entry["valid"])}
  tests:
    held_out: {line(entry["tests"]["held_out"])}
  disjoint: all       # leave out pairs that share a sentence with test text, or training pairs with validation text
  licence: not stated # shown beside the scores
"""
    return textwrap.indent(text, " " * indent)


class _WithoutAnchors(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _with_corpus(config: Path, name: str, entry: dict[str, Any]) -> str:
    """The text of the settings with a corpus and a table more; raises ConfigError if it cannot be added."""
    new = f"# All keys: docs/reference/configuration.md\ntables: [{name}]\n"
    before = read_config(config) if config.exists() else new
    if head := CORPORA.search(before):
        after = before[head.end() :]
        first = re.search(r"^( *)[^\s#]", after, re.MULTILINE)  # an entry, or the next key of the settings
        indented = _entry(name, entry, len(first[1]) if first and first[1] else 2)
        text = f"{before[: head.start()]}corpora:{head[1]}\n{indented}{after}"
    else:
        text = before.removesuffix("\n") + f"\n\ncorpora:\n{_entry(name, entry)}"
    try:
        if parse(Workflow, text, str(config)).corpora[name] != CustomCorpus.model_validate(entry):
            raise ConfigError("it has other corpora in one line")
    except (ConfigError, KeyError) as error:
        raise ConfigError(
            f"{config}: the corpus cannot be added: {error}; add it by hand:\ncorpora:\n{_entry(name, entry)}"
        ) from None
    return text


def _table(name: str, codes: Sequence[str], pairs: int, train: Survey) -> str:
    """The text of the table, with settings that suit the number of pairs."""
    chosen = dict(zip(COLUMNS, next(settings for most, settings in SIZES if pairs <= most), strict=True))
    joint = scripts_of(codes[0]) == scripts_of(codes[1])
    chosen["pieces"] = pieces = _pieces(int(chosen["pieces"]), joint, pairs, train)
    updates = _updates(train, pairs, [_per_unit(code, pieces) for code in codes], int(chosen["batch"]))
    return TABLE.format(
        name=name, corpus=name, source=codes[0], target=codes[1], test="held_out", updates=updates,
        pairs=f"{pairs:,}" if pairs == train.filled else f"about {pairs:,}",
        joint=str(joint).lower(), tied="all" if joint else "decoder",
        warmup=max(20, min(4000, updates * int(chosen["passes"]) // 10)), **chosen,
    )  # fmt: skip


def _pieces(usual: int, joint: bool, pairs: int, train: Survey) -> int:
    """The size of the vocabulary: the usual one, or what little text teaches; at least two for each character."""
    sets = train.distinct, train.characters
    distinct, characters = ([set.union(*sides)] if joint else sides for sides in sets)
    learned = min(map(len, distinct)) * pairs // train.pairs  # each character and each word
    return max(min(usual, learned) if train.pairs <= JUDGED else usual, 2 * max(map(len, characters)))


def _per_unit(code: str, pieces: int) -> float:
    """Estimate the pieces per word of a language; of one without spaces, per character."""
    per_word = float(np.interp(np.log(pieces), np.log(list(PER_WORD)), list(PER_WORD.values())))
    if not is_spaceless(code):
        return per_word
    return min(1, per_word / (WORD if base(code) in UNSPACED else LONG_WORD))


def _updates(train: Survey, pairs: int, per_unit: Sequence[float], batch: int) -> int:
    """Estimate the updates of a pass from batches of the surveyed pairs, or of `SAMPLED`, formed as in training.

    They are sorted by target, then by source, so the longer side of a batch is padded much in a small corpus.
    """
    filled = sorted((target, source, count) for (source, target), count in train.lengths.items() if source and target)
    longer = [max(source * per_unit[0], target * per_unit[1]) for target, source, _ in filled]
    lengths = np.rint(longer).astype(int) + 2  # with both ends of the sentence
    ends = np.cumsum([count for *_, count in filled])
    sample = lengths[np.searchsorted(ends, evenly(int(ends[-1]), SAMPLED), side="right")]
    return max(1, round(len(cut(sample, blocks(sample), batch, "tokens")) * pairs / len(sample)))
