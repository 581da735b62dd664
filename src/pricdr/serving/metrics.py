"""Metrics for Prometheus, at ``/metrics``. No label holds anything that a client sent."""

from collections.abc import Callable
from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from pricdr.models.recommend import Basis
from pricdr.serving.models import Models
from pricdr.serving.worker import Quota, Worker

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Counts and durations of requests, and the state of the server."""

    def __init__(self, models: Models, worker: Worker, batch_users: Quota) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        requests = Counter(
            "pricdr_requests", "Requests answered, by route and status.", ("route", "status"), registry=registry
        )
        seconds = Histogram(
            "pricdr_request_seconds", "Time to answer a request.", ("route",), buckets=_BUCKETS, registry=registry
        )
        answers = Counter("pricdr_answers", "Users answered, by basis.", ("basis",), registry=registry)
        # Looking a label up takes longer than counting, so each of the few combinations is looked up only once.
        self._requests = cache(lambda route, status: (requests.labels(route, str(status)), seconds.labels(route)))
        self._answers = {basis: answers.labels(basis.value) for basis in Basis}
        loads = Gauge("pricdr_model_loads", "Model folders read since the start.", ("outcome",), registry=registry)
        loads.labels("taken").set_function(lambda: models.loads["taken"])
        loads.labels("refused").set_function(lambda: models.loads["refused"])
        gauges: dict[tuple[str, str], Callable[[], float]] = {
            ("pricdr_queries_waiting", "Users and items waiting to be scored."): lambda: worker.waiting,
            ("pricdr_batch_users", "Users of the batches being answered."): lambda: batch_users.used.total(),
            ("pricdr_model_refused", "1 while the newest model folder cannot be used."): (
                lambda: float(models.problem is not None)
            ),
            ("pricdr_model_loaded_at_seconds", "When the model being served was read."): (
                lambda: models.current.loaded_at
            ),
        }
        for (name, about), value in gauges.items():
            Gauge(name, about, registry=registry).set_function(value)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        counter, histogram = self._requests(route, status)
        counter.inc()
        histogram.observe(seconds)

    def answer(self, basis: Basis) -> None:
        """Count the answer for one user."""
        self._answers[basis].inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
