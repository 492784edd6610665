"""Outlines of models: the shapes of all weights, without their memory and without loading torch's compiler."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter

from nmt.config.models import TABLE, BaseTransformerConfig, ModelConfig
from nmt.models.build import build, outline
from nmt.system.errors import ConfigError

SMALL = {"layers": 2, "width": 16, "ffn": 24, "heads": 2, "max_positions": 20}
RECURRENT = {"kind": "recurrent", "layers": 2, "width": 16}
CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": SMALL,
    "learned positions": SMALL | {"positions": "learned", "context": "gru", "decoder_layers": 3},
    "tied": SMALL | {"tied": "all", "norm": "pre"},
    "recurrent": RECURRENT | {"cell": "gru", "bidirectional": True},
    "local attention": RECURRENT | {"attention": {"kind": "local-p"}, "input_feeding": True},
    "bare attention": SMALL | {"attention_output": False, "attention_bias": False},
    "newer options": SMALL
    | {"positions": "rotary", "normalisation": "rms", "activation": "swiglu", "key_value_heads": 1, "norm": "pre"},
    "queries": SMALL | {"kind": "multimodal", "channels": 8, "key_value_heads": 1},
    "gated": SMALL | {"kind": "multimodal", "channels": 8, "fusion": "gated", "positions": "rotary"},
}


def config(**values: Any) -> Any:
    return TypeAdapter[Any](ModelConfig).validate_python(values)


@pytest.mark.parametrize("case", CONFIGS)
def test_an_outline_has_the_weights_of_the_model(case: str) -> None:
    chosen, sizes = config(**CONFIGS[case]), [30, 30]
    found = outline(chosen, sizes, 0, 10**6)
    assert found
    expected = {name: weight.shape for name, weight in build(chosen, 30, 30, 0).named_parameters()}
    assert {name: weight.shape for name, weight in found.named_parameters()} == expected
    assert all(weight.is_meta for weight in found.parameters())


@pytest.mark.parametrize("large", [{"layers": 101}, {"decoder_layers": 101}])
def test_a_model_larger_than_its_file_has_no_outline(large: dict[str, Any]) -> None:
    assert outline(config(**SMALL | large), [30, 30], 0, 100) is None
    assert outline(config(**RECURRENT | {"layers": 101}), [30, 30], 0, 100) is None


@pytest.mark.parametrize("large", [{"max_positions": TABLE}, {"kind": "multimodal", "regions": TABLE // 16 + 1}])
def test_tables_that_no_file_bounds_are_refused_before_a_training(large: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"(max_positions|regions) times width must be at most 33,554,432, got \d+ times 16"
    ):
        config(**SMALL | large)


def test_an_outline_of_a_huge_model_takes_no_memory() -> None:
    huge = outline(config(**SMALL | {"width": 2**20, "ffn": 2**22, "max_positions": 32}), [2**31, 2**31], 0, 100)
    assert huge and sum(weight.numel() for weight in huge.parameters()) > 2**50


def test_a_kind_that_nobody_builds_is_no_transformer() -> None:
    with pytest.raises(ConfigError, match=r"^model\.kind: own: expected a kind that nmt\.models\.build\.build builds;"):
        build(BaseTransformerConfig.model_construct(kind="own"), 9, 9, 0)  # type: ignore[arg-type]


@pytest.mark.integration
def test_an_outline_loads_no_compiler() -> None:
    """It would make every translation start seconds later."""
    code = (
        "import sys\nfrom nmt.config.models import TransformerConfig\nfrom nmt.models.build import outline\n"
        "outline(TransformerConfig(), [100, 100], 0, 1000)\nsys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
