"""Common interface of all architectures, for training, search and attention maps."""

from abc import ABC, abstractmethod
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import ModelConfig
from nmt.models.attention import VECTOR
from nmt.system.errors import ConfigError
from nmt.system.machine import pytorch_kernels


class Decoder(ABC):
    """Interface of a model or an ensemble for search.

    A *step* is one position of the decoder. Rows are grouped by sentence, with the same number for each sentence. Only
    multimodal models use the features of pictures (B, R, C); for them, None means blank pictures.
    """

    @property
    @abstractmethod
    def longest(self) -> int:
        """Maximum number of positions in a sentence, BOS and EOS included."""

    @abstractmethod
    def start(self, source: Tensor, images: Tensor | None = None) -> Any:
        """Encode padded ids (B, S) and start a search; return its state with one row per sentence."""

    @abstractmethod
    def step(self, state: Any, last: Tensor) -> tuple[Tensor, Any]:
        """Feed the last id of each row (R,); return log-probabilities of the next (R, V) and the new state."""

    @abstractmethod
    def reorder(self, state: Any, rows: Tensor) -> Any:
        """Reorder beams: new row i is old row ``rows[i]``, of the same sentence."""

    @abstractmethod
    def keep(self, state: Any, sentences: Tensor) -> Any:
        """Keep only the encodings of these sentences, which may repeat; `reorder` then selects their rows."""

    @abstractmethod
    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the attention weights under teacher forcing, by sub-layer; search needs them for coverage alone.

        Args:
            source: ids (B, S).
            target: ids from BOS on (B, T).
            images: features (B, R, C).

        Returns:
            Weights for L layers and H heads (1 each for a recurrent model): ``source`` (B, L, H, T, S), the decoder's
            attention over the source. A Transformer adds ``encoder`` (B, L, H, S, S) and ``decoder``
            (B, L, H, T, T). A multimodal model may add ``image`` (B, L, H, T, R). Empty for a model without attention.
        """


class TranslationModel(nn.Module, Decoder):
    """Encoder-decoder model."""

    config: ModelConfig
    pad: int  # id of padding
    waits_for_gpu = True  # whether `forward` reads a number from the GPU, e.g. sentence lengths; CUDA graphs forbid it
    activation_checkpointing = False  # whether a training computes layers again for the backward pass (`Training`)
    projection: nn.Linear  # maps decoder outputs to scores of the target vocabulary; search uses `log_probabilities`

    @property
    def longest(self) -> int:
        """See `Decoder.longest`."""
        return self.config.max_positions

    @abstractmethod
    def forward(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> Tensor:
        """Run the model with teacher forcing.

        Args:
            source: ids (B, S).
            target: ids from BOS on (B, T).
            images: features (B, R, C).

        Returns:
            Decoder outputs (B, T, D).
        """

    def forward_watched(
        self, source: Tensor, target: Tensor, images: Tensor | None, layer: int
    ) -> tuple[Tensor, Tensor]:
        """Run the model with teacher forcing, and watch the attention of one decoder layer over the source.

        Only guided alignment calls this; a model that lacks it refuses guided alignment.

        Args:
            source: ids (B, S).
            target: ids from BOS on (B, T).
            images: features (B, R, C).
            layer: number of the layer, from 0; below 0 from the end. A recurrent model has only one.

        Returns:
            Decoder outputs (B, T, D), and weights (B, H, T, S) with their gradients, before dropout.

        Raises:
            ConfigError: the model lacks this method.
        """
        raise ConfigError(
            f"training.guided_alignment: expected a model with forward_watched, got {type(self).__name__}, which lacks "
            "it; leave guided_alignment out, or write the method"
        )

    def lay_out_for_search(self) -> Self:
        """Change the memory layout of the linear layers so that MKL multiplies the few rows of a search fast.

        The weights are stored by input, because MKL repacks weights stored by output for every product. The output
        projection is padded to a multiple of `VECTOR` rows, because some processors write other row lengths half as
        fast. Do not train the model after this call: tied weights are now copies, and `projection` returns padding
        columns, which `log_probabilities` removes.
        """
        weight = self.projection.weight
        filling = -len(weight) % VECTOR
        self.projection.weight = nn.Parameter(F.pad(weight, (0, 0, 0, filling)), requires_grad=False)
        if self.projection.bias is not None:
            self.projection.bias = nn.Parameter(F.pad(self.projection.bias, (0, filling)), requires_grad=False)
        for layer in self.modules():
            if isinstance(layer, nn.Linear) and isinstance(layer.weight, nn.Parameter):  # not computed from others
                layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t(), requires_grad=False)
        return self

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Compute log-probabilities of the next pieces (R, V) from decoder outputs (R, D), without gradients."""
        return log_probabilities(hidden, self.projection.weight, self.projection.bias, self.projection.out_features)


def log_probabilities(hidden: Tensor, weight: Tensor, bias: Tensor | None, vocabulary: int) -> Tensor:
    """Compute log-probabilities of the next pieces (R, V), without gradients.

    Args:
        hidden: decoder outputs (R, D).
        weight: weights of the projection (V or more, D).
        bias: its biases (V or more,), if any.
        vocabulary: number of pieces V; the rows after them are padding.
    """
    with pytorch_kernels(hidden.shape[0] == torch.get_num_threads() == 1):  # only then they are faster
        scores = F.linear(hidden, weight, bias).float()
    if scores.shape[1] == vocabulary:
        return torch.log_softmax(scores, -1, out=scores)  # in place, which halves the memory traffic
    scores[:, vocabulary:] = -torch.inf
    return torch.log_softmax(scores, -1, out=scores)[:, :vocabulary]
