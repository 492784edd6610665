"""Model cards: a README that says what a model is, what it was trained on, how good it is, and how to run it.

The form is that of Hugging Face: YAML in front, then Markdown. Everything comes from the provenance of the model. Its
texts may be a stranger's, so they are shown as code, in one line, without invisible characters.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from nmt.corpora.catalogue import declared, names
from nmt.system.files import Json, read_json

NAME = "README.md"
LONGEST = 300
"""Maximum number of characters of a text from the provenance."""
UNKNOWN = "not recorded"
RUN = """\
```bash
nmt translate FOLDER text.txt
```

FOLDER is this folder. `nmt serve FOLDER` opens a page, and `nmt export` converts the model for other programs."""


def model_card(folder: Path, run: str = RUN, library: str = "nmt", scores: Sequence[Json] | None = None) -> str:
    """Return the card of a model.

    Args:
        folder: a folder with ``provenance.json`` and ``cleaning.json``.
        run: how to run the model, as Markdown.
        library: name of the program that runs it.
        scores: content of each ``scores.json`` of the model; None: they cannot be known yet.

    Raises:
        DataError: a file is missing or not JSON.
    """
    made, recipe = read_json(folder / "provenance.json"), read_json(folder / "cleaning.json")
    pairs = [pair.split("-") for pair in str(recipe.get("languages", "")).split(",")]
    codes = dict.fromkeys(code for pair in pairs for code in pair)
    front: Json = {
        "language": list(map(_plain, codes)), "pipeline_tag": "translation", "library_name": library,
        "tags": ["translation", "neural-machine-translation"],
    }  # fmt: skip
    if scores:
        front["model-index"] = [{"name": _name(made), "results": [_result(score) for score in scores]}]
    sections = {
        "Run": run, "Scores": _scores(made, scores, len(pairs) > 1), "Data": _data(made), "Training": _training(made),
        "Text": _text(recipe), "Use and limits": _limits(made),
    }  # fmt: skip
    head = f"---\n{yaml.safe_dump(front, allow_unicode=True, sort_keys=False)}---\n\n"
    title = f"# {_code(_name(made))}: {', '.join(' → '.join(map(_code, pair)) for pair in pairs)}\n\n"
    return head + title + "\n\n".join(f"## {name}\n\n{text}" for name, text in sections.items()) + "\n"


def scores_beside(model: Path) -> list[Json]:
    """Return the content of each ``scores.json`` that the workflow wrote for a model directory, by its weights."""
    made = read_json(model / "provenance.json")
    found = [read_json(path) for path in sorted(model.resolve().parent.glob("*/*/scores.json"))]
    return [s for s in found if (_get(s, "provenance", "weights_sha256") or "") == made.get("weights_sha256", None)]


def _name(made: Json) -> str:
    return _plain(f"{made.get('table', 'model')}/{made.get('system', 'system')}, seed {made.get('seed', UNKNOWN)}")


def _scores(made: Json, scores: Sequence[Json] | None, several: bool) -> str:
    if scores is None:
        table = _code(f"results/tables/{made.get('table', 'TABLE')}.md")
        return (
            "Test sets are scored after this folder is written. The scores are in `TEST/DECODING/scores.json` beside "
            f"this folder, and in {table}. `nmt card FOLDER` prints this card with them." + _validation(made)
        )
    if not scores:
        return f"No scores of these weights were found.{_validation(made)}"
    rows = ["| test set | search | BLEU, detokenised | chrF | BLEU, tokenised |", "|---|---|---|---|---|"]
    metrics = (("detokenised", "bleu"), ("detokenised", "chrf"), ("tokenised", "bleu"))
    for score in scores:
        values = [_interval(score, *metric) for metric in metrics]
        languages = f" {score.get('languages')}" if several else ""
        test = _code(f"{score.get('test')}{languages}").replace("|", "/")  # it would end the cell
        rows.append(f"| {' | '.join([test, _search(score.get('decoding')), *values])} |")
    signatures = dict.fromkeys(_code(_get(score, "detokenised", "bleu", "signature")) for score in scores)
    return "\n".join(rows) + f"\n\nIn brackets: 95 % bootstrap interval. sacrebleu: {', '.join(signatures)}."


def _validation(made: Json) -> str:
    loss, bleu = made.get("valid_loss"), made.get("valid_bleu")
    known = [f"loss {_number(loss, 3)}"] if loss is not None else []
    known += [f"BLEU {_number(bleu, 1)} (greedy, tokenised)"] if bleu is not None else []
    return f"\n\nOn the validation text: {', '.join(known)}." if known else ""


def _search(decoding: Any) -> str:
    beam, penalty = (_get(decoding, "decoding", key) for key in ("beam", "length_penalty"))
    return f"beam {_number(beam)}, length penalty {_number(penalty, 2)}"


def _interval(score: Json, protocol: str, metric: str) -> str:
    value, low, high = (_get(score, protocol, metric, key) for key in ("score", "low", "high"))
    return _number(value, 2) + (f" [{_number(low, 1)}, {_number(high, 1)}]" if low is not None else "")


def _result(score: Json) -> Json:
    """A result of the front matter's ``model-index``."""
    bleu, name = _get(score, "detokenised", "bleu", "score"), _plain(f"BLEU, {_search(score.get('decoding'))}")
    return {
        "task": {"type": "translation"},
        "dataset": {"name": _plain(score.get("test")), "type": _plain(score.get("test"))},
        "metrics": [{"type": "bleu", "name": name, "value": round(float(bleu), 2)}] if _is_number(bleu) else [],
    }


def _data(made: Json) -> str:
    corpus = made.get("corpus")
    pairs = {split: _get(made, "data", split, "sentences") for split in ("train", "valid")}
    lines = [
        f"- corpus: {_code(corpus)}",
        f"- licence of the text: {_code(made.get('licence') or _licence(corpus))}",
        f"- pairs: {_number(pairs['train'])} for training, {_number(pairs['valid'])} for validation",
        f"- subwords: {_code(_get(made, 'subwords', 'subwords', 'kind'))}, "
        f"{_number(_get(made, 'subwords', 'subwords', 'size'))} pieces",
    ]
    if corpus in ("scenes", "copy"):
        lines.append("- the text is synthetic: generated sentences, far easier than real text")
    return "\n".join(lines)


def _licence(corpus: Any) -> str:
    """The licence of a corpus that nmt knows."""
    known, corpus = declared(), str(corpus)
    if corpus in known:
        sources = [source for split in known[corpus].splits.values() for source in split]
        licences = dict.fromkeys(source.licence or known[corpus].licence for source in sources)
        return "; ".join(filter(None, licences)) or UNKNOWN
    return "CC0-1.0" if corpus in names() else UNKNOWN


def _training(made: Json) -> str:
    model, hardware = _get(made, "config", "model"), made.get("hardware")
    machine = _get(hardware, "gpu") or _get(hardware, "processor")
    lines = [
        f"- architecture: {_code(_get(model, 'kind'))}, {_number(_get(model, 'layers'))} layers, width "
        f"{_number(_get(model, 'width'))}; {_number(made.get('parameters'))} parameters",
        f"- checkpoint: {_code(made.get('selection'))}, up to update {_number(made.get('update'))} "
        f"(epoch {_number(made.get('epoch'), 1)})",
        f"- time: {_number(made.get('training_seconds'))} s of training on {_code(machine)}",
        f"- code: nmt {_code(made.get('code_version'))}, torch {_code(_get(made, 'versions', 'torch'))}",
    ]
    if members := made.get("members"):
        lines.append(f"- an ensemble of {len(members) if isinstance(members, list) else UNKNOWN} models")
    if made.get("images"):
        lines.append("- trained with pictures; without them it sees blank ones")
    return "\n".join([*lines, "", "`provenance.json` has everything, `cleaning.json` the recipe of the text."])


def _text(recipe: Json) -> str:
    steps = recipe.get("cleaning")
    case = "lowercases" if _get(steps, "lowercase") in (True, None) else "keeps case"
    tokens = "tokenises (Moses)" if _get(steps, "tokenize") in ("moses", None) else "does not tokenise"
    more = "" if _get(steps, "transliterate") in ("none", None) else " It writes Devanagari in Latin letters inside."
    return f"The model takes and gives raw text. Its recipe {case} and {tokens} the text before translation.{more}"


def _limits(made: Json) -> str:
    longest = _get(made, "config", "model", "max_positions")
    return (
        "For research and for text like that of its corpus. It translates sentence by sentence, without context. Other "
        "kinds of text give worse translations than the scores say. It can write wrong, invented or offensive "
        f"text; check its output before use. Longer sentences than {_number(longest)} positions are translated in "
        "parts. The licence of its text may limit its use."
    )


def _get(value: Any, *keys: str) -> Any:
    """The value under a path of keys; None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any, digits: int = 0) -> str:
    return f"{value:,.{digits}f}" if _is_number(value) else UNKNOWN


def _plain(value: Any) -> str:
    """A text in one line, of visible characters."""
    if value is None:
        return UNKNOWN
    text = "".join(c for c in " ".join(str(value).split()) if c.isprintable())
    return text[:LONGEST] or UNKNOWN


def _code(value: Any) -> str:
    """A text as code, where Markdown, HTML and links mean nothing."""
    return f"`{_plain(value).replace('`', chr(39))}`"
