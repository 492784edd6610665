"""Configuration: typed, frozen and strict. Every default of the project is in this package, once."""

import warnings
from importlib import import_module
from typing import Any

_MOVED = {
    "Cleaning": "data", "CustomCorpus": "corpus.sources", "Images": "data", "SpecialIds": "data", "Subwords": "data",
    "Decoding": "decoding", "AddedText": "system", "System": "system",
    "Published": "table", "Row": "table", "Table": "table", "load_table": "table",
    "Consistency": "training", "Optimizer": "training", "Schedule": "training", "Training": "training",
    "Workflow": "workflow",
    "Attention": "models", "Dropout": "models", "Model": "models", "Multimodal": "models", "Recurrent": "models",
    "RecurrentDropout": "models", "Transformer": "models",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Redirect the names of version 0.1, `nmt.config.NAME`, to their modules; removed in version 0.3."""
    if name not in _MOVED:
        raise AttributeError(f"module 'nmt.config' has no attribute '{name}'")
    module = _MOVED[name]
    new = f"{name}Config" if module == "models" else name
    warnings.warn(f"nmt.config.{name} is now nmt.config.{module}.{new}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(f"nmt.config.{module}"), new)
