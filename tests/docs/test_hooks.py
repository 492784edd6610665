"""The site of the documentation reads Markdown as GitHub does."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PAGE = """1. First:

   ```text
   rows:
     - a
   ```

   More:

   - inner
     goes on

10. Second

    its paragraph

After.
"""


def test_steps_with_code_are_one_list() -> None:
    markdown = pytest.importorskip("markdown")
    spec = spec_from_file_location("docs_hooks", Path(__file__).parents[2] / "docs/hooks.py")
    assert spec and spec.loader
    hooks = module_from_spec(spec)
    spec.loader.exec_module(hooks)
    html = markdown.markdown(hooks.nested(PAGE), extensions=["pymdownx.superfences"])
    assert html.count("<ol>") == html.count("</ol>") == 1 and html.count("<li>") == 3
    steps, _, after = html.partition("</ol>")
    assert "rows:\n  - a" in steps and "<p>its paragraph</p>" in steps and "goes on</li>" in steps
    assert after.strip() == "<p>After.</p>"
