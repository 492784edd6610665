"""Grids that compare the systems of a table: what differs between them, and which differences are significant."""

from collections.abc import Sequence
from typing import Any, get_args

from nmt.config.system import System
from nmt.config.types import Strict
from nmt.plan.systems import flatten
from nmt.report.cells import DISAGREE, NONE, is_own, p_value, search_settings, signed, statistic
from nmt.report.grid import Grid, telling
from nmt.system.files import Json

LEFT_OUT = " Of a part that some systems lack, they are those that are not the default."


def ablations(data: Json) -> Grid:
    """The settings that differ between the systems of a table, beside BLEU on each test set; no row if none differs."""
    rows = [row for row in data["rows"] if row.get("system")]
    configs = {name: data["systems"][name]["config"] for name in dict.fromkeys(row["system"] for row in rows)}
    differing = _differing(list(configs.values()))
    ways = {"checkpoint": [row["at"] for row in rows], "search": [search_settings(row["decoding"]) for row in rows]}
    partial = len({frozenset(config) for config in configs.values()}) > 1
    used = {name: values for name, values in ways.items() if len(set(values)) > 1}
    directed = any(row["languages"] != configs[row["system"]]["languages"] for row in rows)
    keys = ["languages"] * ("languages" in telling(data["rows"]) and (directed or "languages" not in differing))
    tests = list(dict.fromkeys(row["test"] for row in rows))
    scores = [f"BLEU, {test}" for test in tests] if len(tests) > 1 else ["BLEU, ours"]
    lines = dict[tuple[str, ...], dict[str, str]]()
    for n, row in enumerate(rows if differing else []):
        settings = (configs[row["system"]].get(key, NONE) for key in differing)
        cells = (row["label"], *(row[key] or NONE for key in keys), *settings, *(values[n] for values in used.values()))
        lines.setdefault(cells, {})[row["test"]] = statistic(row["scores"]["tokenised"]["bleu"])
    body = [[*cells, *(bleu.get(test, NONE) for test in tests)] for cells, bleu in lines.items()]
    direction = "direction" if "languages" in differing else "languages"
    header = ["system", *(direction for _ in keys), *differing, *used, *scores]
    note = f"The columns are the settings that differ.{LEFT_OUT * partial}"
    return Grid("ablations", "Ablations at a glance", header, body, [note])


def _differing(configs: Sequence[dict[str, str]]) -> list[str]:
    """The keys that do not have the same value in all configurations.

    Of a part that some systems lack, such as back-translation, only what is not the default; all of it if nothing is.
    """
    keys, defaults = dict.fromkeys(key for config in configs for key in config), _defaults(System, "")
    parts = {key: [other for other in keys if other.startswith(f"{key}.")] for key in keys}
    differing = {key for key in keys if len({c.get(key, defaults.get(key, NONE)) for c in configs}) > 1}
    for part, inner in parts.items():
        if inner:  # the part itself is null where it is missing
            differing -= {part}
            differing |= set() if differing & set(inner) else set(inner)
    return [key for key in keys if key in differing]


def _defaults(kind: Any, prefix: str) -> dict[str, str]:
    """The default values below a key, of all kinds that its value may have; keys joined by dots."""
    values = dict[str, str]()
    if not (isinstance(kind, type) and issubclass(kind, Strict)):
        return {key: value for part in get_args(kind) for key, value in _defaults(part, prefix).items()}
    for name, field in kind.model_fields.items():
        key = f"{prefix}{name}"
        values |= _defaults(field.annotation, f"{key}.")
        if not field.is_required():
            default = field.default
            values |= flatten(default.model_dump(mode="json") if isinstance(default, Strict) else default, key)
    return values


def comparisons(data: Json) -> Grid:
    """Differences between rows with their p-values."""
    rows = [row for row in data["rows"] if row.get("against")]
    keys = telling(data["rows"])
    several = any(len(_pairs(row)) > 1 for row in rows)
    delta = "difference" if is_own(data) else "Δ"
    header = ["system", *keys.values(), "compared with", f"{delta} {'of ' * is_own(data)}BLEU, detokenised", "p"]
    body = [
        [
            row["label"],
            *(row[key] or NONE for key in keys),
            row["against"]["label"],
            signed(row["against"]["difference"], 2),
            _p(row),
        ]
        for row in rows
    ]
    notes = [
        "Paired bootstrap of detokenised BLEU. p is one-sided, as sacrebleu computes it: the probability of such a "
        "difference if both systems are equally good. If one system writes lower case, both outputs are lowercased."
    ]
    if several:
        header.append(f"{delta} (p) of each pair")
        for cells, row in zip(body, rows, strict=True):
            cells.append(", ".join(f"{signed(p['difference'])} ({p_value(p['p_value'])})" for p in _pairs(row)))
        notes.append(
            "Pairs: models with the same seed; if the seeds differ, as for an ensemble, each model with each. "
            f"{'The difference' if is_own(data) else 'Δ'} is the mean over the pairs. p is the largest of the pairs, "
            f'or "{DISAGREE}" where the pairs disagree about which system is better.'
        )
    return Grid("comparisons", "Comparisons", header, body, notes)


def _pairs(row: Json) -> list[Json]:
    """The pairs of models of a comparison; tables of earlier versions have one pair, of the first seeds."""
    return list(row["against"].get("pairs", [row["against"]]))


def _p(row: Json) -> str:
    """The p-value of a comparison, or that its pairs disagree about which system is better."""
    differences = [pair["difference"] for pair in _pairs(row)]
    return DISAGREE if min(differences) < 0 < max(differences) else p_value(row["against"]["p_value"])
