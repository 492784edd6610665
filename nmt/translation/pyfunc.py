"""A model directory as a model of MLflow's pyfunc flavour; torch is imported when the model is loaded."""

import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from nmt.data import card
from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_text
from nmt.translation.directions import read_pairs

RUN = """\
```bash
mlflow models serve -m FOLDER --env-manager local -p 5001
```

FOLDER is this folder. From Python: `mlflow.pyfunc.load_model("FOLDER").predict(["Some text."])`."""
PACKAGES = ("numpy", "pydantic", "PyYAML", "sacremoses", "safetensors", "sentencepiece", "torch")


def write_pyfunc(model: Path, out: Path) -> None:
    """Write a model of MLflow, without pickles: the data is the model directory, the code is this package.

    Args:
        model: a model directory.
        out: the folder to write; new or empty.

    Raises:
        DataError: a file of the model directory is missing or names no pairs of languages.
    """
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    text = Schema([ColSpec("string")])
    pairs = read_pairs(str(read_json(model / "cleaning.json")["languages"]), model / "cleaning.json")
    named = ParamSchema([ParamSpec(name, "string", "") for name in ("from", "to")]) if len(pairs) > 1 else None
    installed = [f"{name}=={metadata.version(name).partition('+')[0]}" for name in PACKAGES]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*An input example was not provided")  # it has a signature instead
        mlflow.pyfunc.save_model(
            str(out),
            loader_module=__name__,
            data_path=str(model),
            code_paths=[str(Path(__file__).parent.parent)],
            # With inputs in it, MLflow would drop all columns but the first, and read a null in JSON as the text None.
            signature=ModelSignature(outputs=text, params=named),
            pip_requirements=[f"mlflow=={mlflow.__version__}", *installed],  # mlflow-skinny is enough to write it
        )
    write_text(out / card.NAME, card.model_card(model, RUN, "mlflow", card.scores_beside(model)))


class Predictor:
    """The model that `mlflow.pyfunc.load_model` returns."""

    def __init__(self, folder: Path) -> None:
        from nmt.translation.translator import Translator

        self.translator = Translator.load(folder)

    def predict(self, lines: Any, params: dict[str, Any] | None = None) -> list[str]:
        """Translate raw lines: a string, several, or a data frame of one column; a missing one is empty.

        A model that was trained on several pairs of languages has the params ``from`` and ``to``.

        Raises:
            ConfigError: there are several columns.
        """
        from pandas import DataFrame, isna

        single = isinstance(lines, str) or getattr(lines, "ndim", 1) == 0  # the server makes an array of a string
        frame = DataFrame([str(lines)] if single else lines)
        if frame.shape[1] > 1:
            names = ", ".join(map(str, frame.columns))
            raise ConfigError(f"expected one column of text, got {frame.shape[1]} ({names}); choose one")
        rows = frame.iloc[:, 0] if frame.shape[1] else []
        target, source = ((params or {}).get(name) or None for name in ("to", "from"))
        return self.translator.toward(target, source).translate(["" if isna(row) else str(row) for row in rows])


def _load_pyfunc(folder: str) -> Predictor:
    """Load the model; MLflow calls this function by its name, with the folder of the model's data."""
    return Predictor(Path(folder))
