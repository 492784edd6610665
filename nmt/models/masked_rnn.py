"""LSTM and GRU layers over sentences of different lengths, without a trace of their padding."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

HELD = 1e4  # added to what a gate is the sigmoid of, either way: it is then exactly open or shut
LSTM_GATES = (-HELD, HELD, 0.0, 0.0)  # input, forget, cell, output
GRU_GATES = (0.0, HELD, 0.0)  # reset, update, new


def masked_rnn(layer: nn.LSTM | nn.GRU, x: Tensor, real: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run a layer over whole sentences, in both directions if it has both.

    What packed sequences give, which on the CPU are run step by step, and whose gradient costs the square of the
    steps. Here one kernel runs over all steps: those of padding leave the state as it is, since one more input, 1 there
    and 0 elsewhere, shuts an LSTM's input gate and opens its forget gate, or a GRU's update gate.

    Args:
        layer: of one layer, batch first, with biases.
        x: (B, T, I).
        real: no padding, which comes last, (B, T).

    Returns:
        Outputs (B, T, D a direction), of which those at padding mean nothing, and the state after the last step that is
        real, of the other direction after the first: hidden, and an LSTM's cell, each (directions, B, D).
    """
    if real.all():
        output, state = layer(x)
        return output, state if isinstance(state, tuple) else (state,)
    start = x.new_zeros(1 + layer.bidirectional, len(x), layer.hidden_size)
    gates = LSTM_GATES if isinstance(layer, nn.LSTM) else GRU_GATES
    weights = [w for each, *others in layer.all_weights for w in (_with_hold(each, gates), *others)]
    options = (True, 1, 0.0, layer.training, layer.bidirectional, True)
    x = torch.cat([x, ~real[..., None]], -1)
    if isinstance(layer, nn.GRU):
        output, hidden = torch.gru(x, start, weights, *options)
        return output, (hidden,)
    output, hidden, cell = torch.lstm(x, (start, start), weights, *options)
    ends = output[torch.arange(len(x), device=x.device), real.sum(1) - 1, : layer.hidden_size]
    return output, (torch.cat([ends[None], hidden[1:]]), cell)  # at padding an LSTM's output gate is not held


def _with_hold(weight: Tensor, gates: Sequence[float]) -> Tensor:
    """A layer's input weights (gates x D, I) with a column for the input that tells padding."""
    column = weight.new_tensor(gates).repeat_interleave(len(weight) // len(gates))
    return torch.cat([weight, column[:, None]], 1)
