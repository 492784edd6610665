"""Names that both the settings and the command line offer; in their own module because pydantic is slow to import."""

import re
from typing import Literal, get_args

LANGUAGE = r"[a-z]{2,3}(?:_[A-Z][a-z]{3})?(?:_(?:[A-Z]{2}|[0-9]{3}))?"
"""A language's tag: ISO 639 code, script and region, e.g. en, eng, zh_Hant, pt_BR."""
PAIR = f"{LANGUAGE}-{LANGUAGE}"
"""Source and target language."""
PAIRS = f"{PAIR}(?:,{PAIR})*"
"""The pairs of a model, one or several: en-de or en-de,en-fr,de-en."""
_SUBTAG = re.compile(r"(?<=[A-Za-z])[-_](?=(?:[A-Z][A-Za-z]{1,3}|[0-9]{3})(?![A-Za-z0-9]))")

Network = Literal["resnet50", "efficientnet-lite0"]
NETWORKS: tuple[Network, ...] = get_args(Network)
Quantization = Literal[
    "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32"
]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
Engine = Literal["torch", "ctranslate2", "auto"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
OnRequest = Literal["chrfpp", "spbleu", "bleu1", "bleu2", "bleu3", "meteor", "meteor_nltk", "language"]
#: Metrics that are computed only for the tables that ask for them.
ON_REQUEST: tuple[OnRequest, ...] = get_args(OnRequest)
Tokenizer = Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none", "moses"]
TOKENIZERS: tuple[Tokenizer, ...] = get_args(Tokenizer)


def joined_subtags(languages: str) -> str:
    """Join subtags by underscores, as a hyphen joins two languages: ``en-zh-Hant`` → ``en-zh_Hant``."""
    return _SUBTAG.sub("_", languages)
