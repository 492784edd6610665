"""Write a module of this package and all code of the package that it uses as one file, which runs without the package.

An export contains such a file, so the code that cleans text there is the code that cleans text here.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

CONFIGURATION = "nmt.config."
"""Modules of settings. They check values with pydantic; in a bundle a class of settings only holds its values."""
MISSING = """\
except ModuleNotFoundError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"this needs the package {error.name}; pip install {error.name}")"""
STAND_IN = '''class {name}(SimpleNamespace):
    """Settings, whose values nmt has checked."""

    def model_dump(self):
        return dict(vars(self))'''


def bundle(module: str) -> str:
    """Return the source of a module together with every function, class and constant of nmt that it uses.

    Args:
        module: name of the module. If it has a function ``main``, running the file calls it.
    """
    parts = _Bundle()
    for name in parts.module(module).statements:
        parts.add(module, name)
    docstring = ast.get_docstring(parts.module(module).tree)
    end = '\n\n\nif __name__ == "__main__":\n    main()\n' if "main" in parts.names else "\n"
    head = [f'"""{docstring}\n"""', "from __future__ import annotations", _imports(sorted(parts.imports))]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(parts.texts) + end


def _imports(lines: Sequence[str]) -> str:
    """Return the imports, first the standard library's; a program without another package ends with one message."""
    packages = [line for line in lines if line.split()[1].partition(".")[0] not in sys.stdlib_module_names]
    standard = [line for line in lines if line not in packages]
    guarded = ["", "try:", *(f"    {line}" for line in packages), MISSING] if packages else []
    return "\n".join([*standard, *guarded])


@dataclass
class _Module:
    """A parsed module: its lines, and what each name of its top level is."""

    lines: list[str]
    tree: ast.Module
    statements: dict[str, ast.stmt]
    imports: dict[str, tuple[str, str | None]]  # name → module and name there; without the latter, the module itself

    @classmethod
    def parse(cls, name: str) -> "_Module":
        path = Path(str(import_module(name).__file__))
        text = path.read_text(encoding="utf-8")
        parsed = cls(text.splitlines(), ast.parse(text), {}, {})
        for statement in parsed.tree.body:
            parsed._read(statement)
        return parsed

    def _read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self.statements[name] = statement
            case ast.Assign(targets=targets):
                names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
                self.statements |= dict.fromkeys(names, statement)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                self.statements[name] = statement
            case ast.Import(names=aliases):
                self.imports |= {alias.asname or alias.name: (alias.name, None) for alias in aliases}
            case ast.ImportFrom(module=str(origin), names=aliases):
                self.imports |= {alias.asname or alias.name: (origin, alias.name) for alias in aliases}

    def source(self, statement: ast.stmt) -> str:
        """Return the lines of a statement, decorators included."""
        decorators = getattr(statement, "decorator_list", [])
        first = min(node.lineno for node in [statement, *decorators])
        return "\n".join(self.lines[first - 1 : statement.end_lineno])


class _Bundle:
    """The parts of a bundle, each after those that it needs."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.imports = {"from types import SimpleNamespace"}
        self.names: dict[str, tuple[str, str]] = {}  # module and name there of each name in the bundle
        self._modules: dict[str, _Module] = {}

    def module(self, name: str) -> _Module:
        """Parse a module, once."""
        if name not in self._modules:
            self._modules[name] = _Module.parse(name)
        return self._modules[name]

    def add(self, module: str, name: str) -> str:
        """Add what a name of a module stands for, after all that it uses; return its name in the bundle.

        Nothing is added for a built-in or local name. A name that another module has taken gets the module's name too.
        """
        parsed = self.module(module)
        if name in parsed.imports:
            return self._add_import(name, *parsed.imports[name])
        if name not in parsed.statements:
            return name
        new, place = name, (module, name)
        if self.names.get(new, place) != place:
            new = f"{name}_{module.split('.')[-1]}"
        if new not in self.names:
            self.names[new] = place
            statement = parsed.statements[name]
            renamed = {used: self.add(module, used) for used in used_names(statement)} | {name: new}
            text = _rename(parsed.source(statement), renamed)
            self.texts += [text] if text not in self.texts else []
        return new

    def _add_import(self, name: str, origin: str, original: str | None) -> str:
        if origin.startswith(CONFIGURATION):
            if name not in self.names:
                self.names[name] = (origin, name)
                self.texts.append(STAND_IN.format(name=name))
        elif original is None:
            self.imports.add(f"import {origin}" + (f" as {name}" if name != origin else ""))
        elif origin.partition(".")[0] == "nmt":
            return self.add(origin, original)
        else:
            self.imports.add(f"from {origin} import {original}" + (f" as {name}" if name != original else ""))
        return name


def _rename(text: str, names: Mapping[str, str]) -> str:
    """Replace names in the source of a statement."""
    for name, new in names.items():
        text = text if name == new else re.sub(rf"(?<![\w.]){name}(?!\w)", new, text)
    return text


def used_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement reads when it runs; annotations are not evaluated, so theirs do not count."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                parts = value if isinstance(value, list) else [value]
                waiting += [part for part in parts if isinstance(part, ast.AST)]
