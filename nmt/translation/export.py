"""Export a model directory to other formats: CTranslate2, Hugging Face, MLflow's pyfunc flavour, float16 weights."""

import shutil
from pathlib import Path
from typing import Literal

import torch

from nmt.config.choices import Quantization
from nmt.data import card
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import Json, atomic_directory, read_json, sha256, write_json, write_text
from nmt.text.subwords import SIDES
from nmt.training.checkpoint import WEIGHTS, verified_weights, write_tensors
from nmt.translation.engines.bundle import bundle
from nmt.translation.engines.specification import specification, unsupported
from nmt.translation.marian.write import write_marian
from nmt.translation.pyfunc import write_pyfunc
from nmt.translation.standalone import SETTINGS
from nmt.translation.translator import Translator

Format = Literal["ctranslate2", "huggingface", "pyfunc", "half"]
CTRANSLATE2 = """\
The export needs Python 3.10 or newer and these packages, not the project that wrote it:

```bash
pip install ctranslate2 sentencepiece sacremoses
python translate.py text.txt    # raw text, one sentence per line; without a file: standard input
```

From Python, in this folder:

```python
from translate import ExportedModel

print(ExportedModel(".").translate(["Some text."]))
```"""


def export(
    model: Path,
    out: Path,
    to: Format,
    quantization: Quantization | None = None,
    check: tuple[Path, Path] | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Json | None:
    """Write a model in another format, as a whole folder.

    Args:
        model: a model directory.
        out: the folder to write; new or empty.
        to: ``ctranslate2``, ``huggingface``, ``pyfunc``, or ``half`` for a model directory with float16 weights.
        quantization: type of the stored weights, for ``ctranslate2``; None for float32.
        check: raw source and reference, to compare the export with the model; for ``ctranslate2``.
        languages: target and source, of a model that was trained on several pairs; for ``ctranslate2``, which writes
            one direction (`nmt.translation.directions.choose_direction`).

    Returns:
        The result of `nmt.translation.comparison.compare_with_export`, and as Markdown (``table``); None without
        ``check``.

    Raises:
        ConfigError: the format does not support such a model.
        DataError: the model is missing or damaged, or ``out`` is not empty or lies within the model directory.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out}: expected a new or empty folder, got one that is not empty; name another")
    if out.resolve().is_relative_to(model.resolve()):
        raise DataError(f"{out}: expected a folder outside {model}, got one within it; name another")
    given = {"--quantization": quantization, "--check": check, "--to": languages[0], "--from": languages[1]}
    for option, value in given.items():
        if value and to != "ctranslate2":
            raise ConfigError(f"{option}: expected --format ctranslate2 with it, got {to}; leave one out")
    translator = Translator.load(model, "cpu")
    compared, run, library = None, CTRANSLATE2, str(to)
    with atomic_directory(out) as folder:
        match to:
            case "ctranslate2":
                _ctranslate2(model, translator.toward(*languages), folder, quantization)
            case "half":
                _half(model, folder)
                run, library = card.RUN, "nmt"
            case "huggingface":
                write_marian(model, translator, folder)
                return None
            case "pyfunc":
                write_pyfunc(model, folder)
                return None
        if check:
            compared = _compare(model, folder, *check)
            run += f"\n\nCompared with the model:\n\n{compared['table']}"
        write_text(folder / card.NAME, card.model_card(model, run, library, card.scores_beside(model)))
    return compared


def _half(folder: Path, out: Path) -> None:
    """Write the same model directory with weights rounded to float16; translating still computes in float32."""
    for file in folder.glob("[!.]*"):
        copy = shutil.copytree if file.is_dir() else shutil.copyfile
        copy(file, out / file.name)
    weights = {name: weight.half() for name, weight in verified_weights(folder).items()}
    if not all(torch.isfinite(weight).all() for weight in weights.values()):
        raise ConfigError(
            f"--format half: {folder} has weights beyond {torch.finfo(torch.half).max:,.0f}; keep it as it is"
        )
    write_tensors(weights, out / WEIGHTS)
    provenance = read_json(folder / "provenance.json")
    rounded = {"weights_sha256": sha256(out / WEIGHTS), "rounded_from_sha256": provenance["weights_sha256"]}
    write_json(out / "provenance.json", provenance | rounded)


def _compare(model: Path, export: Path, source: Path, reference: Path) -> Json:
    """Compare an export with its model; write the result to ``check.json``. A table of it is under the key table."""
    from nmt.translation.comparison import compare_with_export, markdown  # sacrebleu is not in every export

    result = compare_with_export(model, export, source, reference)
    write_json(export / "check.json", result)
    return result | {"table": markdown(result)}


def _ctranslate2(folder: Path, translator: Translator, out: Path, quantization: Quantization | None) -> None:
    """Write the model and vocabularies of CTranslate2, and the program that translates raw text with them."""
    model = translator.model
    if problem := unsupported(translator.models, translator.source):
        foreign = translator.source.foreign
        way = "huggingface, then ct2-transformers-converter of CTranslate2" if foreign else "pyfunc"
        expected, got = problem
        raise ConfigError(f"--format ctranslate2: expected {expected}, got {got} in {folder}; use --format {way}")
    spec = specification(model, translator.source, translator.target)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(out))
    for name in (*(f"{side}.model" for side in SIDES), "cleaning.json", "provenance.json"):
        shutil.copyfile(folder / name, out / name)
    settings = {"languages": "-".join(translator.languages), "max_positions": model.longest}
    write_json(out / SETTINGS, settings | {"cleaning": translator.cleaning.model_dump(mode="json")})
    write_text(out / "translate.py", bundle("nmt.translation.standalone"))
