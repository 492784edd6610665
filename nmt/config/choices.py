"""Names that both the settings and the command line offer; in their own module because pydantic is slow to import."""

from typing import Literal, get_args

Network = Literal["resnet50", "efficientnet-lite0"]
NETWORKS: tuple[Network, ...] = get_args(Network)
Quantization = Literal[
    "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32"
]
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)
#: Metrics that are computed only for the tables that ask for them.
ON_REQUEST = ("bleu1", "bleu2", "bleu3", "meteor", "meteor_nltk")
Tokenizer = Literal["13a", "intl", "zh", "char", "none", "moses"]
TOKENIZERS: tuple[Tokenizer, ...] = get_args(Tokenizer)
