"""LSTM and GRU layers over sentences of different lengths, without a trace of their padding."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HELD = 1e4  # added to what a gate is the sigmoid of, either way: it is then exactly open or shut
LSTM_GATES = (-HELD, HELD, 0.0, 0.0)  # input, forget, cell, output
GRU_GATES = (0.0, HELD, 0.0)  # reset, update, new


def masked_rnn(layer: nn.LSTM | nn.GRU, x: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a layer over whole sentences, in both directions if it has both.

    What packed sequences give, up to rounding. Those run step by step on the CPU, and their gradient costs the square
    of the steps. So there all steps are given at once, and those of padding leave the state as it is: one more input, 1
    there and 0 elsewhere, shuts an LSTM's input gate and opens its forget gate, or a GRU's update gate.

    Args:
        layer: of one layer, batch first, with biases.
        x: (B, T, I).
        real: no padding, which comes last, (B, T).

    Returns:
        Outputs (B, T, D a direction), of which those at padding mean nothing, and the state after the last step that is
        real, of the other direction after the first: hidden, and an LSTM's cell, each (directions, B, D).
    """
    if x.is_cuda:
        return packed(layer, x, real)
    if real.all():
        return run(layer, x)
    start = x.new_zeros(1 + layer.bidirectional, len(x), layer.hidden_size)
    options = (True, 1, 0.0, layer.training, layer.bidirectional, True)
    x = torch.cat([x, ~real[..., None]], -1)
    if isinstance(layer, nn.LSTM):
        output, hidden, *cell = torch.lstm(x, (start, start), _with_hold(layer, LSTM_GATES), *options)
    else:
        output, hidden, *cell = torch.gru(x, start, _with_hold(layer, GRU_GATES), *options)
    # At padding an LSTM's output gate is not held, and a GRU's state is rounded.
    ends = output[torch.arange(len(x)), real.sum(1) - 1, : layer.hidden_size]
    return output, (torch.cat([ends[None], hidden[1:]]), *cell)


def packed(layer: nn.LSTM | nn.GRU, x: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same by packed sequences, which on a GPU are one kernel too; outputs at padding are 0."""
    output, state = run(layer, pack_padded_sequence(x, real.sum(1).cpu(), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0], state


def run(layer: nn.LSTM | nn.GRU, x: Any, before: tuple[Tensor, ...] = ()) -> tuple[Any, tuple[Tensor, ...]]:
    """Call a layer, of which a GRU knows no tuples of states.

    Args:
        layer: batch first.
        x: (B, T, I), or packed sequences.
        before: its state before the first step, each part (directions, B, D); from zeros on without.

    Returns:
        What it gives for x, in the same form, and the state after.
    """
    given = before if len(before) > 1 else next(iter(before), None)
    output, after = layer(x, given)
    return output, after if isinstance(after, tuple) else (after,)


def _with_hold(layer: nn.LSTM | nn.GRU, gates: Sequence[float]) -> list[Tensor]:
    """A layer's weights, of which those of the input (gates x D, I) get a column for the input that tells padding."""
    column = torch.tensor(gates).repeat_interleave(layer.hidden_size)[:, None]
    return [w for first, *others in layer.all_weights for w in (torch.cat([first, column.to(first)], 1), *others)]
