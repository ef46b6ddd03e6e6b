"""The results of simulations as values: what became of each pod and how far each pod group has come, evictions, how
full nodes are, explanations, stories. A group is placed or pending as one.

`answers/simulate` makes answers of them, and `mooring.simulate` returns those to Python code, so their fields are a
public interface.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.framework.contract.group_points import tells_of_group
from mooring.kit.clock import NS_PER_S, Clock
from mooring.model.pod import Pod
from mooring.scheduler.decision import Decision, Diagnosis
from mooring.scheduler.scheduler import Scheduler


@dataclass(slots=True)
class GroupState:
    """One group. Pods that have finished are not counted."""

    key: str
    min_count: int | None = None
    """How many pods must fit before any of them goes; None: they need not go together."""
    nodes: dict[str, str] = field(default_factory=dict)
    """By key of the pod: its node, empty while it is pending."""
    waited_s: float | None = None
    """From the beginning until enough pods were bound; None if they are not, or if they ran before."""
    message: str = ""
    """Why it is pending: the reason of a pod that fits nowhere, or why none is attempted."""

    @property
    def placed_count(self) -> int:
        return sum(bool(node) for node in self.nodes.values())

    @property
    def needed(self) -> int:
        """How many pods have to be on nodes: the minimum of a gang, else all."""
        return len(self.nodes) if self.min_count is None else self.min_count

    @property
    def is_placed(self) -> bool:
        return self.placed_count >= self.needed


def group_states(cluster: Cluster, pods: Iterable[tuple[Pod, str]]) -> dict[str, GroupState]:
    """The groups of pods, which come with their nodes; none where the scheduler keeps no groups."""
    found: dict[str, GroupState] = {}
    for pod, node in pods if cluster.groups is not None else ():
        key = pod.group_key
        if key is None:
            continue
        if key not in found:
            declared = cluster.pod_group(key)
            found[key] = GroupState(key, gang_minimum(declared, cluster.gates))
        found[key].nodes[pod.key] = node
    return dict(sorted(found.items()))


def note_waits(state: GroupState, bound_s: Mapping[str, float]) -> None:
    """When the last pod was bound that the group needed."""
    times = sorted(bound_s[key] for key in state.nodes if key in bound_s)
    missing = state.needed - (state.placed_count - len(times))
    if state.is_placed and 0 < missing <= len(times):
        state.waited_s = times[missing - 1]


def group_reason(messages: Iterable[str]) -> str:
    """The most telling reason of a group's pods. A pod with room says only that its group does not go."""
    told = [message for message in messages if message]
    return next((text for text in told if not tells_of_group(text)), told[0] if told else "")


# ---- Reasons that keep pods from nodes, counted over many attempts: those of the filters, in upstream's words.


REASONS = 1000
"""How many distinct reasons are counted. A plugin may put the names of pods into its words; the first ones count."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """A reason for which a plugin rejected nodes."""

    plugin: str
    message: str
    times: int
    """How many of the attempts had it."""
    nodes: int
    """The most nodes that were rejected for it in one attempt."""


class FailureCounter:
    """Counts the reasons of attempts that found no node."""

    def __init__(self) -> None:
        self.attempts = 0
        self._found: dict[tuple[str, str], tuple[int, int]] = {}
        """(plugin, reason) -> how many attempts had it, and the most nodes."""

    def add(self, diagnosis: Diagnosis) -> None:
        """Count an attempt."""
        self.attempts += 1
        for key, nodes in _nodes_by_reason(diagnosis).items():
            times, most = self._found.get(key, (0, 0))
            if times or len(self._found) < REASONS:
                self._found[key] = times + 1, max(most, nodes)

    def reasons(self) -> list[FailureReason]:
        """The most frequent first, then those of most nodes."""
        found = [FailureReason(*key, *counts) for key, counts in self._found.items()]
        return sorted(found, key=lambda each: (-each.times, -each.nodes, each.message, each.plugin))


def _nodes_by_reason(diagnosis: Diagnosis) -> dict[tuple[str, str], int]:
    """How many nodes each reason of one attempt rejects; a node may have several reasons of one plugin."""
    found: dict[tuple[str, str], int] = {}
    for rejection, nodes in diagnosis.all_verdicts():
        for reason in dict.fromkeys(rejection.reasons) if nodes > 0 else ():
            key = rejection.plugin, reason
            found[key] = found.get(key, 0) + nodes
    return found


# ---- How long the pod groups of a day waited: from the arrival of the last pod that a group needs until so many are
# bound.


@dataclass(frozen=True, slots=True)
class GroupWait:
    """One group in the end."""

    key: str
    members: int
    """How many of its pods arrived."""
    waited_s: float | None
    """None: it was not placed."""


class GroupWaits:
    """Told of each pod that arrives or is bound; keeps nothing where the scheduler heeds no groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._arrived_s: dict[str, list[float]] = {}
        self._bound_s: dict[str, list[float]] = {}

    def arrived(self, pod: Pod, at_s: float) -> None:
        if self._cluster.groups is not None and pod.group_key is not None:
            self._arrived_s.setdefault(pod.group_key, []).append(at_s)

    def bound(self, pod: Pod, at_s: float) -> None:
        if pod.group_key in self._arrived_s:
            self._bound_s.setdefault(pod.group_key, []).append(at_s)

    def waits(self) -> list[GroupWait]:
        return [GroupWait(key, len(times), self._waited(key, times)) for key, times in sorted(self._arrived_s.items())]

    def _waited(self, key: str, arrived_s: list[float]) -> float | None:
        declared, bound_s = self._cluster.pod_group(key), self._bound_s.get(key, [])
        needed = gang_minimum(declared, self._cluster.gates) or len(arrived_s)
        if not 0 < needed <= min(len(arrived_s), len(bound_s)):
            return None
        return bound_s[needed - 1] - sorted(arrived_s)[needed - 1]


# ---- stories: what happened to a pod, each entry with its time and its attempt


MOMENTS = 500
"""How many moments of one pod are kept, the latest. A pod that is attempted for ever must not fill the memory."""

PODS = 1000
"""How many pods have a story if no pod is named: the first ones that something happens to."""

_TAKEN = re.compile(r"taken for attempt (\d+)")
"""The text that queue/queue.py reports when an attempt begins; the number is that of the attempt."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened to a pod."""

    at_ns: int
    """Since the beginning of the simulation."""
    attempt: int
    """The number of the pod's attempt, from 1; 0 between attempts."""
    cycle: int
    """The number of that attempt among all attempts of the scheduler; 0 between attempts."""
    text: str

    def __str__(self) -> str:
        which = f" attempt {self.attempt} (cycle {self.cycle}):" if self.attempt else ""
        return f"{show_time(self.at_ns)}{which} {self.text}"


@dataclass(slots=True)
class Story:
    """The moments of one pod, as far as they are kept."""

    pod: str
    """Key of the pod, `namespace/name`."""
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOMENTS))
    left_out: int = 0
    """How many earlier moments were dropped."""
    attempts: int = 0
    cycle: int = 0
    is_open: bool = False
    """Whether what happens to the pod belongs to its latest attempt."""


class Stories:
    """Collects what a scheduler reports about pods. Build the scheduler with `tell`, then call `follow` with it.

    `only` is the key of the one pod to collect for; None collects for the first PODS pods.
    """

    def __init__(self, clock: Clock, only: str | None = None) -> None:
        self.only = only
        self._clock = clock
        self._begin_ns = clock.now_ns()
        self._stories: dict[str, Story] = {}
        self._scheduler: Scheduler | None = None

    def follow(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def of(self, key: str) -> Story:
        """The story of a pod; it has no moments when nothing happened to the pod."""
        return self._stories.get(key) or Story(key)

    def tell(self, pod: Pod, text: str) -> None:
        """Add a moment to the story of a pod; called by the scheduler."""
        key = pod.key
        story = self._stories.get(key)
        if story is None:
            if key != self.only and (self.only is not None or len(self._stories) >= PODS):
                return
            story = self._stories[key] = Story(key)
        text = self._place(story, pod, text)
        story.left_out += len(story.moments) == MOMENTS
        number, cycle = (story.attempts, story.cycle) if story.is_open else (0, 0)
        story.moments.append(Moment(self._clock.now_ns() - self._begin_ns, number, cycle, text))
        story.is_open = story.is_open and self._goes_on(pod)

    def _place(self, story: Story, pod: Pod, text: str) -> str:
        """Update which attempt of the pod is under way. Returns the text for the moment."""
        scheduler = self._scheduler
        taken = _TAKEN.match(text)
        if taken is not None:
            story.is_open = True
            story.attempts = int(taken[1])
            story.cycle = scheduler.attempts if scheduler is not None else 0
            return f"taken from the queue{text[taken.end() :]}"
        if scheduler is not None and scheduler.place_in_queue(pod.key) and not scheduler.is_attempted(pod.id):
            story.is_open = False  # it is back in the queue
        return text

    def _goes_on(self, pod: Pod) -> bool:
        """Whether the attempt is still under way, deciding or binding."""
        scheduler = self._scheduler
        return scheduler is not None and (scheduler.is_attempted(pod.id) or scheduler.is_being_bound(pod.id))


def show_time(time_ns: int) -> str:
    """`00:00:04.002`; hours go beyond 24."""
    seconds, below_ns = divmod(time_ns, NS_PER_S)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{below_ns // 1_000_000:03}"


def show_seconds(seconds: float | None) -> str:
    """A duration for people: 16ms, 3.2s, 4m00s, 25h00m; a dash for None."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    return f"{minutes // 60}h{minutes % 60:02}m"


# ---- results


class Fate(Enum):
    """The outcome of a pod that was pending. The values are part of the JSON output."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    """The pod has room on a node, and a Permit plugin makes it wait."""
    GATED = "gated"
    IGNORED = "ignored"
    ERROR = "error"
    PREEMPTED = "preempted"
    """The pod was placed and then preempted, and has no controller that creates it again."""


@dataclass(slots=True)
class PodResult:
    """The outcome of a pending pod, with its node and its attempts."""

    pod: Pod
    fate: Fate
    node: str = ""
    score: int = 0
    feasible_count: int = 0
    best: list[tuple[str, int]] = field(default_factory=list)
    message: str = ""
    """Why it has no node, from its PodScheduled condition; empty for a pod that was placed."""
    nominated: str = ""
    """The nominated node of a pending pod."""
    attempts: int = 0
    waited_s: float | None = None
    """From its arrival until it was bound, on the simulated clock; None if it was not."""
    replaces: str = ""
    """The preempted pod that its controller created this one for."""


@dataclass(slots=True)
class SimulatedEviction:
    """A pod that was preempted on `node`."""

    pod: Pod
    node: str
    preemptor: str
    replaced_by: str = ""
    """The pod that its controller has created instead. Empty for a pod without a controller, which is gone."""


@dataclass(frozen=True, slots=True)
class PodCounts:
    """Counts of the pods of a simulation by outcome. Every answer uses these counts."""

    pods: int
    """The pods that were pending or arrived, and pods that ran before, were preempted and came back."""
    placed: int
    """How many of `pods` were bound and not preempted later. A pod that replaces a preempted one counts in its place."""
    pending: int
    """How many have no node in the end."""
    preempted: int
    """How often pods were preempted, those that ran before included."""


@dataclass(slots=True)
class NodeUse:
    """How full a node is in the end. Amounts by resource: (requested, allocatable), cpu in milli, memory in bytes."""

    name: str
    pods: int
    allowed_pods: int
    new_pods: int
    amounts: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Explanation:
    """The last attempt of a pod, node by node."""

    pod: Pod
    decision: Decision | None
    fate: Fate
    message: str = ""
    """Why the pod has no node in the end."""
    now_on: str = ""
    """The node of a pod that was running already; the decision is then made as if the pod were not there."""
    weights: dict[str, int] = field(default_factory=dict)
    preemption: str = ""
    """The message of preemption, if it was tried without success."""
    victims: list[str] = field(default_factory=list)
    """The pods that were preempted for this one."""


@dataclass(slots=True)
class Report:
    """The outcome of a simulation."""

    pods: list[PodResult]
    """The pods that were pending, and those that replace preempted pods, also of pods that ran before, without the pods that
    were replaced."""
    nodes: list[NodeUse]
    preempted: list[SimulatedEviction] = field(default_factory=list)
    """All preemptions, of pods that ran before and of pods that the simulation placed."""
    simulated_s: float = 0.0
    """How long it took on the simulated clock until nothing changed any more."""
    notes: list[str] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    """In the order of the request."""
    story: Story | None = None
    limits: list[FailureReason] = field(default_factory=list)
    """Why nodes rejected the pods that are pending, in their last attempts; the most frequent reason first."""
    groups: list[GroupState] = field(default_factory=list)
    """The pod groups by key, if the scheduler heeds groups."""

    @property
    def explanation(self) -> Explanation | None:
        """The first explanation, or None."""
        return self.explanations[0] if self.explanations else None

    @property
    def counts(self) -> PodCounts:
        return PodCounts(len(self.pods), len(self.placed), len(self.pending), len(self.preempted))

    @property
    def placed(self) -> list[PodResult]:
        return [result for result in self.pods if result.fate is Fate.SCHEDULED]

    @property
    def pending(self) -> list[PodResult]:
        """The pods without a node in the end, without those that were preempted and are gone."""
        return [result for result in self.pods if result.fate not in (Fate.SCHEDULED, Fate.PREEMPTED)]
