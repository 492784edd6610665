"""Recurrent encoder-decoder: LSTM or GRU layers, with or without attention (Luong and others 2015)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from nmt.config.models import RecurrentConfig
from nmt.models.alignment import Alignment
from nmt.models.base import TranslationModel
from nmt.models.dropout import Dropout
from nmt.models.embedding import Embedding
from nmt.models.masked_rnn import masked_rnn, run
from nmt.system.machine import kernels_without_shapes

Cells = tuple[Tensor, ...]  # a layer's hidden state, and an LSTM's cell state: each (1, R, D)


class Layers(nn.Module):
    """LSTM or GRU layers with dropout between them, and residuals from the second on if asked for."""

    def __init__(self, config: RecurrentConfig, inputs: int, bidirectional: bool = False) -> None:
        super().__init__()
        kind = nn.LSTM if config.cell == "lstm" else nn.GRU
        outputs = config.width * (1 + bidirectional)
        sizes = [inputs] + [outputs] * (config.layers - 1)
        layers = (kind(size, config.width, batch_first=True, bidirectional=bidirectional) for size in sizes)
        self.layers = cast("Sequence[nn.LSTM | nn.GRU]", nn.ModuleList(layers))
        self.residual, self.dropout = config.residual, Dropout(config.dropout.layers)

    def forward(self, x: Tensor, before: Sequence[Cells] | Tensor) -> tuple[Tensor, list[Cells]]:
        """Run all layers over all steps.

        Args:
            x: (B, T, inputs).
            before: each layer's state before the first step; or a mask (B, T), true where there is no padding: then the
                states before are zeros.

        Returns:
            The last layer's outputs (B, T, outputs), and each layer's state after its sentence's last step.
        """
        after = []
        for number, layer in enumerate(self.layers):
            given = self.dropout(x) if number else x
            if isinstance(before, Tensor):
                output, state = masked_rnn(layer, given, before)
            else:
                output, state = run(layer, given, before[number])
            x = x + output if self.residual and number else output
            after.append(state)
        return x, after


@dataclass(frozen=True)
class Source:
    """Encoded sentences."""

    memory: Tensor  # the encoder's outputs, (B, S, E)
    keys: Tensor  # what attention compares states with, (B, S, D)
    real: Tensor  # no padding, (B, S)
    last: Tensor  # the encoder's last output, (B, E)

    def only(self, sentences: Tensor) -> "Source":
        """These sentences of it."""
        parts = (self.memory, self.keys, self.real, self.last)
        return Source(*(part.index_select(0, sentences) for part in parts))


@dataclass(frozen=True)
class State:
    """What the decoder remembers between steps."""

    position: int
    layers: Sequence[Cells]
    fed: Tensor | None  # the last step's output, with input feeding: (R, 1, D)
    source: Source


class Recurrent(TranslationModel):
    """Encoder, decoder, attention, output projection (without a bias)."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int, pad: int) -> None:
        super().__init__()
        self.config, self.pad, self.waits = config, pad, True
        width, memory = config.width, config.width * (1 + config.bidirectional)
        self.source_embedding, self.target_embedding = (
            Embedding(size, width, pad, math.sqrt(width), config.dropout.embedding)
            for size in (source_vocabulary, target_vocabulary)
        )
        if config.tied == "all":
            self.target_embedding.pieces = self.source_embedding.pieces
        self.encoder = Layers(config, width, config.bidirectional)
        if config.bidirectional:  # from both directions' last states to the decoder's first, a layer and state each
            parts = config.layers * (2 if config.cell == "lstm" else 1)
            self.bridge = nn.ModuleList(nn.Linear(memory, width) for _ in range(parts))
        if config.attention.kind == "none":
            self.decoder = Layers(config, width + memory)
        else:
            self.decoder = Layers(config, width + width * config.input_feeding)
            self.alignment = Alignment(config.attention, width, memory)
            self.combine = nn.Linear(width + memory, width)
        self.dropout = Dropout(config.dropout.output)
        self.projection = nn.Linear(width, target_vocabulary, bias=False)
        if config.tied == "none":
            nn.init.normal_(self.projection.weight, std=width**-0.5)
        else:
            self.projection.weight = self.target_embedding.pieces.weight

    def start(self, source: Tensor, images: Tensor | None = None) -> State:
        """See `TranslationModel.start`."""
        real = source != self.pad
        memory, states = self.encoder(self.source_embedding(source), real)
        keys = memory if self.config.attention.kind == "none" else self.alignment.keys(memory)
        # The directions of a layer's last state (1 or 2, B, D) side by side: each (1, B, E)
        layers = [tuple(torch.cat(part.unbind(0), -1)[None] for part in cells) for cells in states]
        encoded = Source(memory, keys, real, layers[-1][0][0])
        if self.config.bidirectional:
            layers = self._bridged(layers)
        fed = memory.new_zeros(len(source), 1, self.config.width) if self.config.input_feeding else None
        return State(0, layers, fed, encoded)

    def _bridged(self, layers: Sequence[Cells]) -> list[Cells]:
        bridge = iter(self.bridge)
        return [tuple(torch.tanh(next(bridge)(part)) for part in cells) for cells in layers]

    def forward(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> Tensor:
        """Source ids (B, S), target ids from BOS on (B, T); gives decoder outputs (B, T, D).

        In training each position after the first is, with probability 1 - teacher_forcing, fed the word that the model
        itself finds most likely there (Bengio and others 2015, section 2.4), through which no gradient flows.
        """
        return self.dropout(self._decode(source, target)[0])

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """See `TranslationModel.attentions`."""
        _, weights = self._decode(source, target)
        return {} if weights is None else {"source": weights[:, None, None]}

    def _decode(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Outputs (B, T, D) and weights (B, T, S) of all steps; at once where no step waits for the one before."""
        state, words = self.start(source), self.target_embedding(target)
        if self.config.input_feeding or (self.training and self.config.teacher_forcing < 1):
            return self._decode_by_steps(state, words)
        hidden, _ = self.decoder(self._inputs(words, state), state.layers)
        return self._attend(hidden, state.source)

    def _decode_by_steps(self, state: State, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """As `_decode`, one step after another; what does not feed the next step is done for all at once."""
        forced = self.config.teacher_forcing if self.training else 1.0
        own = torch.rand(words.shape[:2], device=words.device) >= forced
        steps: list[Tensor] = []
        fed: list[tuple[Tensor, Tensor | None]] = []
        for t, word in enumerate(torch.split(words, 1, 1)):  # (B, 1, D)
            rows = own[:, t].nonzero()[:, 0]
            if t and len(rows):
                guessed = self._guess(steps[-1][rows], state.source.only(rows), t - 1)
                word = word.index_copy(0, rows, self.target_embedding.of_few(guessed).to(word.dtype))
            hidden, layers = self.decoder(self._inputs(word, state), state.layers)
            steps.append(hidden)
            state = replace(state, position=t + 1, layers=layers)
            if self.config.input_feeding:
                fed.append(self._attend(hidden, state.source, t))
                state = replace(state, fed=fed[-1][0])
        if not fed:
            return self._attend(torch.cat(steps, 1), state.source)
        return tuple(torch.cat(parts, 1) for parts in zip(*fed, strict=True))  # type: ignore[return-value]

    @torch.no_grad()
    def _guess(self, hidden: Tensor, source: Source, t: int) -> Tensor:
        """The model's own next word (R, 1) after states (R, 1, D) of step t."""
        return self.projection(self._attend(hidden, source, t)[0]).argmax(-1)

    def _inputs(self, words: Tensor, state: State) -> Tensor:
        """What the first layer sees: the word, and the encoder's last output or, with input feeding, the last output.

        Words (R, T, D), where R is a multiple of the B sentences; gives (R, T, inputs).
        """
        if state.fed is not None:
            return torch.cat([words, state.fed], -1)
        if self.config.attention.kind != "none":
            return words
        last = state.source.last.repeat_interleave(len(words) // len(state.source.last), 0)[:, None]
        return torch.cat([words, last.expand(-1, words.shape[1], -1)], -1)

    def _attend(self, hidden: Tensor, source: Source, first: int = 0) -> tuple[Tensor, Tensor | None]:
        """Outputs tanh(W[d; c]) (eq. 5) of states (B, T, D), the first at step ``first``, and weights (B, T, S).

        Without attention the states are the outputs.
        """
        if self.config.attention.kind == "none":
            return hidden, None
        step = torch.arange(first, first + hidden.shape[1], device=hidden.device)
        weights = self.alignment(hidden, source.keys, source.real, step)
        return self._combined(hidden, weights @ source.memory), weights

    def _combined(self, hidden: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.combine(torch.cat([hidden, context], -1)))

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """Feed each row's last id (R,); gives log-probabilities of the next (R, V), and the new state."""
        with kernels_without_shapes():
            hidden, layers = self.decoder(self._inputs(self.target_embedding(last[:, None]), state), state.layers)
            output = self._attend_in_groups(hidden, state)  # (R, 1, D)
        log_probs = self.log_probabilities(self.dropout(output[:, 0]))
        fed = None if state.fed is None else output
        return log_probs, replace(state, position=state.position + 1, layers=layers, fed=fed)

    def _attend_in_groups(self, hidden: Tensor, state: State) -> Tensor:
        """One step's states (R, 1, D) to outputs; a sentence's rows look at it together, so it is never copied."""
        if self.config.attention.kind == "none":
            return hidden
        source = state.source
        grouped = hidden.view(len(source.memory), -1, hidden.shape[-1])  # (B, R/B, D)
        step = torch.full(grouped.shape[1:2], state.position, device=hidden.device)
        weights = self.alignment(grouped, source.keys, source.real, step)
        return self._combined(grouped, weights @ source.memory).view_as(hidden)

    def reorder(self, state: State, rows: Tensor) -> State:
        """Make row i what row rows[i] was; every row stays within its sentence."""
        layers = [tuple(part.index_select(1, rows) for part in cells) for cells in state.layers]
        return replace(state, layers=layers, fed=None if state.fed is None else state.fed.index_select(0, rows))

    def keep(self, state: State, sentences: Tensor) -> State:
        """Keep only these sentences' encodings (their rows are chosen by `reorder`)."""
        return replace(state, source=state.source.only(sentences))
