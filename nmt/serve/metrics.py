"""Counts of requests, batches and times, in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping

from nmt.serve.batching import Queue

TYPE = "text/plain; version=0.0.4"
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the classes of the histogram of times, in seconds."""


class Metrics:
    """What one server has answered since its start. No text is kept."""

    def __init__(self) -> None:
        self.requests = Counter[tuple[str, int]]()
        self.seconds: dict[str, float] = {}
        self.within = Counter[tuple[str, float]]()

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count an answer: its path, its HTTP status, and the time from the first byte to the answer."""
        self.requests[path, status] += 1
        self.seconds[path] = self.seconds.get(path, 0.0) + seconds
        for bound in BOUNDS:
            self.within[path, bound] += seconds <= bound

    def text(self, queues: Mapping[str, Queue]) -> str:
        """Return all values; ``queues`` are those of the models, by name."""
        lines = ["# HELP nmt_requests_total Requests answered.", "# TYPE nmt_requests_total counter"]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'nmt_requests_total{{path="{path}",status="{status}"}} {count}')
        lines += ["# HELP nmt_request_seconds Time of a request.", "# TYPE nmt_request_seconds histogram"]
        for path in sorted(self.seconds):
            total = sum(count for (where, _), count in self.requests.items() if where == path)
            for bound in BOUNDS:
                lines.append(f'nmt_request_seconds_bucket{{path="{path}",le="{bound}"}} {self.within[path, bound]}')
            lines += [f'nmt_request_seconds_bucket{{path="{path}",le="+Inf"}} {total}']
            lines += [f'nmt_request_seconds_sum{{path="{path}"}} {self.seconds[path]:.6f}']
            lines += [f'nmt_request_seconds_count{{path="{path}"}} {total}']
        for name, help_text, kind, value in (
            ("nmt_waiting", "Requests that wait for a model.", "gauge", lambda queue: len(queue.pending)),
            ("nmt_batches_total", "Computations of a model.", "counter", lambda queue: queue.batches),
            ("nmt_batched_requests_total", "Requests that these answered.", "counter", lambda queue: queue.batched),
        ):
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            lines += [f'{name}{{model="{_label(model)}"}} {value(queue)}' for model, queue in queues.items()]
        return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
