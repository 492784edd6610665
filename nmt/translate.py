"""The old place of `nmt.translation`; this module goes away with version 0.3."""

import warnings
from importlib import import_module
from typing import Any

_MOVED = {
    "Attentions": "nmt.translation.translator",
    "Translation": "nmt.translation.translator",
    "Translator": "nmt.translation.translator",
    "decode_file": "nmt.translation.decode_file",
}


def __getattr__(name: str) -> Any:
    """Find what was `nmt.translate.NAME` before version 0.2."""
    if name not in _MOVED:
        raise AttributeError(f"module 'nmt.translate' has no attribute '{name}'")
    warnings.warn(f"nmt.translate.{name} is now {_MOVED[name]}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(_MOVED[name]), name)
