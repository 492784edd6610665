"""What every architecture offers to training, search and those who look at its attention."""

from abc import ABC, abstractmethod
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.models.attention import VECTOR
from nmt.system.machine import kernels_without_shapes


class TranslationModel(nn.Module, ABC):
    """An encoder-decoder; the decoder interface of search is `start`, `step`, `reorder` and `keep`.

    Features of the sentences' pictures (B, R, C) are for multimodal models, to which None is a blank picture; others do
    not look at them.
    """

    config: TransformerConfig | MultimodalConfig | RecurrentConfig
    pad: int
    waits: bool  # whether `forward` asks the GPU for a number and waits for it, as for sentences' lengths
    projection: nn.Linear  # decoder outputs to scores of the target vocabulary; search asks `log_probabilities` instead

    @property
    def longest(self) -> int:
        """Most positions a sentence may take, BOS and EOS included."""
        return self.config.max_positions

    @abstractmethod
    def forward(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> Tensor:
        """Teacher forcing: source ids (B, S), target ids from BOS on (B, T); gives decoder outputs (B, T, D)."""

    @abstractmethod
    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """Where each position looked under teacher forcing, by sub-layer.

        Args:
            source: ids (B, S).
            target: ids from BOS on (B, T).
            images: features (B, R, C).

        Returns:
            ``source`` (B, L, H, T, S): the decoder over the source; a Transformer also ``encoder`` (B, L, H, S, S) and
            ``decoder`` (B, L, H, T, T), and a multimodal one ``image`` (B, L, H, T, R). L layers, H heads, 1 each where
            there is no choice. Empty without attention.
        """

    @abstractmethod
    def start(self, source: Tensor, images: Tensor | None = None) -> Any:
        """Encode source ids (B, S) for search; B sentences, one row each."""

    @abstractmethod
    def step(self, state: Any, last: Tensor) -> tuple[Tensor, Any]:
        """Feed each row's last id (R,); gives log-probabilities of the next (R, V), and the new state."""

    def lay_out_for_search(self) -> Self:
        """Lay out the weights of linear layers so that MKL multiplies the few rows of a search fast.

        By input, since it packs weights that lie by output anew for each product. The projection is filled up: on some
        processors, rows of scores that are no multiple of `VECTOR` long are written half as fast. For a model that is
        trained no more: weights that were tied to an embedding are a copy then, and `projection` gives columns that
        belong to no piece, which `log_probabilities` leaves out.
        """
        weight = self.projection.weight
        self.projection.weight = nn.Parameter(F.pad(weight, (0, 0, 0, -len(weight) % VECTOR)), requires_grad=False)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t(), requires_grad=False)
        return self

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """Decoder outputs (R, D) to log-probabilities of the next pieces (R, V), for `step`: without gradients."""
        with kernels_without_shapes(hidden.shape[0] == torch.get_num_threads() == 1):  # else the others are the faster
            scores, vocabulary = self.projection(hidden).float(), self.projection.out_features
        if scores.shape[1] == vocabulary:
            return torch.log_softmax(scores, -1, out=scores)  # in place: half the memory to go through
        scores[:, vocabulary:] = -torch.inf
        return torch.log_softmax(scores, -1, out=scores)[:, :vocabulary]

    @abstractmethod
    def reorder(self, state: Any, rows: Tensor) -> Any:
        """Make row i what row rows[i] was; every row stays within its sentence."""

    @abstractmethod
    def keep(self, state: Any, sentences: Tensor) -> Any:
        """Keep only these sentences' encodings (their rows are chosen by `reorder`)."""
