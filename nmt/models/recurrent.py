"""Recurrent encoder-decoder: LSTM or GRU layers, with or without attention (Luong and others 2015)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config.models import RecurrentConfig
from nmt.models.alignment import Alignment
from nmt.models.base import TranslationModel
from nmt.models.embedding import Embedding
from nmt.models.fast_layers import Dropout
from nmt.models.masked_rnn import masked_rnn, run
from nmt.system.machine import pytorch_kernels

Cells = tuple[Tensor, ...]  # state of a layer: the hidden state and, for an LSTM, the cell state, each (1, R, D)


class Layers(nn.Module):
    """LSTM or GRU layers with dropout between them and optional residual connections from the second layer on."""

    def __init__(self, config: RecurrentConfig, inputs: int, bidirectional: bool = False) -> None:
        super().__init__()
        kind = nn.LSTM if config.cell == "lstm" else nn.GRU
        outputs = config.width * (1 + bidirectional)
        sizes = [inputs] + [outputs] * (config.layers - 1)
        layers = (kind(size, config.width, batch_first=True, bidirectional=bidirectional) for size in sizes)
        self.layers = cast("Sequence[nn.LSTM | nn.GRU]", nn.ModuleList(layers))
        self.residual, self.dropout = config.residual, Dropout(config.dropout.layers)

    def forward(self, x: Tensor, initial: Sequence[Cells] | Tensor) -> tuple[Tensor, list[Cells]]:
        """Run all layers over all positions.

        Args:
            x: inputs (B, T, inputs).
            initial: initial state of each layer; or a mask (B, T), false at padding, for initial states of zeros.

        Returns:
            The outputs of the last layer (B, T, outputs), and the state of each layer after the last position of the
            sentence.
        """
        final = []
        for number, layer in enumerate(self.layers):
            layer_input = self.dropout(x) if number else x
            if isinstance(initial, Tensor):
                output, state = masked_rnn(layer, layer_input, initial)
            else:
                output, state = run(layer, layer_input, initial[number])
            x = x + output if self.residual and number else output
            final.append(state)
        return x, final


@dataclass(frozen=True)
class Source:
    """Encoded sentences; with pad_source, S counts the padding that the encoder reads."""

    memory: Tensor  # (B, S, E) outputs of the encoder
    keys: Tensor  # (B, S, D) keys of the attention
    real: Tensor  # (B, S) false at padding
    last: Tensor  # (B, E) last output of the encoder

    def select(self, sentences: Tensor) -> "Source":
        """Return only the sentences of these indices."""
        parts = (self.memory, self.keys, self.real, self.last)
        return Source(*(part.index_select(0, sentences) for part in parts))


@dataclass(frozen=True)
class State:
    """State of the decoder between steps."""

    position: int  # number of the next step, from 0
    layers: Sequence[Cells]  # state of each layer
    fed: Tensor | None  # previous output (R, 1, D) or context (R, 1, E) for the next step; None without feeding
    source: Source


class Recurrent(TranslationModel):
    """Recurrent encoder and decoder, attention, and output projection."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int, pad: int) -> None:
        super().__init__()
        self.config, self.pad, self.waits_for_gpu = config, pad, True
        width, memory = config.width, config.width * (1 + config.bidirectional)
        scale = math.sqrt(width) if config.scale_embeddings else 1.0
        self.source_embedding, self.target_embedding = (
            Embedding(size, width, pad, scale, config.dropout.embedding)
            for size in (source_vocabulary, target_vocabulary)
        )
        if not config.scale_embeddings:
            for embedding in (self.source_embedding, self.target_embedding):
                nn.init.normal_(embedding.pieces.weight)
                nn.init.zeros_(embedding.pieces.weight[pad])
        if config.tied == "all":
            self.target_embedding.pieces = self.source_embedding.pieces
        self.encoder = Layers(config, width, config.bidirectional)
        if config.bidirectional:  # maps the final states of both directions to the decoder's initial states
            parts = config.layers * (2 if config.cell == "lstm" else 1)  # one bridge per layer and part of its state
            self.bridge = nn.ModuleList(nn.Linear(memory, width) for _ in range(parts))
        if config.attention.kind == "none":
            self.decoder = Layers(config, width + memory)
        else:
            self.decoder = Layers(config, width + width * config.input_feeding + memory * config.context_feeding)
            self.alignment = Alignment(config.attention, width, memory)
            self.combine = nn.Linear(width + memory, width)
        self.dropout = Dropout(config.dropout.output)
        self.projection = nn.Linear(width, target_vocabulary, config.output_bias)
        if config.tied != "none":
            self.projection.weight = self.target_embedding.pieces.weight
        elif not config.output_bias:
            nn.init.normal_(self.projection.weight, std=width**-0.5)

    def start(self, source: Tensor, images: Tensor | None = None) -> State:
        """See `TranslationModel.start`."""
        config, real = self.config, source != self.pad
        read = real  # what the encoder reads
        if config.attention.pad_source:
            before = config.attention.window
            source, real = F.pad(source, (before, before + 1), value=self.pad), F.pad(real, (before, before + 1))
            read = torch.arange(source.shape[1], device=source.device) < real.sum(1, keepdim=True) + 2 * before + 1
        memory, states = self.encoder(self.source_embedding(source), read)
        keys = memory if config.attention.kind == "none" else self.alignment.keys(memory)
        # Concatenate the directions of each final state: (directions, B, D) to (1, B, E).
        layers = [tuple(torch.cat(part.unbind(0), -1)[None] for part in cells) for cells in states]
        encoded = Source(memory, keys, real, layers[-1][0][0])
        if config.bidirectional:
            bridge = iter(self.bridge)
            layers = [tuple(torch.tanh(next(bridge)(part)) for part in cells) for cells in layers]
        zeros = memory.new_zeros(len(source), 1, config.width) if config.input_feeding else None
        return State(0, layers, encoded.last[:, None].detach() if config.context_feeding else zeros, encoded)

    def forward(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> Tensor:
        """See `TranslationModel.forward`.

        In training, with probability 1 - teacher_forcing, each step after the first gets the model's own most likely
        word instead of the target word (Bengio and others 2015, section 2.4). No gradient flows through this word. Each
        sentence has its own draw, or the whole batch has one (teacher_forcing_draw).
        """
        return self.dropout(self._decode(source, target)[0])

    def forward_watched(
        self, source: Tensor, target: Tensor, images: Tensor | None, layer: int
    ) -> tuple[Tensor, Tensor]:
        """See `TranslationModel.forward_watched`."""
        hidden, weights = self._decode(source, target)
        assert weights is not None, "the model has no attention"
        return self.dropout(hidden), self._of_words(weights, source)[:, None]

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """See `TranslationModel.attentions`."""
        _, weights = self._decode(source, target)
        if weights is None:
            return {}
        return {"source": self._of_words(weights, source)[:, None, None]}

    def _of_words(self, weights: Tensor, source: Tensor) -> Tensor:
        """Cut the weights of the padding around the source off."""
        first = self.alignment.padding
        return weights[..., first : first + source.shape[1]]

    def _decode(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute outputs (B, T, D) and weights (B, T, S) of all steps, in parallel unless a step needs the last."""
        state, words = self.start(source), self.target_embedding(target)
        if state.fed is not None or (self.training and self.config.teacher_forcing < 1):
            return self._decode_by_steps(state, words)
        hidden, _ = self.decoder(self._inputs(words, state), state.layers)
        return self._attend(hidden, state.source)

    def _decode_by_steps(self, state: State, words: Tensor) -> tuple[Tensor, Tensor | None]:
        """Compute the same as `_decode` step by step.

        The loop computes only what the next step needs: the context with context feeding, the output with input
        feeding, and neither without feeding. The rest follows after the loop, for all steps at once.
        """
        context_feeding = self.config.context_feeding
        use_prediction = self._draw_predictions(words)
        states: list[Tensor] = []  # states of the last layer, each (B, 1, D)
        attended: list[tuple[Tensor, Tensor]] = []  # what the next step is fed, and the weights (B, 1, S)
        for t, word in enumerate(torch.split(words, 1, 1)):  # (B, 1, D)
            rows = use_prediction[:, t].nonzero()[:, 0]  # sentences whose word is replaced
            if t and len(rows):
                predicted = self._predict(states[-1][rows], state.source.select(rows), t - 1)
                word = word.index_copy(0, rows, self.target_embedding.forward_sparse(predicted).to(word.dtype))
            hidden, layers = self.decoder(self._inputs(word, state), state.layers)  # (B, 1, D)
            states.append(hidden)
            state = replace(state, layers=layers)
            if state.fed is not None:
                context, weights = self._context(hidden, state.source, t)  # (B, 1, E), (B, 1, S)
                fed = context if context_feeding else self._combined(hidden, context)
                attended.append((fed, weights))
                state = replace(state, fed=fed.detach() if context_feeding else fed)
        hidden = torch.cat(states, 1)  # (B, T, D)
        if not attended:
            return self._attend(hidden, state.source)
        fed, weights = (torch.cat(parts, 1) for parts in zip(*attended, strict=True))
        return self._combined(hidden, fed) if context_feeding else fed, weights

    def _draw_predictions(self, words: Tensor) -> Tensor:
        """Draw for words (B, T, D) whether the model's prediction replaces them (B, T); never outside training."""
        teacher_forcing = self.config.teacher_forcing if self.training else 1.0
        rows = len(words) if self.config.teacher_forcing_draw == "sentence" else 1
        draws = torch.rand(rows, words.shape[1], device=words.device)
        return (draws >= teacher_forcing).expand(words.shape[:2])

    @torch.no_grad()
    def _predict(self, hidden: Tensor, source: Source, t: int) -> Tensor:
        """Return the model's most likely next word (R, 1) after the states of step t (R, 1, D)."""
        return self.projection(self._attend(hidden, source, t)[0]).argmax(-1)

    def _inputs(self, words: Tensor, state: State) -> Tensor:
        """Return the inputs of the first layer (R, T, inputs) for embedded words (R, T, D).

        The inputs are the words and what the state feeds or, without attention, the encoder's last output. R is a
        multiple of the number of sentences.
        """
        if state.fed is not None:
            return torch.cat([words, state.fed], -1)
        if self.config.attention.kind != "none":
            return words
        last = state.source.last.repeat_interleave(len(words) // len(state.source.last), 0)[:, None]
        return torch.cat([words, last.expand(-1, words.shape[1], -1)], -1)

    def _attend(self, hidden: Tensor, source: Source, first: int = 0) -> tuple[Tensor, Tensor | None]:
        """Compute outputs tanh(W[d; c]) (eq. 5) and weights (B, T, S) from states (B, T, D) of steps from ``first`` on.

        Without attention, the states are the outputs and the weights are None.
        """
        if self.config.attention.kind == "none":
            return hidden, None
        context, weights = self._context(hidden, source, first)
        return self._combined(hidden, context), weights

    def _context(self, hidden: Tensor, source: Source, first: int) -> tuple[Tensor, Tensor]:
        """Compute context vectors (B, T, E) and weights (B, T, S) from states (B, T, D) of steps from ``first`` on."""
        step = torch.arange(first, first + hidden.shape[1], device=hidden.device)
        weights = self.alignment(hidden, source.keys, source.real, step)
        return weights @ source.memory, weights

    def _combined(self, hidden: Tensor, context: Tensor) -> Tensor:
        output = self.combine(torch.cat([hidden, context], -1))
        return torch.tanh(output) if self.config.activation == "tanh" else torch.relu(output)

    def step(self, state: State, last: Tensor) -> tuple[Tensor, State]:
        """See `TranslationModel.step`."""
        with pytorch_kernels():
            hidden, layers = self.decoder(self._inputs(self.target_embedding(last[:, None]), state), state.layers)
            output, fed = self._attend_in_groups(hidden, state)
        log_probs = self.log_probabilities(self.dropout(output[:, 0]))
        return log_probs, replace(state, position=state.position + 1, layers=layers, fed=fed)

    def _attend_in_groups(self, hidden: Tensor, state: State) -> tuple[Tensor, Tensor | None]:
        """Compute outputs (R, 1, D) from the states of one step (R, 1, D), and what the next step is fed.

        The rows of a sentence attend to it in one product, so its encodings are not copied.
        """
        if self.config.attention.kind == "none":
            return hidden, None
        source = state.source
        grouped = hidden.view(len(source.memory), -1, hidden.shape[-1])  # (B, R/B, D)
        step = torch.full(grouped.shape[1:2], state.position, device=hidden.device)
        context = self.alignment(grouped, source.keys, source.real, step) @ source.memory
        output = self._combined(grouped, context).view_as(hidden)
        if state.fed is None:
            return output, None
        return output, output if self.config.input_feeding else context.reshape(len(hidden), 1, -1)

    def reorder(self, state: State, rows: Tensor) -> State:
        """See `TranslationModel.reorder`."""
        layers = [tuple(part.index_select(1, rows) for part in cells) for cells in state.layers]
        fed = None if state.fed is None else state.fed.index_select(0, rows)
        return replace(state, layers=layers, fed=fed)

    def keep(self, state: State, sentences: Tensor) -> State:
        """See `TranslationModel.keep`."""
        return replace(state, source=state.source.select(sentences))
