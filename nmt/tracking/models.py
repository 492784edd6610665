"""Logged models: what MLflow knows of a model directory, its copy of it, and its version in the registry."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.system.files import read_json

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

Export = Callable[[Path, Path], Any]
"""Writes a model directory as a model of MLflow, into a new folder."""


@dataclass(frozen=True)
class Models:
    """What happens to the models of a table's rows.

    Attributes:
        export: writes one for MLflow.
        copied: whether MLflow keeps a copy of each; otherwise only its place and its scores.
        register: the registered model that the table's best row becomes a version of; None: no row does.
    """

    export: Export
    copied: bool = True
    register: str | None = None


def logged_model(
    client: "MlflowClient", experiment: str, folder: Path, run: str | None, params: dict[str, str], models: Models
) -> "LoggedModel | None":
    """Find the logged model of a model directory, or create it; None if the folder has no model.

    Args:
        client: of the store.
        experiment: the id of its experiment.
        folder: the model directory, ``SYSTEM/seedN/SELECTION/model``.
        run: the run of the model's training, if MLflow has it.
        params: of the model's system.
        models: what happens to models.
    """
    from mlflow.entities import LoggedModelOutput

    if not (folder / "provenance.json").is_file():
        return None
    made = read_json(folder / "provenance.json")
    weights = str(made.get("weights_sha256") or "-".join(made.get("members", [])))
    name = "-".join(part.replace(".", "_") for part in folder.parts[-4:-1])
    same = f"tags.`nmt.weights_sha256` = '{weights}' AND name = '{name}'"
    if found := client.search_logged_models([experiment], same):
        return next(iter(found))
    tags = {"nmt.weights_sha256": weights, "nmt.folder": str(folder), "nmt.code_version": str(made.get("code_version"))}
    model = client.create_logged_model(experiment, name, run, tags, params, "translation")
    try:
        if models.copied or models.register:
            with tempfile.TemporaryDirectory() as exported:
                models.export(folder, Path(exported, "model"))
                client.log_model_artifacts(model.model_id, str(Path(exported, "model")))
        if run:
            client.log_outputs(run, [LoggedModelOutput(model.model_id, 0)])
        return client.finalize_logged_model(model.model_id, "READY")
    except BaseException:
        client.delete_logged_model(model.model_id)
        raise


def register(client: "MlflowClient", name: str, model: "LoggedModel", run: str, description: str) -> None:
    """Make a logged model the newest version of a registered model, which is created if it is missing."""
    import mlflow
    from mlflow.exceptions import MlflowException

    mlflow.set_tracking_uri(client.tracking_uri)  # where MLflow looks for the model of a new version
    try:  # a search by name would not find names with quotation marks
        client.get_registered_model(name)
    except MlflowException:
        client.create_registered_model(name)
    source = f"models:/{model.model_id}"
    if name not in [version.name for version in client.search_model_versions(f"source_path = '{source}'")]:
        client.create_model_version(name, source, run, model_id=model.model_id, description=description)
