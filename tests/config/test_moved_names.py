"""Names of version 0.1 still work, and warn."""

import importlib

import pytest

import nmt.config
from nmt.config.decoding import Decoding
from nmt.config.models import TransformerConfig
from nmt.translation.translator import Translator

OLD = [
    ("nmt.config", "Decoding", Decoding),
    ("nmt.config", "Transformer", TransformerConfig),
    ("nmt.translate", "Translator", Translator),
]


@pytest.mark.parametrize(("module", "name", "new"), OLD)
def test_an_old_name_gives_the_new_class_and_warns(module: str, name: str, new: type) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is now {new.__module__}\.{new.__name__}"):
        assert getattr(importlib.import_module(module), name) is new


def test_every_moved_name_of_the_configuration_is_found() -> None:
    for name in nmt.config._MOVED:
        with pytest.warns(DeprecationWarning):
            assert getattr(nmt.config, name)


@pytest.mark.parametrize("module", ["nmt.config", "nmt.translate"])
def test_other_names_are_no_names(module: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(importlib.import_module(module), "Nothing")  # noqa: B009
