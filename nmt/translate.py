"""The old place of `nmt.translation`; this module goes away with version 0.3."""

import warnings
from typing import Any

_MOVED = ("Attentions", "Translation", "Translator", "decode_file")


def __getattr__(name: str) -> Any:
    """Find what was `nmt.translate.NAME` before version 0.2."""
    if name not in _MOVED:
        raise AttributeError(f"module 'nmt.translate' has no attribute '{name}'")
    from nmt.translation import translator

    warnings.warn(f"nmt.translate.{name} is now nmt.translation.translator.{name}", DeprecationWarning, stacklevel=2)
    return getattr(translator, name)
