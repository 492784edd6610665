"""The computation of an update: gradients of its batches, then the optimiser; as CUDA graphs where possible."""

from collections.abc import Callable

import torch
from torch import Tensor

from nmt.config.training import Training
from nmt.data.batches import Batch
from nmt.models.base import TranslationModel
from nmt.models.loss import cross_entropy, guided_alignment
from nmt.system.machine import has_bfloat16
from nmt.training.cuda_graphs import BatchFunction, GraphPerShape, RecordedCall
from nmt.training.optimizer import make_optimizer, recordable


class Gradients:
    """The gradients of a model: summed over the batches of an update, then applied by the optimiser."""

    def __init__(self, model: TranslationModel, config: Training, device: torch.device, epochs: float) -> None:
        """Make the optimiser, and choose between CUDA graphs and plain calls for a training of so many epochs."""
        self.optimizer = make_optimizer(model, config.optimizer)
        self.denominator = torch.ones((), device=device)  # what the update's loss is a mean over, in all processes
        self.applied_norm = torch.zeros((), device=device)  # of the last gradient that was applied
        # Where bfloat16 is slow, float32 takes its place: it is faster there, and no less accurate.
        self.precision = config.precision if has_bfloat16(device) else "fp32"
        self._model, self._config, self._device = model, config, device
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._accumulate: BatchFunction = self._forward_backward
        self._optimize: Callable[[], None] = self._clip_and_optimize
        model.activation_checkpointing = config.activation_checkpointing
        # Graphs forbid the state of random numbers that layers are computed again with.
        if device.type == "cuda" and not (model.waits_for_gpu or config.activation_checkpointing):
            self._accumulate = GraphPerShape(self._forward_backward, epochs)
        if recordable(self.optimizer):
            self._optimize = RecordedCall(self._clip_and_optimize)

    def add(self, batch: Batch, consistency: float) -> Tensor:
        """Add the gradients of a batch's loss, a mean over the update's pieces or sentences.

        Args:
            batch: sentences, in any memory.
            consistency: weight of the divergence between two passes over each sentence; 0 for one pass.

        Returns:
            Sums over the batch's pieces (3,), float64: negative log-likelihood, correct predictions, pieces. The next
            call may overwrite them.
        """
        return self._accumulate(batch.to(self._device), consistency)

    def norm(self) -> Tensor:
        """Return the norm of all gradients, a scalar."""
        return torch.nn.utils.get_total_norm(self.tensors())

    def apply(self, norm: Tensor) -> None:
        """Clip the gradients, which have this norm, update the weights and clear the gradients."""
        self.applied_norm.copy_(norm)
        self._optimize()

    def clear(self) -> None:
        """Set the gradients to zero."""
        if self._device.type == "cpu":
            self.optimizer.zero_grad()
        else:
            torch._foreach_zero_(self.tensors())  # graphs add to the same tensors

    def tensors(self) -> list[Tensor]:
        """Return the gradients that exist, in the order of the parameters."""
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

    def _forward_backward(self, batch: Batch, consistency: float) -> Tensor:
        config, inputs = self._config, batch.twice() if consistency else batch  # autocast refuses float16 pictures
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            outputs, alignment = self._outputs(inputs)
            hidden = outputs.flatten(0, 1).index_select(0, inputs.positions).float()
            layer = self._model.projection
            shares = batch.sentence_shares if config.loss_mean == "sentences" else None
            loss, nll, correct = cross_entropy(
                hidden, layer.weight, batch.expected, config.label_smoothing, consistency, layer.bias, shares
            )
            if alignment is not None:
                loss = loss + (alignment if shares is None else alignment * shares).sum() / (2 if consistency else 1)
        (loss / self.denominator).backward()  # type: ignore[no-untyped-call]
        return torch.stack([nll, correct, nll.new_full((), batch.pieces)]).double()

    def _outputs(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return decoder outputs (B, T, D), and the weighted loss of guided alignment at the N pieces to predict."""
        arguments, guided = (batch.source, batch.target[:, :-1], batch.images), self._config.guided_alignment
        if guided is None:
            return self._model(*arguments), None
        assert batch.links is not None, "a training with guided alignment has links"
        layers = self._model.config.source_attentions[0]
        outputs, weights = self._model.forward_watched(*arguments, (guided.layer or max(1, layers - 1)) - 1)
        chosen = weights[:, guided.head - 1] if guided.head else weights.mean(1)
        loss = guided.weight * guided_alignment(chosen, batch.links)
        return outputs, loss.flatten().index_select(0, batch.positions)

    def _clip_and_optimize(self) -> None:
        if self._config.clip:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self._config.clip, self.applied_norm)
        self.optimizer.step()
        self.clear()
