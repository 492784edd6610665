"""LSTM and GRU layers over sentences of different lengths, unaffected by padding."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SATURATED = 1e4  # added to or subtracted from the input of a gate's sigmoid: the gate is then exactly 1 or 0
LSTM_GATES = (-SATURATED, SATURATED, 0.0, 0.0)  # input, forget, cell, output
GRU_GATES = (0.0, SATURATED, 0.0)  # reset, update, new


def masked_rnn(layer: nn.LSTM | nn.GRU, x: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a layer over whole sentences, in both directions if it is bidirectional.

    The result equals that of packed sequences up to rounding. On the CPU, packed sequences run position by position,
    and their gradient takes quadratic time. So on the CPU the layer runs over all positions at once, and padding leaves
    the state unchanged: an additional input, 1 at padding and 0 elsewhere, closes an LSTM's input gate and opens its
    forget gate, or opens a GRU's update gate.

    Args:
        layer: module with a single layer, batch first, with biases.
        x: inputs (B, T, I).
        real: mask (B, T), false at padding, which comes last.

    Returns:
        Outputs (B, T, directions * D), undefined at padding, and the final state: the hidden state and an LSTM's cell
        state, each (directions, B, D). The final state of the forward direction is that after the last position without
        padding, of the backward direction that after the first position.
    """
    if x.is_cuda:
        return packed(layer, x, real)
    if real.all():
        return run(layer, x)
    zeros = x.new_zeros(1 + layer.bidirectional, len(x), layer.hidden_size)
    options = (True, 1, 0.0, layer.training, layer.bidirectional, True)
    x = torch.cat([x, ~real[..., None]], -1)
    if isinstance(layer, nn.LSTM):
        output, hidden, *cell = torch.lstm(x, (zeros, zeros), _with_padding_input(layer, LSTM_GATES), *options)
    else:
        output, hidden, *cell = torch.gru(x, zeros, _with_padding_input(layer, GRU_GATES), *options)
    # At padding, an LSTM's output gate changes the hidden state, and a GRU's state is rounded.
    ends = output[torch.arange(len(x)), real.sum(1) - 1, : layer.hidden_size]
    return output, (torch.cat([ends[None], hidden[1:]]), *cell)


def packed(layer: nn.LSTM | nn.GRU, x: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Compute the same with packed sequences, a single kernel on a GPU; outputs at padding are 0."""
    output, state = run(layer, pack_padded_sequence(x, real.sum(1).cpu(), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], state


def run(layer: nn.LSTM | nn.GRU, x: Any, initial: tuple[Tensor, ...] = ()) -> tuple[Any, tuple[Tensor, ...]]:
    """Call a layer with its state as a tuple, also for a GRU, whose own interface has no tuples.

    Args:
        layer: LSTM or GRU, batch first.
        x: inputs (B, T, I), or packed sequences.
        initial: initial state, each part (directions, B, D); empty for zeros.

    Returns:
        The outputs in the form of x, and the final state.
    """
    state = initial if len(initial) > 1 else next(iter(initial), None)
    output, final = layer(x, state)
    return output, final if isinstance(final, tuple) else (final,)


def _with_padding_input(layer: nn.LSTM | nn.GRU, gates: Sequence[float]) -> list[Tensor]:
    """Return a layer's weights; the input weights (gates * D, I) get a column for the input that marks padding."""
    column = torch.tensor(gates).repeat_interleave(layer.hidden_size)[:, None]
    return [w for first, *others in layer.all_weights for w in (torch.cat([first, column.to(first)], 1), *others)]
