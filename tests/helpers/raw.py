"""Raw corpora, as the download stage writes them."""

import json
from pathlib import Path

Lines = list[tuple[str, str]]


def write_raw(folder: Path, **splits: Lines) -> Path:
    """A raw folder as the download stage writes it, in English and German."""
    folder.mkdir()
    for split, pairs in splits.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")
    corpus = {"corpus": "own", "languages": "en-de", "splits": {split: {} for split in splits}}
    (folder / "corpus.json").write_text(json.dumps(corpus))
    return folder
