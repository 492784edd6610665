"""The steps of the page on new architectures, done in a copy of the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-an-architecture.md"
CHECKS = """
import pytest, torch
from generate import configuration
from nmt.config.models import has_attention
from nmt.config.training import Training, check_activation_checkpointing
from nmt.models.base import TranslationModel
from nmt.models.build import build, outline
from nmt.system.errors import ConfigError

bag = BagConfig(kind="bag")
assert outline(bag, [9, 9], 0, 10**6) and not build(bag, 9, 9, 0).waits_for_gpu and not has_attention(bag)
assert "of kind `bag`" in configuration() and TranslationModel.waits_for_gpu  # of a model that does not say
with pytest.raises(ValueError, match="needs a Transformer, got model.kind: bag"):
    check_activation_checkpointing(bag, Training(updates=1, activation_checkpointing=True))
with pytest.raises(ConfigError, match="expected a model with forward_watched, got Bag"):
    build(bag, 9, 9, 0).forward_watched(torch.ones(1, 3), torch.ones(1, 3), None, 0)
"""


def add(path: Path, *changes: tuple[str, str]) -> None:
    """Put lines before others of a file."""
    text = path.read_text(encoding="utf-8")
    for before, lines in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, lines + before)
    path.write_text(text, encoding="utf-8")


@pytest.mark.integration
def test_its_steps_add_a_model_that_can_be_loaded(tmp_path: Path) -> None:
    config, tag, module, line, test = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(ROOT / "nmt", tmp_path / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
    first = '    | Annotated[RecurrentConfig, Tag("<recurrent>")]\n'
    models = tmp_path / "nmt/config/models.py"
    add(models, ("ModelConfig = Annotated[\n", config + "\n\n"), (first, tag.replace("],", "]")))
    imports = "from nmt.config.models import BagConfig\n"
    added = "from nmt.models.bag import Bag\n" + imports
    before = "from nmt.config.models import "
    add(tmp_path / "nmt/models/build.py", (before, added), ('    raise ConfigError(f"model.kind:', line))
    (tmp_path / "nmt/models/bag.py").write_text(module, encoding="utf-8")
    (tmp_path / "test_bag.py").write_text(test, encoding="utf-8")
    for words in (["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bag.py"], ["-c", imports + CHECKS]):
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'docs'}"}
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
