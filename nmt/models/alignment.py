"""Attention of a recurrent decoder, global or local (Bahdanau and others 2015; Luong and others 2015, section 3)."""

import torch
from torch import Tensor, nn

from nmt.config.models import AttentionConfig


class Alignment(nn.Module):
    """Attention weights from the scores of decoder states and source encodings; local attention adds a window."""

    def __init__(self, config: AttentionConfig, width: int, memory: int) -> None:
        super().__init__()
        self.config = config
        self.keys = nn.Identity() if config.score == "dot" else nn.Linear(memory, width, bias=False)
        if config.score == "additive":
            self.queries, self.energy = nn.Linear(width, width), nn.Linear(width, 1, bias=False)
        if config.kind == "local-p":
            inner, bias = config.centre_width or width, config.centre_width is not None
            self.centre = nn.Sequential(nn.Linear(width, inner, bias), nn.Tanh(), nn.Linear(inner, 1, bias))
        self.padding = config.window if config.pad_source else 0  # positions before the sentence

    def forward(self, states: Tensor, keys: Tensor, real: Tensor, step: Tensor) -> Tensor:
        """Compute the attention weights of decoder states.

        Local attention sees only the source positions s with |s - p| <= window. In local-p, the model predicts the
        centre p (eq. 9: length · sigmoid(v·tanh(Wd)), counted from 0). In local-m, p is the number of the step, or the
        last source position if that is smaller. Local-p multiplies the softmax over the window by a Gaussian around p
        with deviation window / 2 (eq. 10), so its weights sum to less than 1. With pad_source, the source starts with
        `padding` more positions, the window has 2 window + 1 places around the rounded centre, and its places outside
        the sentence have a score of 0.

        Args:
            states: decoder states (B, T, D).
            keys: source encodings after `keys` (B, S, D).
            real: mask of the source (B, S), true where there is no padding.
            step: step of each state, from 0 (T,).

        Returns:
            Weights (B, T, S), 0 outside the window and, without pad_source, on padding.
        """
        scores, visible = self._scores(states, keys), real[:, None]
        if self.config.kind == "global":
            return torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)
        lengths = real.sum(-1, keepdim=True)  # (B, 1)
        positions = torch.arange(keys.shape[1], device=keys.device) - self.padding
        centres = self._centres(states, lengths, step)[..., None]  # (B, T, 1)
        distance, window = positions - centres, self.config.window  # (B, T, S)
        if self.padding:
            scores = scores.masked_fill(~visible, 0.0)
            visible = (positions - centres.round()).abs() <= window
        else:
            visible = visible & (distance.abs() <= window)
        weights = torch.softmax(scores.masked_fill(~visible, -torch.inf), -1)
        return weights * torch.exp(-2 * (distance / window) ** 2) if self.config.kind == "local-p" else weights

    def _scores(self, states: Tensor, keys: Tensor) -> Tensor:
        """Compute the scores (B, T, S)."""
        if self.config.score != "additive":
            return states @ keys.transpose(1, 2)
        return self.energy(torch.tanh(self.queries(states)[:, :, None] + keys[:, None]))[..., 0]

    def _centres(self, states: Tensor, lengths: Tensor, step: Tensor) -> Tensor:
        """Compute the centres of the windows (B, T) in sentences of these lengths (B, 1)."""
        if self.config.kind == "local-p":
            return lengths * torch.sigmoid(self.centre(states)[..., 0])
        return torch.minimum(step.expand(states.shape[:2]), lengths - 1)
