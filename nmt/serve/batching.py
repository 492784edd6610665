"""The queue of requests for one model. Requests that ask for the same kind of search are computed together."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from nmt.serve.limits import Limits, Refused

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(eq=False)
class _Ticket:
    """A request in the queue.

    Attributes:
        kind: requests of the same kind are computed together; None: alone.
        item: what is computed.
        compute: computes the items of several requests.
        started: resolved when the computation begins.
        answer: the result.
    """

    kind: Hashable
    item: Any
    compute: Callable[[Sequence[Any]], Sequence[Any]]
    started: "asyncio.Future[None]"
    answer: "asyncio.Future[Any]"


class Queue:
    """The queue of one model, which computes in its own thread, one job or one batch at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.thread = ThreadPoolExecutor(1)
        self.pending: list[_Ticket] = []
        self.busy = False
        self.batches = self.batched = 0  # computations so far, and the requests that they answered

    async def run(self, job: Callable[[], Result]) -> Result:
        """Wait for a turn, then run the job alone; see `run_together`."""
        return await self.run_together(None, None, lambda _: [job()])

    async def run_together(
        self, kind: Hashable, item: Item, compute: Callable[[Sequence[Item]], Sequence[Result | Exception]]
    ) -> Result:
        """Wait for a turn, then compute this item with those of all waiting requests of the same kind.

        A request that is cancelled while it waits is never computed.

        Args:
            kind: requests with an equal one share a computation; None for none.
            item: the input of this request.
            compute: gives the result of each item, or the exception that its request ends with.

        Raises:
            Refused: the queue is full, or the wait was too long.
        """
        expected = f"at most {self.limits.waiting} waiting requests, and a turn within {self.limits.patience:g} s"
        if len(self.pending) >= self.limits.waiting:
            raise Refused(503, "the model is busy", expected, f"{len(self.pending)} waiting", 1)
        loop = asyncio.get_running_loop()
        ticket = _Ticket(kind, item, compute, loop.create_future(), loop.create_future())
        self.pending.append(ticket)
        self._next()
        try:
            async with asyncio.timeout(self.limits.patience):
                await ticket.started
        except TimeoutError:
            raise Refused(503, "the model is busy", expected, "no turn", 1) from None
        finally:
            if ticket in self.pending:
                self.pending.remove(ticket)
        result: Result = await asyncio.shield(ticket.answer)  # cancelling cannot stop the thread
        return result

    def _next(self) -> None:
        """Start the next computation, if the thread is free and a request waits."""
        waiting = [t for t in self.pending if not t.started.done()]  # a cancelled ticket leaves when its task runs
        if self.busy or not waiting:
            return
        first = waiting[0]
        batch = [t for t in waiting if t is first or (t.kind is not None and t.kind == first.kind)]
        batch = batch[: self.limits.batch]
        for ticket in batch:
            self.pending.remove(ticket)
            ticket.started.set_result(None)
        self.busy = True
        self.batches, self.batched = self.batches + 1, self.batched + len(batch)
        items = [ticket.item for ticket in batch]
        running = asyncio.get_running_loop().run_in_executor(self.thread, first.compute, items)
        running.add_done_callback(lambda done: self._done(done, batch))

    def _done(self, running: "asyncio.Future[Sequence[Any]]", batch: Sequence[_Ticket]) -> None:
        """Hand out the results of a computation, and start the next one."""
        self.busy = False
        error = asyncio.CancelledError() if running.cancelled() else running.exception()
        results = [error] * len(batch) if error else running.result()
        for ticket, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                ticket.answer.set_exception(result)
                ticket.answer.exception()  # retrieved, otherwise asyncio prints one that nobody awaits
            else:
                ticket.answer.set_result(result)
        self._next()
