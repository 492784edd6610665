"""Names that settings and command line both choose from, apart from the settings, whose library is slow to import."""

from typing import Literal, get_args

#: Image networks.
Network = Literal["resnet50", "efficientnet-lite0"]
NETWORKS: tuple[Network, ...] = get_args(Network)
#: Metrics that a row is scored by besides those of every row, where its table asks for them.
ON_REQUEST = ("bleu1", "bleu2", "bleu3", "meteor", "meteor_nltk")
