"""A small model with users of every kind, and a client of an application in this process."""

import asyncio
import shutil
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import scipy.sparse as sp

from pricdr.models.fitted import FittedModel, Origin
from pricdr.serving.app import create_app
from pricdr.serving.keys import KeyRing
from pricdr.serving.log import ServerLog
from pricdr.serving.server import known_hosts
from pricdr.serving.snapshot import ItemsQuery, Snapshot, WatchedModel

STRANGE = ("a/b", "..", "💜", "100%", "a?b#c", "sp ace", "é", "recommendations", "x/recommendations", 'quote"\\', "<b>")
"""Valid ids that look like something else in an address."""


def run_in_thread(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in another thread: playwright keeps an event loop running in this one while a browser is open."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def small_model(seed=0, users=40, items=60):
    """Return a model: u0 to u9 have only a release row, u10 to u19 nothing, all others a history, half of them both."""
    rng = np.random.default_rng(seed)
    rated = rng.random((users, items)) < 0.2
    rated[:20] = False
    covered = np.arange(users) % 2 == 0
    covered[:10], covered[10:20] = True, False
    names = [f"u{at}" for at in range(users)]
    names[20 : 20 + len(STRANGE)] = STRANGE
    return FittedModel(
        method="bpr",
        users=tuple(names),
        items=(*(f"i{at}" for at in range(items - len(STRANGE))), *STRANGE),
        user_vectors=rng.standard_normal((users, 8)).astype(np.float32),
        item_vectors=rng.standard_normal((items, 8)).astype(np.float32),
        item_bias=rng.standard_normal(items).astype(np.float32),
        seen=sp.csr_array(rated.astype(np.float64)),
        in_release=covered,
        origin=Origin({}, None),
    )


def answer_of(snapshot, user, k):
    """Return the answer to one query."""
    return snapshot.answers([ItemsQuery(user, k)])[0]


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Two model folders, which tests must not change."""
    folder = tmp_path_factory.mktemp("models")
    small_model(0).save(folder / "one")
    small_model(1).save(folder / "two")
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A model folder that the test may change."""
    return Path(shutil.copytree(saved / "one", tmp_path / "model"))


@dataclass
class Client:
    """Sends requests to an application in this process."""

    app: object
    model: WatchedModel

    def request(self, method, path, **named):
        async def send():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
                return await client.request(method, path, **named)

        return run_in_thread(send())

    get, post = partialmethod(request, "GET"), partialmethod(request, "POST")


@pytest.fixture
def client_of():
    """Return a function that creates a client of a model."""

    def make(model=None, **settings):
        snapshot = Snapshot(model or small_model(), fingerprint="0123456789ab")
        watched = WatchedModel(Path("model"), load=lambda folder: snapshot)
        return Client(app_of([watched], **settings), watched)

    return make


def app_of(models, *, keys=None, log=None, allowed_hosts=(), **shown):
    """Return the application of a server on this machine."""
    ring = None if keys is None else KeyRing(keys)
    hosts = known_hosts("127.0.0.1", allowed_hosts)
    return create_app(models, hosts=hosts, keys=ring, log=log or ServerLog(), **shown)


@pytest.fixture
def client(client_of):
    return client_of()
