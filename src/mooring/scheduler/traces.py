"""The observer that traces: it decides which attempts are, begins their traces, and adds what came of them.

It stands around another observer, such as metrics. Spans of extension points come from the plugin caller of the attempt
(framework/attempts/observing_callers.py), spans of requests from the driver, which finds the trace of a pod here.
"""

from mooring.framework.attempts.observing_callers import ROOT, WAIT_ON_PERMIT, AttemptTrace, TracingCaller
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import Nomination
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.spans import Attributes, Tracer, TraceSpan
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.failure import cut
from mooring.scheduler.observer import ForwardingObserver, Observer

MAX_OVER = 4096
"""How many attempts that are over are kept, for requests that come later, such as statuses: the oldest go first. Each takes
some 2 KiB, and drivers have some hundred requests under way."""

NAMESPACE, POD, UID, NODE = "k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid", "k8s.node.name"
"""Names of OpenTelemetry's semantic conventions."""
PROFILE, ATTEMPT, PRIORITY = "scheduler.profile", "scheduler.attempt", "scheduler.priority"
QUEUE_WAIT = "scheduler.queue_wait_s"
VICTIMS = "scheduler.victims"


class SchedulerTraces(ForwardingObserver):
    """`threshold_ns`: plugins that are busy for less at an extension point have no span. `clock` is the scheduler's."""

    def __init__(self, inner: Observer, tracer: Tracer, clock: Clock, threshold_ns: int) -> None:
        super().__init__(inner)
        self._tracer = tracer
        self._clock = clock
        self._now_ns = clock.now_ns
        self._threshold_ns = threshold_ns
        self._under_way: dict[str, AttemptTrace] = {}
        """The attempts that are traced, by id of the pod."""
        self._over: dict[str, AttemptTrace] = {}
        """Attempts that have ended, by id of the pod, until the next attempt of the pod begins."""

    def of(self, pod_id: str) -> AttemptTrace | None:
        """The trace of the last attempt of a pod; None: it is not traced."""
        return self._under_way.get(pod_id) or self._over.get(pod_id)

    def caller_for(self, profile: Profile) -> PluginCaller:
        return TracingCaller(self._inner.caller_for(profile), self._under_way, self._clock)

    # ---- attempts

    def attempt_began(self, entry: QueuedPod) -> None:
        """Begin a trace of the attempt if the sampler chooses it. The trace of the attempt before is forgotten."""
        self._inner.attempt_began(entry)
        trace_id = self._tracer.sample()
        if self._over:
            self._over.pop(entry.uid, None)
        if trace_id is not None:
            self._under_way[entry.uid] = AttemptTrace(self._root(trace_id, entry), self._threshold_ns)

    def _root(self, trace_id: int, entry: QueuedPod) -> TraceSpan:
        """The first span. It begins when the pod leaves the queue; an event says how long the pod was there."""
        now_ns, pod = self._now_ns(), entry.pod
        about: Attributes = {
            NAMESPACE: pod.namespace,
            POD: pod.name,
            UID: pod.uid,
            PROFILE: entry.profile,
            ATTEMPT: entry.attempts,
            PRIORITY: pod.priority,
        }
        root = self._tracer.begin(trace_id, ROOT, now_ns, about)
        root.note("Dequeued", now_ns, {QUEUE_WAIT: max(now_ns - entry.timestamp_ns, 0) / NS_PER_S})
        return root

    def decided(self, entry: QueuedPod, node_name: str) -> None:
        self._inner.decided(entry, node_name)
        trace = self._under_way.get(entry.uid)
        if trace is not None and node_name:
            trace.root.set({NODE: node_name})

    def attempt_failed(self, entry: QueuedPod, is_error: bool, message: str) -> None:
        self._inner.attempt_failed(entry, is_error, message)
        trace = self._take_over(entry)
        if trace is not None:
            trace.failed(is_error, cut(message), self._now_ns())

    def pod_bound(self, entry: QueuedPod) -> None:
        self._inner.pod_bound(entry)
        trace = self._take_over(entry)
        if trace is not None:
            trace.bound()

    def _take_over(self, entry: QueuedPod) -> AttemptTrace | None:
        """The trace of an attempt that is over. What follows from the attempt may still add to it."""
        trace = self._under_way.pop(entry.uid, None)
        if trace is not None:
            self._over[entry.uid] = trace
            if len(self._over) > MAX_OVER:
                del self._over[next(iter(self._over))]
        return trace

    def wait_on_permit_ended(self, pod: Pod, status: str, began_ns: int) -> None:
        self._inner.wait_on_permit_ended(pod, status, began_ns)
        trace = self._under_way.get(pod.id)
        if trace is not None:
            trace.point_ended(WAIT_ON_PERMIT, status, began_ns, self._now_ns())

    def preempts(self, preemptor: Pod, nomination: Nomination) -> None:
        self._inner.preempts(preemptor, nomination)
        trace = self._under_way.get(preemptor.id)
        if trace is not None:
            about: Attributes = {NODE: nomination.node_name, VICTIMS: len(nomination.victims)}
            trace.root.note("Preempting", self._now_ns(), about)
