"""Options that several commands share, with their parameter types and checks."""

import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nmt.config.choices import ENGINES, PAIR, joined_subtags
from nmt.system.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from nmt.config.decoding import Decoding
    from nmt.system.chunks import Shard

Model = TypeVar("Model", bound="BaseModel")
Command = Callable[..., Any]

PATH = click.Path(path_type=Path)


class Output(click.Path):
    """The path of a stage's output. The command holds a lock beside it, so that no second one writes it meanwhile.

    Jobs that share an output (`shard_option`) have a lock each.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raises DataError if another process writes there."""
        from nmt.system.locks import exclusive

        out = Path(os.fsdecode(super().convert(value, param, ctx)))
        shard, place = ctx and ctx.params.get("shard"), out.resolve()
        part = f".{shard.number}-of-{shard.of}" if shard else ""
        if ctx:
            with suppress(OSError):  # the command says what is wrong with the path
                ctx.with_resource(exclusive(place.parent / f".{place.name}{part}.lock", out, keep=False))
        return out


OUTPUT = Output()
COUNT = click.IntRange(1)
SEED = click.IntRange(0, 2**32 - 1)


class Device(click.Choice[str]):
    """The devices; Apple's GPU is refused with a reason."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return a valid device."""
        if value == "mps":
            self.fail("'mps': Apple's GPU is not supported; use cpu, which auto takes on macOS", param, ctx)
        return super().convert(value, param, ctx)


DEVICE = Device(["auto", "cpu", "cuda"])


class PositiveNumber(click.FloatRange):
    """A number above 0. It rejects NaN too, which passes every comparison with a bound."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number; fail with an error that names the option."""
        number = super().convert(value, param, ctx)
        return self.fail("expected a number above 0, got nan", param, ctx) if math.isnan(number) else number


def check_languages(_: click.Context, __: click.Parameter, value: str) -> str:
    """Check a pair of languages; raises ConfigError."""
    languages = joined_subtags(value)
    if not re.fullmatch(PAIR, languages) or len(set(languages.split("-"))) < 2:
        raise ConfigError(f"--languages: expected two, source-target, e.g. en-de or en-zh_Hant, got '{value}'")
    return languages


def check_pairs(context: click.Context, option: click.Parameter, value: str) -> str:
    """Check pairs of languages joined by commas; raises ConfigError."""
    pairs = [check_languages(context, option, pair) for pair in value.split(",")]
    if len(set(pairs)) < len(pairs):
        raise ConfigError(f"--languages: expected different pairs, got '{value}'")
    return ",".join(pairs)


def check_run_name(_: click.Context, __: click.Parameter, value: str) -> str:
    """Check a run's name, TABLE/SYSTEM; raises ConfigError."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise ConfigError(f"--name: expected TABLE/SYSTEM, each of letters, digits, _ . -, got '{value}'")
    return value


def parse_shard(_: click.Context, __: click.Parameter, value: str | None) -> "Shard | None":
    """Read a shard like 2/8; raises ConfigError."""
    from nmt.system.chunks import Shard

    return Shard.parse(value) if value else None


languages_option = click.option(
    "--languages", required=True, metavar="en-de", callback=check_languages, help="Source and target language."
)
pairs_option = click.option(
    "--languages",
    required=True,
    metavar="en-de[,en-fr]",
    callback=check_pairs,
    help="Source and target language; or several pairs for one model, joined by commas.",
)
config_option = click.option(
    "--config",
    "settings",
    default="{}",
    help="Settings of this stage: YAML or JSON text, or a .yaml, .yml or .json file. Other keys keep their defaults.",
)
shard_option = click.option(
    "--shard",
    metavar="2/8",
    callback=parse_shard,
    is_eager=True,  # `Output` needs it
    show_default="all of it",
    help="Do only this part of the work. The same command without --shard does the missing parts and joins all.",
)


def device_options(command: Command) -> Command:
    """Add the options of a stage that computes on tensors."""
    device = click.option("--device", type=DEVICE, default="auto", help="auto takes a GPU if there is one.")
    threads = click.option(
        "--threads", type=click.IntRange(1, 1024), show_default="PyTorch's choice", help="CPU threads."
    )
    return device(threads(command))


engine_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="torch",
    help="The program that searches: torch, ctranslate2 (faster, for Transformers), or auto, the faster one that can.",
)


def direction_options(command: Command) -> Command:
    """Add the options that choose the languages of a model with several pairs."""
    known = "that of the model"
    source = click.option(
        "--from", "source_language", metavar="LANGUAGE", show_default=known, help="Language of the text."
    )
    target = click.option(
        "--to", "target_language", metavar="LANGUAGE", show_default=known, help="Language to translate into."
    )
    return source(target(command))


def search_options(command: Command) -> Command:
    """Add the options of a command that translates by hand; `decoding_of` makes settings of their values."""
    off = "off"
    options = [
        click.option(
            "--beam", type=COUNT, show_default="5, or 1 with --sampling", help="Beam size; 1 is greedy search."
        ),
        click.option(
            "--length-penalty", type=float, default=1.0, help="The score of a translation is log p / length^penalty."
        ),
        click.option("--length-reward", type=float, show_default=off, help="Added to the score for each piece."),
        click.option("--prefix", show_default=off, help="Text that each translation begins with; no line is split."),
        click.option("--min-length", type=COUNT, show_default=off, help="Fewest pieces of a translation."),
        click.option(
            "--no-repeat-ngram", type=COUNT, show_default=off, help="No sequence of so many pieces occurs twice."
        ),
        click.option(
            "--coverage-penalty",
            type=float,
            show_default=off,
            help="Weight of the penalty for source pieces left untranslated.",
        ),
        click.option(
            "--sampling", is_flag=True, show_default=off, help="Draw each piece by its probability, in place of a beam."
        ),
        click.option(
            "--temperature", type=float, show_default="1", help="Below 1, likely pieces are drawn more often."
        ),
        click.option("--top-k", type=COUNT, show_default="all", help="Draw among so many most likely pieces."),
        click.option("--top-p", type=float, show_default="1", help="Draw among the likely pieces that sum to this."),
        click.option("--samples", type=COUNT, show_default="1", help="Translations drawn for each line."),
        click.option(
            "--mbr",
            type=click.Choice(["chrf", "bleu"]),
            show_default=off,
            help="Choose the sample most like the others.",
        ),
        click.option("--seed", type=SEED, show_default="0", help="Another seed draws other samples."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def decoding_of(options: Mapping[str, Any], nbest: int = 1) -> "Decoding":
    """Make settings of the values of `search_options`; raises ConfigError, which names the option."""
    from pydantic import ValidationError

    from nmt.config.decoding import Decoding
    from nmt.config.problems.words import in_words

    given = {name: value for name, value in options.items() if value is not None}
    if not -10 <= given["length_penalty"] <= 10:  # rejects NaN too
        raise ConfigError(f"--length-penalty: expected a number from -10 to 10, got {given['length_penalty']}")
    given.setdefault("beam", 1 if given["sampling"] else 5)
    if nbest > given["beam"] and not given["sampling"]:
        raise ConfigError(f"--nbest: expected at most --beam, {given['beam']}, got {nbest}; raise --beam too")
    try:
        return Decoding(**given, nbest=nbest)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["loc"]:
            option = f"--{str(problem['loc'][0]).replace('_', '-')}"
            raise ConfigError(f"{option}: {in_words(problem)}") from None
        message, names = str(problem["ctx"]["error"]), "|".join(Decoding.model_fields)
        message = re.sub(rf"\b({names})\b(: true|:(?= ))?", lambda name: f"--{name[1].replace('_', '-')}", message)
        raise ConfigError(message) from None


def load_settings(model: type[Model], text: str) -> Model:
    """Validate the settings of ``--config``: YAML or JSON text, or the name of a file.

    Raises:
        ConfigError: a key or value is wrong.
    """
    from nmt.config import yaml

    if "\n" not in text and Path(text).suffix in (".yaml", ".yml", ".json"):
        return yaml.load(model, Path(text))
    return yaml.parse(model, text, "--config")
