"""Metrics for Prometheus, at ``/metrics``. No label holds anything that a client sent."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from pricdr.models.recommendations import Basis
from pricdr.serving.admission import Admission, Batches
from pricdr.serving.models import Models

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counts and durations of requests, and the state of the server."""

    def __init__(self, models: Models, queues: Sequence[Admission], batches: Batches) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._requests = Counter(
            "pricdr_requests", "Requests answered, by route and status.", ("route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "pricdr_request_seconds", "Time to answer a request.", ("route",), buckets=_BUCKETS, registry=registry
        )
        self.waits = Histogram(
            "pricdr_wait_seconds", "Time that a request waited to be admitted.", buckets=_BUCKETS, registry=registry
        )
        self._answers = Counter("pricdr_answers", "Users answered, by basis.", ("basis",), registry=registry)
        self.connections = Gauge("pricdr_connections", "Open connections.", registry=registry)
        self._add_gauges(models, queues, batches)
        # Looking a label up takes longer than counting, so each of the few combinations is looked up only once.
        self._by_request: dict[tuple[str, int], Counter] = {}
        self._by_route: dict[str, Histogram] = {}
        self._by_basis = {basis: self._answers.labels(basis.value) for basis in Basis}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        counter = self._by_request.get((route, status))
        if counter is None:
            counter = self._by_request[route, status] = self._requests.labels(route, str(status))
            self._by_route[route] = self._seconds.labels(route)
        counter.inc()
        self._by_route[route].observe(seconds)

    def answer(self, basis: Basis) -> None:
        """Count the answer for one user."""
        self._by_basis[basis].inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def _add_gauges(self, models: Models, queues: Sequence[Admission], batches: Batches) -> None:
        def gauge(name: str, help_text: str) -> Gauge:
            return Gauge(name, help_text, registry=self._registry)

        gauge("pricdr_requests_waiting", "Requests waiting to be admitted.").set_function(
            lambda: sum(queue.waiting for queue in queues)
        )
        gauge("pricdr_requests_refusing", "Requests about to be refused.").set_function(
            lambda: sum(queue.refusing for queue in queues)
        )
        gauge("pricdr_requests_in_flight", "Requests being answered, without batches.").set_function(
            lambda: sum(queue.in_flight for queue in queues)
        )
        gauge("pricdr_batch_users", "Users of the batches being answered.").set_function(lambda: batches.users)
        gauge("pricdr_model_refused", "1 while the newest model folder cannot be used.").set_function(
            lambda: float(models.problem is not None)
        )
        loads = Gauge(
            "pricdr_model_loads", "Model folders read since the start.", ("outcome",), registry=self._registry
        )
        loads.labels("taken").set_function(lambda: models.loads["taken"])
        loads.labels("refused").set_function(lambda: models.loads["refused"])

        def loaded_at() -> float:
            with models.current() as snapshot:
                return snapshot.loaded_at

        gauge("pricdr_model_loaded_at_seconds", "When the model being served was read.").set_function(loaded_at)
