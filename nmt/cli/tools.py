"""Commands beside the pipeline: serve a model, convert it, describe settings and this machine."""

import re
import shlex
from pathlib import Path
from typing import Any

import click

from nmt.cli.options import (
    OUTPUT,
    PATH,
    PositiveNumber,
    check_languages,
    device_options,
    direction_options,
    engine_option,
)
from nmt.config.choices import QUANTIZATIONS
from nmt.system.errors import ConfigError

USES = {
    "ctranslate2": "python {}/translate.py FILE", "huggingface": "the program in {}/README.md",
    "pyfunc": "mlflow models serve -m {} --env-manager local", "half": "nmt translate {} FILE",
}  # fmt: skip
"""How to use a model, by its format."""


@click.command()
@click.argument("models", metavar="MODEL_DIR...", type=PATH, nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", help="Address of the page; 0.0.0.0 is open to other machines.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="Port of the page; 0 takes a free one.")
@click.option("--rate", type=PositiveNumber(), default=20.0, help="Requests that one client may make in a second.")
@click.option("--batch", type=click.IntRange(1), default=16, help="Waiting requests that are computed together.")
@click.option(
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    show_default="none",
    help="A further name of this machine that addresses of the page may have. Can be given several times.",
)
@click.option(
    "--token",
    envvar="NMT_SERVE_TOKEN",
    show_default="none on this machine",
    help="Secret that requests must bring; also the variable NMT_SERVE_TOKEN.",
)
@click.option("--no-token", is_flag=True, help="Open the page to other machines without a token.")
@engine_option
@device_options
def serve(
    models: tuple[Path, ...],
    host: str,
    port: int,
    rate: float,
    batch: int,
    allowed: tuple[str, ...],
    token: str | None,
    no_token: bool,
    engine: Any,
    device: str,
    threads: int | None,
) -> None:
    """Serve a local web page that translates with each MODEL_DIR and shows how.

    `nmt average` makes a MODEL_DIR. An export for CTranslate2 can be served too, without attention.
    """
    from nmt.serve.limits import Limits
    from nmt.serve.server import serve as run_server

    check_token(host, token, no_token)
    run_server(models, host, port, device, threads, Limits(rate=rate, batch=batch), allowed, token, engine)


def check_token(host: str, token: str | None, no_token: bool) -> None:
    """Raise ConfigError if the page is open to other machines and nothing says who may use it."""
    if token is not None and (no_token or not re.fullmatch(r"[\w.~+/=-]{8,}", token, re.ASCII)):
        expected = "no --no-token beside it" if no_token else "8 or more letters, digits or . _ ~ + / = -"
        raise ConfigError(f"--token: expected {expected}; python -c 'import secrets; print(secrets.token_urlsafe())'")
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    if not (local or token or no_token):
        raise ConfigError(
            f"--host {host}: expected --token SECRET, since other machines can reach this address, got none; give one, "
            "or --no-token to let everybody in"
        )


@click.command()
@click.argument("model", type=PATH)
@click.argument("out", type=OUTPUT)
@click.option(
    "--format",
    "to",
    type=click.Choice(["ctranslate2", "huggingface", "pyfunc", "half"]),
    required=True,
    help="ctranslate2 is for CTranslate2, huggingface is a MarianMTModel of transformers, pyfunc is a model of MLflow, "
    "half is this model with float16 weights.",
)
@click.option(
    "--quantization",
    type=click.Choice(QUANTIZATIONS),
    show_default="float32",
    help="Of ctranslate2: type of the stored weights; int8 is smallest and fastest on CPUs.",
)
@click.option(
    "--check",
    type=PATH,
    nargs=2,
    metavar="SOURCE REFERENCE",
    show_default="no check",
    help="Of ctranslate2: translate this raw text with both, and compare BLEU, speed and size.",
)
@direction_options
def export(
    model: Path,
    out: Path,
    to: Any,
    quantization: Any,
    check: tuple[Path, Path] | None,
    source_language: str | None,
    target_language: str | None,
) -> None:
    """Convert the model directory MODEL for another program, or halve its size; writes the new folder OUT."""
    from nmt.cli.streams import check_endings
    from nmt.system.files import read_json
    from nmt.translation.directions import choose_direction, read_pairs
    from nmt.translation.export import export as export_model

    if check:
        file = model / "cleaning.json"
        pairs = read_pairs(str(read_json(file)["languages"]), file)
        check_endings(choose_direction(model, pairs, source_language, target_language), *check)
    if compared := export_model(model, out, to, quantization, check, (target_language, source_language)):
        click.echo(compared["table"])
    click.echo(f"wrote {out}; use it by: {USES[to].format(shlex.quote(str(out)))}")


@click.command()
@click.argument("model", type=PATH)
def card(model: Path) -> None:
    """Print the model card of the model directory MODEL, with the scores that the workflow has measured since."""
    from nmt.data.card import model_card, scores_beside

    click.echo(model_card(model, scores=scores_beside(model)), nl=False)


@click.command("import")
@click.argument("folder", type=PATH)
@click.argument("out", type=OUTPUT)
@click.option(
    "--languages",
    metavar="en-de",
    callback=lambda context, option, value: value and check_languages(context, option, value),
    show_default="those of the model's tokenizer_config.json",
    help="Source and target language.",
)
def import_model(folder: Path, out: Path, languages: str | None) -> None:
    """Turn FOLDER, a Marian model of Hugging Face, into the model directory OUT.

    The models of OPUS-MT have this format.
    """
    from nmt.translation.marian.read import import_model as read_marian

    read_marian(folder, out, languages)
    click.echo(f"wrote {out}; use it by: {USES['half'].format(shlex.quote(str(out)))}")


@click.command()
@click.argument("out", type=PATH)
def schemas(out: Path) -> None:
    """Write the JSON schemas of cluster.yaml, config.yaml and table files into the folder OUT, for editors."""
    from nmt.config.schemas import schemas as all_schemas
    from nmt.system.files import write_json

    for name, schema in all_schemas().items():
        write_json(out / f"{name}.schema.json", schema)


@click.command()
def doctor() -> None:
    """Print what this machine has, and what a run would use."""
    import torch

    from nmt.system import machine
    from nmt.system.platforms import torch_build

    device = machine.prepare("auto")
    build = torch_build.recorded()
    chosen = f"{build.name} ({build.why})" if build else "not by envs/install.py"
    advised = torch_build.detect()
    facts = {"code": machine.code_version(), **machine.versions(), "torch chosen": chosen}
    if build and build.name not in ("none", advised.name):
        facts["torch advised"] = f"{advised.name} ({advised.why})"
    facts |= machine.hardware(device)
    kinds = {"fp32": torch.float32} | ({"bf16": torch.bfloat16} if machine.has_bfloat16(device) else {})
    if device.type == "cpu":
        for name, kind in kinds.items():
            facts[name] = f"{machine.matrix_speed(kind):.0f} GFLOP/s in matrix products"
    if "bf16" not in kinds:
        facts["bf16"] = "no instructions for it; trainings with precision: bf16 compute in fp32"
    for name, value in facts.items():
        click.echo(f"{name:14} {value}")
