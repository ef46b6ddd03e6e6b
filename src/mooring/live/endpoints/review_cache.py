"""Answers of the API server that are good for some seconds, so that a scraper does not cost a review each time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST = 1024
"""Whoever sends ever new tokens pushes out the oldest answers, and fills no memory."""


class ReviewCache(Generic[K, V]):
    """By key. Several who ask for the same at once share one question; a question that fails is forgotten."""

    def __init__(self, lasts_s: Callable[[V], float], monotonic_s: Callable[[], float]) -> None:
        self._lasts_s = lasts_s
        self._monotonic_s = monotonic_s
        self._known: dict[K, tuple[float, V]] = {}
        self._asking: dict[K, asyncio.Future[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        known = self._known.get(key)
        if known is not None and self._monotonic_s() < known[0]:
            return known[1]
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(ask())
            asking.add_done_callback(lambda done: self._keep(key, done))
        # Shielded: one caller who leaves must not take the answer from the others.
        return await asyncio.shield(asking)

    def _keep(self, key: K, done: "asyncio.Future[V]") -> None:
        del self._asking[key]
        self._known.pop(key, None)
        if done.cancelled() or done.exception() is not None:
            return
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._monotonic_s() + self._lasts_s(done.result()), done.result())
