"""Carries out binds: many at a time, each answered exactly once, and what became of one that got no answer.

A bind that the API server is not ready for is tried again, at most three times. If a bind ends without an answer, the pod
is read to see whether the API server carried the bind out.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import chain, repeat, takewhile
from math import inf
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import ConnectionRefused, Unanswered, Unreadable
from mooring.apiclient.throttle import Random, Timing
from mooring.drivers.api_writer import RETRY_WAITS_S, ApiWriter, is_not_ready, with_jitter
from mooring.drivers.status_writer import StatusWriter
from mooring.framework.contract.intents import Bind
from mooring.model.pod import Pod

log = logging.getLogger(__name__)

BINDERS = 64
"""Connections for binds, and tasks that carry them out, one for each. 64 carry more than 5,000 binds a second at 10 ms each,
which is more than one process decides. Hot: a task for each bind took 5 µs more."""
LANDING_S = 0.5
"""How long to wait before looking for a bind whose connection broke: the request may still be on its way, and a lookup
that comes first would find no node."""
LOOKUP_WAITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between lookups; the last one repeats while there is no answer."""
LOOKUP_S = 8.0
"""How long lookups go on that the server refuses or answers with something unreadable. By then the watch would have shown the
node."""
DOUBT_S = 60.0
"""How long a bind without an answer may still take effect: an API server gives a request one minute (--request-timeout). For
as long a server that answers lookups with 5xx is asked again."""


class BindOutcome(msgspec.Struct, frozen=True):
    """Why a pod was not bound (None: it was), and the node that it turned out to be on."""

    fault: str | None = None
    elsewhere: str = ""


_BOUND = BindOutcome()

Start = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a task of the driver."""


class Binder:
    """Binds pods. `answer` is called once for each bind, unless the process loses the lease meanwhile.

    `seen` finds a pod by its key as the watch shows it.
    """

    def __init__(
        self,
        writer: ApiWriter,
        statuses: StatusWriter,
        timing: Timing,
        seen: Callable[[str], Pod | None],
        start: Start,
        answer: Callable[[Bind, BindOutcome], None],
        draw: Random = random.random,
    ) -> None:
        self.under_way = 0
        """Binds that are not answered, those in the queue included."""
        self._writer = writer
        self._statuses = statuses
        self._timing = timing
        self._seen = seen
        self._start = start
        self._answer = answer
        self._draw = draw
        self._to_bind: deque[Bind] = deque()
        self._binders = 0
        self._doubts: dict[str, float] = {}
        """Pods with a bind that may still take effect, by id, and until when; the earliest first.

        Their status does not say that they are not scheduled: it would stay on a pod that runs.
        """

    def halt(self) -> None:
        """Drop what is not under way: this instance lost the lease."""
        self._to_bind.clear()

    def has_all_at_work(self) -> bool:
        """Whether as many binds are under way as there are connections, so that another write delays them."""
        return self.under_way >= BINDERS

    def queue(self, intent: Bind) -> None:
        """Have a binder carry it out; alone if a patch of the pod's status is under way, which comes first."""
        self.under_way += 1
        if self._statuses.is_busy(intent.pod.id):
            self._start(self._bind(intent, self._bind_after_status(intent)))
            return
        self._to_bind.append(intent)
        if self._binders < BINDERS:
            self._binders += 1
            self._start(self._bind_all())

    async def _bind_all(self) -> None:
        """Carry out the binds of the queue. One that does not succeed at once is left to a task of its own: to find out what
        became of it may take long."""
        try:
            while self._to_bind:
                intent = self._to_bind.popleft()
                try:
                    await self._writer.bind(intent.pod, intent.node_name)
                except Exception as fault:  # what it means, the task finds out
                    self._start(self._bind(intent, self._outcome_after(intent, fault)))
                except BaseException:
                    self.under_way -= 1
                    raise
                else:
                    self._bound(intent)
        finally:
            self._binders -= 1

    def _bound(self, intent: Bind) -> None:
        """Whatever a bug in what follows raises, the other binds of the queue go on."""
        self.under_way -= 1
        try:
            self._answer(intent, _BOUND)
        except Exception as bug:
            log.error("the answer to the bind of %s failed unexpectedly", intent.pod.key, exc_info=bug)

    async def _bind(self, intent: Bind, work: Coroutine[Any, Any, BindOutcome]) -> None:
        """Report the outcome exactly once, whatever happens."""
        try:
            outcome = await work
        except Exception as bug:  # otherwise the cache would hold the pod on its node for ever
            log.error("the bind of %s failed unexpectedly", intent.pod.key, exc_info=bug)
            outcome = BindOutcome(repr(bug))
        except BaseException:
            self.under_way -= 1
            raise
        self.under_way -= 1
        self._answer(intent, outcome)

    async def _bind_after_status(self, intent: Bind) -> BindOutcome:
        """Bind when the patch of the pod's status is over."""
        await self._statuses.settle(intent.pod.id)
        try:
            await self._writer.bind(intent.pod, intent.node_name)
        except Exception as fault:
            return await self._outcome_after(intent, fault)
        return _BOUND

    async def _outcome_after(self, intent: Bind, fault: Exception) -> BindOutcome:
        """Find out what became of a bind that failed, after further tries if the API server was not ready. Clear refusals
        are the outcome; in all other cases the pod's node decides. Raises a fault that is a bug."""
        is_refused = _is_refusal(fault)
        for wait_s in RETRY_WAITS_S:
            if not is_not_ready(fault):
                break
            await self._timing.sleep(with_jitter(wait_s, self._draw))
            try:
                await self._writer.bind(intent.pod, intent.node_name)
            except Exception as another:
                fault = another
                is_refused = is_refused and _is_refusal(fault)
            else:
                return _BOUND
        if not isinstance(fault, ApiError | Unanswered | CredentialsError):
            raise fault
        text = fault.message if isinstance(fault, ApiError) else str(fault)
        if is_refused:
            return BindOutcome(text)
        if isinstance(fault, ApiError) and fault.code == 504:  # Gateway Timeout: the server may still be working on it
            self._doubt(intent.pod)
        elif isinstance(fault, Unanswered) and not isinstance(fault, ConnectionRefused):
            self._doubt(intent.pod)
            await self._timing.sleep(LANDING_S)
        node_name = await self._node_of(intent.pod)
        return _BOUND if node_name == intent.node_name else BindOutcome(text, node_name)

    def _doubt(self, pod: Pod) -> None:
        """Note that a bind of the pod may still take effect, and drop the notes that have expired."""
        now_s = self._timing.monotonic_s()
        for pod_id in list(takewhile(lambda pod_id: self._doubts[pod_id] <= now_s, self._doubts)):
            del self._doubts[pod_id]
        self._doubts.pop(pod.id, None)
        self._doubts[pod.id] = now_s + DOUBT_S

    def is_in_doubt(self, pod: Pod) -> bool:
        return self._timing.monotonic_s() < self._doubts.get(pod.id, 0.0)

    async def _node_of(self, pod: Pod) -> str:
        """The node of the pod, or "" if it has none. Asks until the API server answers or the watch shows the node.

        A server that keeps refusing, or whose answers cannot be read, must not hold the pod. If the bind took effect after
        all, the API server rejects the next one, so that no pod is bound twice.
        """
        began_s = self._timing.monotonic_s()
        for wait_s in chain(LOOKUP_WAITS_S, repeat(LOOKUP_WAITS_S[-1])):
            seen = self._seen(pod.key)
            if seen is None or seen.id != pod.id:
                return ""
            if seen.spec.node_name:
                return seen.spec.node_name
            try:
                found = await self._writer.read_pod(pod) or {}
            except (ApiError, Unanswered, CredentialsError) as fault:
                log.info("cannot see yet whether %s was bound: %s", pod.key, fault)
                if self._timing.monotonic_s() - began_s >= _patience_s(fault):
                    break
                await self._timing.sleep(wait_s)
                continue
            is_same = found.get("metadata", {}).get("uid") == pod.uid
            return found.get("spec", {}).get("nodeName") or "" if is_same else ""
        return ""


def _is_refusal(fault: Exception) -> bool:
    """Whether the bind was certainly not carried out. A 409 may be a conflict with our own first try, whose answer was
    lost; a server that fails with 5xx may have written the binding before it failed."""
    if isinstance(fault, ApiError):
        return fault.code != 409 and fault.code < 500
    return isinstance(fault, ConnectionRefused | CredentialsError)


def _patience_s(fault: Exception) -> float:
    """How long to look for a pod after faults like this one. Without any answer there is no limit: a server that cannot be
    reached does not take another bind either."""
    if isinstance(fault, ApiError):
        return LOOKUP_S if fault.code < 500 else DOUBT_S
    return LOOKUP_S if isinstance(fault, Unreadable) else inf
