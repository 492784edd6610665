"""Grids of a table's corpora: pairs and words, what filters dropped, and subwords."""

from nmt.report.cells import number
from nmt.report.grid import Grid
from nmt.system.files import Json
from nmt.text.languages import is_spaceless

SPACELESS = "In languages written without spaces, characters are counted in place of words."
SHOWN, LENGTH = 3, 70
"""Examples of a filter that the page shows, and most characters of each side. The table's JSON has all of them."""


def data_grid(data: Json) -> Grid:
    """Sentences and words of each split before and after cleaning."""
    pairs = list(dict.fromkeys(corpus["languages"] for corpus in data["data"]))
    header = ["corpus", *(["languages"] if len(pairs) > 1 else []), "used by", "split", "pairs", "kept", "dropped"]
    header += [
        f"{side} {'characters' if is_spaceless(side) else 'words'} per sentence"
        for side in (pairs[0].split("-") if len(pairs) == 1 else ("source", "target"))
    ]
    rows = []
    for corpus in data["data"]:
        for split, counts in corpus["splits"].items():
            shared = 0 if data["limit"] else counts.get("shared", 0)  # counted before a trial cuts the splits
            reasons = {**counts["dropped"], "shared with a held-out split": shared}
            reasons |= {f"too long for {system}": count for system, count in counts.get("too_long", {}).items()}
            dropped = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
            kept = counts["kept"]
            words = [number(count / kept if kept else None, 1) for count in counts["words"].values()]
            name = corpus["corpus"] + (" (synthetic)" if corpus["synthetic"] else "")
            totals = [number(counts["read"] + shared, 0), number(kept, 0)]
            head = [
                name,
                *([corpus["languages"]] if len(pairs) > 1 else []),
                ", ".join(counts.get("systems", corpus["systems"])),
            ]
            rows.append([*head, split, *totals, dropped or "none", *words])
    licences = {f"{corpus['corpus']}: licence: {corpus['licence']}." for corpus in data["data"] if corpus["licence"]}
    notes = [SPACELESS] if any(map(is_spaceless, "-".join(pairs).split("-"))) else []
    return Grid("data", "Data", header, rows, [*notes, *sorted(licences), *_near(data)])


def _near(data: Json) -> list[str]:
    """Say which held-out text nearly equals training text."""
    return [
        f"{corpus['corpus']}: {counts['near_training']:,} of {counts['read']:,} pairs of {split} have a sentence that "
        "nearly equals one of the training text (the same, or a Jaccard similarity of 0.85 by trigrams)."
        for corpus in data["data"] for split, counts in corpus["splits"].items() if counts.get("near_training")
    ]  # fmt: skip


def filters_grid(data: Json) -> list[Grid]:
    """What each filter of training pairs dropped, with examples; nothing if no corpus is filtered."""
    header = ["corpus", "languages", "used by", "filter", "pairs", "dropped", "dropped (%)", "examples"]
    rows = []
    for corpus in data["data"]:
        train = corpus["splits"].get("train", {})
        left = train.get("kept", 0) + sum(each["dropped"] for each in train.get("filters", []))
        for each in train.get("filters", []):
            share = 100 * each["dropped"] / left if left else None
            shown = " · ".join(f"{_short(source)} → {_short(target)}" for source, target in each["examples"][:SHOWN])
            head = [corpus["corpus"], corpus["languages"], ", ".join(train.get("systems", corpus["systems"]))]
            counts = [number(left, 0), number(each["dropped"], 0), number(share, 2)]
            rows.append([*head, each["name"], *counts, shown or "none"])
            left -= each["dropped"]
    notes = ["Filters run in this order. A pair that one drops does not reach the next."]
    return [Grid("filters", "Filters", header, rows, notes)] if rows else []


def _short(text: str) -> str:
    return text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"


def subwords_grid(data: Json) -> Grid:
    """Subwords per sentence and per word of each split."""
    header = ["corpus", "languages", "subwords", "used by", "split"]
    header += [f"{side} subwords {unit}" for unit in ("per sentence", "per word") for side in ("source", "target")]
    rows = []
    for encoded in data["subwords"]:
        kind = f"{encoded['kind']} {encoded['size']:,}" + ("" if encoded["joint"] else " per side")
        head = [encoded["corpus"], encoded["languages"], kind, ", ".join(encoded["systems"])]
        for split, sides in encoded["splits"].items():
            averages = [side[unit] for unit in ("a_sentence", "a_word") for side in sides.values()]
            rows.append([*head, split, *(number(average, 2) for average in averages)])
    return Grid("subwords", "Subwords", header, rows)
