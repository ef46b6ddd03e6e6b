"""Any sequence of changes, with everything late: no pod is ever lost, counted twice, or left to wait for no reason."""

import os
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from delayed_cluster import CAREFUL, DEFAULT, BindOutcome, Cause, DelayedCluster, Mood, UnschedulableSince, verdict
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from build import a_node, a_pod
from how_many import examples
from mooring.model.affinity import AffinityTerm
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.queue.entry import QueuedPod
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement

STEPS = examples(int(os.environ.get("MOORING_STEPS", "2000")))
EXAMPLE_STEPS = 50

WHEN = "DuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "zone", "kubernetes.io/hostname"


def term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {f"required{WHEN}": list(terms)}}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {f"required{WHEN}": list(terms)}}}


def spread(key: str, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [{**hard, "topologyKey": key, **more}]}


TRAITS: dict[str, dict[str, Any]] = {
    "plain": {},
    "near a": near(term("a", ZONE)),
    "away from a": away(term("a", ZONE)),
    "away from b on the host": away(term("b", HOST)),
    "away from a and from b": away(term("a", ZONE), term("b", HOST)),
    "spread over zones": spread(ZONE),
    "spread over hosts, honouring taints": spread(HOST, nodeTaintsPolicy="Honor"),
    "on a port": {"host_ports": [80]},
    "on another port": {"host_ports": [81]},
    "gated": {"schedulingGates": [{"name": "one"}, {"name": "two"}]},
    "never preempting": {"preemptionPolicy": "Never"},
    "on ssd": {"nodeSelector": {"disk": "ssd"}},
    "tolerant": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
}
HOSTILE = [str(1 << 63), "1e400", "-1", "many"]
"""Quantities that no column holds, and what is none: they must harm nobody but their own pod or node."""
NAMES = [f"p{i:02}" for i in range(14)]
NODE_NAMES = [f"n{i}" for i in range(4)]
NODE_PARTS = ["gone", "labels", "taints", "taints", "status", "unschedulable"]

PODS = st.fixed_dictionaries(
    {
        "traits": st.lists(st.sampled_from(list(TRAITS)), min_size=1, max_size=2),
        "cpu": st.sampled_from(["500m", "1", "1", "2"] * 4 + HOSTILE),
        "priority": st.sampled_from([0, 0, 10, 100] * 3 + [1 << 70, -(1 << 70)]),
        "app": st.sampled_from("aab"),
        "schedulerName": st.sampled_from([DEFAULT, DEFAULT, CAREFUL]),
    }
)
NODES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["1", "2", "3"] * 4 + HOSTILE),
        "pods": st.sampled_from([2, 4] * 4 + [1 << 70]),
        "zone": st.sampled_from(["a", "a", "b", "b", None]),
        "disk": st.sampled_from(["ssd", "ssd", "hdd"]),
        "taints": st.sampled_from([(), (), (), (), ("dedicated=x:NoSchedule",)]),
        "unschedulable": st.sampled_from([False, False, False, False, True]),
    }
)


BINDS: list[BindOutcome] = ["bound", "bound", "bound", "failed", "bound but the answer was lost"]
LATE = [
    frozenset[str](),
    frozenset[str](),
    *map(frozenset, (["watch"], ["request"], ["answer"], ["permit", "release"], ["attempt"])),
]
"""What does not happen for a while."""


def _relabel(world: DelayedCluster, pod: Pod, app: str) -> None:
    metadata = msgspec.structs.replace(pod.metadata, labels={"app": app})
    world.change(Pod(metadata=metadata, spec=pod.spec, status=pod.status))


def _change_spec(world: DelayedCluster, pod: Pod, **changes: Any) -> None:
    if not pod.spec.node_name:
        spec = msgspec.structs.replace(pod.spec, **changes)
        world.change(Pod(metadata=pod.metadata, spec=spec, status=pod.status))


def _bind_elsewhere(world: DelayedCluster, pod: Pod) -> None:
    if not pod.spec.node_name and not pod.is_terminating:
        world.bind(pod, NODE_NAMES[-1])


POD_CHANGES: dict[str, Callable[[DelayedCluster, Pod], None]] = {
    "deleted": DelayedCluster.delete,
    "deleted at once": DelayedCluster.delete,
    "terminating": DelayedCluster.terminate,
    "finished": lambda world, pod: world.finish(pod) if pod.spec.node_name else None,
    "relabelled a": lambda world, pod: _relabel(world, pod, "a"),
    "relabelled b": lambda world, pod: _relabel(world, pod, "b"),
    "one gate open": lambda world, pod: _change_spec(
        world, pod, scheduling_gates=(pod.spec.scheduling_gates or [])[1:] or None
    ),
    "all gates open": lambda world, pod: _change_spec(world, pod, scheduling_gates=None),
    "tolerant": lambda world, pod: _change_spec(world, pod, tolerations=a_pod(**TRAITS["tolerant"]).spec.tolerations),
    "bound behind our back": _bind_elsewhere,
}


class SchedulerMachine(RuleBasedStateMachine):
    """Everything that can happen to a scheduler, in any order, and what must hold all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.world = DelayedCluster()
        self.made = 0

    @initialize(made=st.lists(NODES, min_size=2, max_size=len(NODE_NAMES)))
    def begin(self, made: list[dict[str, Any]]) -> None:
        for name, node in zip(NODE_NAMES, made, strict=False):
            self.world.create(_a_node(name, node))
            self.world.deliver((Node, name))

    # ---- Pods come, change and go

    @rule(made=st.lists(PODS, min_size=2, max_size=5), on=st.sampled_from([None, None, None, *NODE_NAMES]))
    def create_pods(self, made: list[dict[str, Any]], on: str | None) -> None:
        """New pods, some of them on a node that another scheduler has chosen, or that nobody knows."""
        free = [name for name in NAMES if (Pod, f"default/{name}") not in self.world.store]
        for name, pod in zip(free, made, strict=False):
            self.world.create(self._a_pod(name, pod if on is None else {**pod, "nodeName": on}))

    def _a_pod(self, name: str, made: dict[str, Any]) -> Pod:
        self.made += 1
        made = dict(made)
        for trait in made.pop("traits"):
            made.update(TRAITS[trait])
        labels = {"app": made.pop("app")}
        return a_pod(name, labels=labels, metadata={"uid": f"{name}-{self.made}"}, **made)

    @precondition(lambda self: self.world.pods())
    @rule(data=st.data(), change=st.sampled_from(sorted(POD_CHANGES)))
    def change_pod(self, data: st.DataObject, change: str) -> None:
        POD_CHANGES[change](self.world, data.draw(st.sampled_from(self.world.pods())))

    @precondition(lambda self: self.world.in_the_middle())
    @rule(data=st.data(), change=st.sampled_from(["deleted", "terminating", "relabelled b", "bound behind our back"]))
    def change_pod_in_the_middle(self, data: st.DataObject, change: str) -> None:
        """At once, to a pod that is being bound, waits on Permit, is about to be evicted, or for which that is done."""
        pod = data.draw(st.sampled_from(self.world.in_the_middle()))
        POD_CHANGES[change](self.world, pod)
        while self.world.watch[Pod, pod.key]:
            self.world.deliver((Pod, pod.key))

    # ---- Nodes and budgets

    @rule(name=st.sampled_from(NODE_NAMES), made=NODES, part=st.sampled_from(NODE_PARTS))
    def change_node(self, name: str, made: dict[str, Any], part: str) -> None:
        """A node comes, goes, or becomes in part like another one."""
        node, other = self.world.store.get((Node, name)), _a_node(name, made)
        if not isinstance(node, Node):
            self.world.create(other)
        elif part == "gone":
            self.world.delete(node)
        elif part == "labels":
            self.world.change(msgspec.structs.replace(node, metadata=other.metadata))
        elif part == "status":
            self.world.change(msgspec.structs.replace(node, status=other.status))
        else:
            spec = msgspec.structs.replace(node.spec, **{part: getattr(other.spec, part)})
            self.world.change(msgspec.structs.replace(node, spec=spec))

    @rule(mood=st.sampled_from(["go", "wait", "wait", "refuse"]), allowed=st.integers(0, 1), app=st.sampled_from("ab"))
    def change_mood_and_budget(self, mood: Mood, allowed: int, app: str) -> None:
        self.world.gatekeeper.mood = mood
        self._put(_a_budget(app, allowed))

    def _put(self, item: KubeObject) -> None:
        known = (type(item), item.key) in self.world.store
        (self.world.change if known else self.world.create)(item)

    # ---- What is on its way arrives, and the scheduler works

    @rule(seed=st.integers(0, 1 << 32), moves=st.integers(1, 30), late=st.sampled_from(LATE))
    def bustle(self, seed: int, moves: int, late: frozenset[str]) -> None:
        """Many things happen one after the other, whichever; some kinds of them not for the time being."""
        self.do_many(seed, moves, late)

    @rule(seed=st.integers(0, 1 << 32))
    def bustle_long(self, seed: int) -> None:
        self.do_many(seed, 40, frozenset())

    @rule(seed=st.integers(0, 1 << 32), pods=st.lists(PODS, min_size=2, max_size=5))
    def create_pods_amid_bustle(self, seed: int, pods: list[dict[str, Any]]) -> None:
        self.create_pods(pods, None)
        self.do_many(seed, 15, frozenset())

    def do_many(self, seed: int, moves: int, late: frozenset[str]) -> None:
        random = Random(seed)
        for _ in range(moves):
            possible = [move for move in self._moves(random) if move[0] not in late]
            if not possible:
                return
            random.choice(possible)[1]()
            self.is_in_order()
            self.each_pod_is_in_one_place()

    def _moves(self, random: Random) -> list[tuple[str, Callable[[], object]]]:
        world = self.world
        moves: list[tuple[str, Callable[[], object]]] = [("attempt", world.attempt)]
        if unseen := world.unseen():
            moves.append(("watch", lambda: world.deliver(random.choice(unseen), random.random() < 0.5)))
            moves.append(("watch", lambda: world.deliver(random.choice(unseen))))
        if requested := world.requested():
            bind: BindOutcome = random.choice(BINDS)
            evicts, gracefully = random.random() < 0.8, random.random() < 0.5
            moves.append(("request", lambda: world.execute(random.choice(requested), bind, evicts, gracefully)))
        if unanswered := world.unanswered():
            moves.append(("answer", lambda: world.answer(random.choice(unanswered))))
        if waiting := list(world.scheduler.core.services.waiting):
            one = random.choice(waiting)
            moves.append(("permit", lambda: one.allow("Gatekeeper")))
            moves.append(("permit", lambda: one.reject("Gatekeeper", "on second thoughts")))
            moves.append(("release", world.release))
        return moves

    @precondition(lambda self: self.world.elapsed_s < 150)
    @rule(seconds=st.sampled_from([1, 1, 1, 2, 5, 11]))
    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.world.pass_second()

    # ---- What always holds

    @invariant()
    def is_in_order(self) -> None:
        assert self.world.scheduler.check() == []

    @invariant()
    def each_pod_is_in_one_place(self) -> None:
        core = self.world.scheduler.core
        for pod in core.pods.values():
            if pod.spec.node_name:
                continue
            queued = core.queue.get(pod.key) is not None
            held = core.cache.is_assumed(pod.id)
            bound = pod.id in core.bindings
            assert bound or not core.queue.is_in_flight(pod.id), f"{pod.key} is lost in flight"
            if pod.is_terminating:
                # Parity: a pod that is on its way out is taken from the queue and not put back (cycle.md §1.4), and
                # one that was being bound is forgotten at once (events.md §3.4) but queued by its next update.
                assert not (queued and held), f"{pod.key} is queued and assumed"
            else:
                assert queued + held == 1, f"{pod.key}: queued {queued}, assumed {held}, bound {bound}"
        queued_keys = {entry.key for entry in core.queue.entries()}
        assert {key for key in queued_keys if key not in core.pods} == set()

    @invariant()
    def nothing_assumed_outlives_its_pod(self) -> None:
        core = self.world.scheduler.core
        known = {pod.id for pod in core.pods.values()}
        for pod in core.cluster.nodes.pods():
            if pod.id not in known:
                assert core.services.waiting.get(pod.id) is not None, f"{pod.key} is gone and still holds room"

    @invariant()
    def nominated_are_only_pods_that_wait(self) -> None:
        core = self.world.scheduler.core
        waiting = {pod.id: pod for pod in core.pods.values() if not pod.spec.node_name}
        nominated = core.queue.nominations.node_of_pod
        assert nominated == {
            pod_id: core.cluster.nominated.node_of(pod_id) for pod_id in core.cluster.nominated.pod_ids()
        }
        assert nominated.keys() <= waiting.keys()
        assert not any(core.cache.is_assumed(uid) for uid in nominated)
        for uid, node in nominated.items():
            promised = next(pod for pod in core.cluster.nominated.on(node) if pod.id == uid)
            assert promised.shape is waiting[uid].shape and promised.label_set is waiting[uid].label_set

    @invariant()
    def nobody_was_rescued(self) -> None:
        assert self.world.scheduler.core.queue.counters.rescued == 0

    # ---- Rest

    @precondition(lambda self: self.world.elapsed_s < 180)
    @rule()
    def come_to_rest(self) -> None:
        self.world.come_to_rest()
        self._check_rest()

    def teardown(self) -> None:
        if sys.exception() is not None:
            return
        world = self.world
        world.come_to_rest()
        stranded = self._check_rest()
        assert world.scheduler.core.queue.counters.rescued == 0
        for _ in range(331):
            world.pass_second()
        world.come_to_rest()
        assert not any(world.unschedulable_since.get(uid) is since for uid, since in stranded.items()), (
            "they wait for ever"
        )

    def _check_rest(self) -> dict[str, UnschedulableSince]:
        """At rest nobody waits that a scheduler would place which starts now. Returns those who do, and may."""
        world, core = self.world, self.world.scheduler.core
        self.is_in_order()
        self.each_pod_is_in_one_place()
        assert not core.bindings and not core.evictions.by_preemptor and not len(core.services.waiting)
        assert {p.id: p for p in core.cluster.nodes.pods()} == {p.id: p for p in world.pods() if p.spec.node_name}
        assert not core.cache.assumed_count and not core.queue.in_flight.uids()
        assert not [e.key for e in core.queue.entries() if e.gating_plugin == "DefaultPreemption"]
        fresh = world.fresh()
        assert core.queue.nominations.node_of_pod == fresh.core.queue.nominations.node_of_pod
        stranded = {}
        for entry in world.unschedulable():
            now = verdict(world.scheduler, entry.pod)
            anew = verdict(fresh, entry.pod)
            if not world.shared_ports.intersection(entry.pod.shape.host_ports):
                assert _told(now) == _told(anew), f"{entry.key}: {_told(now)}, but a fresh scheduler: {_told(anew)}"
            if isinstance(anew, Placement):
                assert excuse(entry, world.unschedulable_since[entry.uid].turns) is not None, self._story(entry)
                stranded[entry.uid] = world.unschedulable_since[entry.uid]
        return stranded

    def _story(self, entry: QueuedPod) -> str:
        causes = "\n".join(map(str, self.world.unschedulable_since[entry.uid].turns))
        spec = msgspec.json.encode(entry.pod).decode()
        story = "\n".join(self.world.stories[entry.key][-12:])
        return (
            f"\nSTRANDED {entry.key} {spec}\nrejected by {entry.rejectors}\n"
            f"verdicts changed when\n{causes}\nstory:\n{story}\n"
        )


def _told(decision: Decision) -> str:
    match decision:
        case Placement():
            return f"goes to {decision.node} with {decision.score} of {decision.feasible_count}"
        case NoFit():
            return f"{decision.message} By {sorted(decision.diagnosis.plugins)}"
        case DecisionError():
            return decision.error


def excuse(entry: QueuedPod, turns: list[Cause]) -> str | None:
    """The rule of upstream by which a pod may wait although it would fit; None: it was lost.

    `turns` is what changed the verdict about some node since the pod was unschedulable: one of them should have woken it.
    """
    return next((name for name, applies in EXCUSES.items() if any(applies(entry, turn) for turn in turns)), None)


def _one_of_several_terms(entry: QueuedPod, turn: Cause) -> bool:
    """v1.37.md 4.7: an unwanted neighbour whose labels change wakes whom it kept away only if it meets none of the
    anti-affinity terms any more. If it still meets one, it may be unwanted in fewer domains."""
    mine, new = _anti_terms(entry.pod), turn.new
    if "InterPodAffinity" not in entry.rejectors or not isinstance(turn.old, Pod) or not isinstance(new, Pod):
        return False
    return "not at all" not in (_speak_of(mine, turn.old), _speak_of(mine, new))


def _anti_terms(pod: Pod) -> tuple[AffinityTerm, ...]:
    return pod.shape.terms(pod.namespace).anti_affinity


def _speak_of(terms: tuple[AffinityTerm, ...], pod: Pod) -> str:
    speaking = sum(term.speaks_of(pod.namespace, pod.labels, {}) for term in terms)
    return "in part" if 0 < speaking < len(terms) else "not at all" if not speaking else "all"


def _only_spread_heeds_nodes_that_go(entry: QueuedPod, turn: Cause) -> bool:
    """events.md §5: of default plugins only PodTopologySpread listens to Node/Delete. The pods of the node no longer
    keep others out of its zone, but nobody hears of it before they are deleted too."""
    return isinstance(turn.old, Node) and turn.new is None and "InterPodAffinity" in entry.rejectors


def _room_left_for_other_room(entry: QueuedPod, turn: Cause) -> bool:
    """A pod gets a node other than the one that it was promised, or that we had assumed it on because someone else has
    bound it: nothing is said of the room that it did not take. cycle.md §9.1 and events.md §3.2, §8.5 (a pod that gets
    a node is promised none any more, and leaves the queue in silence), cache.md §2 (Add of a pod that is assumed
    elsewhere is worth a line in the log)."""
    placed = {pod.id: pod.spec.node_name for pod in turn.came if pod.spec.node_name}
    return any(gone.id in placed and gone.spec.node_name != placed[gone.id] for gone in turn.left)


def _first_of_its_kind(entry: QueuedPod, turn: Cause) -> bool:
    """plugins-spread-affinity.md B.3 against B.7: when nobody is left whom the affinity of a pod means, and it means
    itself, it may go anywhere. But hints hear only of wanted neighbours that come, and not of a last one that goes,
    or whose node goes or loses the label."""
    pod = entry.pod
    mine = pod.shape.terms(pod.namespace).affinity
    if "InterPodAffinity" not in entry.rejectors or _speak_of(mine, pod) != "all":
        return False
    return isinstance(turn.old, Node) or any(_speak_of(mine, gone) == "all" for gone in turn.left)


def _no_node_helps_without_terms(entry: QueuedPod, turn: Cause) -> bool:
    """plugins-spread-affinity.md B.7: a pod that has no required terms was rejected by the anti-affinity of others, and
    is never woken by nodes that come or change their labels."""
    terms = entry.pod.shape.terms(entry.pod.namespace)
    has_terms = terms.affinity or terms.anti_affinity
    return "InterPodAffinity" in entry.rejectors and not has_terms and isinstance(turn.new, Node)


def _spread_heeds_only_its_keys(entry: QueuedPod, turn: Cause) -> bool:
    """plugins-spread-affinity.md A.8 against A.3: a node that the pod's node selector no longer matches is not counted
    any more, which may lift the minimum. But of a node's labels the hint compares only those that are spread over."""
    return (
        "PodTopologySpread" in entry.rejectors
        and isinstance(turn.old, Node)
        and isinstance(turn.new, Node)
        and turn.old.labels != turn.new.labels
    )


EXCUSES: dict[str, Callable[[QueuedPod, Cause], bool]] = {
    "an unwanted neighbour of several terms": _one_of_several_terms,
    "only spread heeds nodes that go": _only_spread_heeds_nodes_that_go,
    "room that is left for other room": _room_left_for_other_room,
    "the first of its kind": _first_of_its_kind,
    "no node helps without terms": _no_node_helps_without_terms,
    "spread heeds only its keys": _spread_heeds_only_its_keys,
}


def _a_node(name: str, made: dict[str, Any]) -> Node:
    made = dict(made)
    zone, disk = made.pop("zone"), made.pop("disk")
    labels = {HOST: name, "disk": disk} | ({} if zone is None else {ZONE: zone})
    node = a_node(name, labels=labels, **made)
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, uid=f"uid-{name}"))


def _a_budget(app: str, allowed: int) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": app, "namespace": "default", "uid": f"budget-{app}"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


TestScheduler = pytest.mark.slow(SchedulerMachine.TestCase)
TestScheduler.settings = settings(
    max_examples=max(1, STEPS // EXAMPLE_STEPS),
    stateful_step_count=EXAMPLE_STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# ---- Each excuse is needed: a story in which upstream's rules strand a pod


def _many_terms(world: DelayedCluster) -> None:
    _nodes(world, n0={ZONE: "a"}, n1={ZONE: "a"})
    guard = _pod(world, "guard", on="n0", app="a")
    _pod(world, "waits", **away(term("a", ZONE), term("b", HOST)))
    _relabel(world, guard, "b")


def _node_goes(world: DelayedCluster) -> None:
    _nodes(world, n0={ZONE: "a"}, n1={ZONE: "a"})
    _pod(world, "guard", on="n1", app="b", **away(term("a", ZONE)))
    _pod(world, "waits")
    world.delete(world.store[Node, "n1"])


def _bound_elsewhere(world: DelayedCluster) -> None:
    _nodes(world, n0={})
    first = _pod(world, "first", rests=False, cpu="3")
    world.attempt()
    _pod(world, "waits", rests=False, cpu="3")
    world.attempt()
    world.bind(first, "n3")


def _last_neighbour_changes(world: DelayedCluster) -> None:
    _nodes(world, n0={ZONE: "a"}, n1={ZONE: "b"})
    friend = _pod(world, "friend", on="n0", cpu="3")
    _pod(world, "waits", **near(term("a", ZONE)))
    _relabel(world, friend, "b")


def _node_comes(world: DelayedCluster) -> None:
    _nodes(world, n0={ZONE: "a"})
    _pod(world, "guard", on="n0", app="b", **away(term("a", ZONE)))
    _pod(world, "waits")
    _nodes(world, n1={ZONE: "b"})


def _node_is_counted_no_more(world: DelayedCluster) -> None:
    _nodes(world, n0={ZONE: "a", "disk": "ssd"}, n1={ZONE: "b", "disk": "ssd"})
    _pod(world, "friend", on="n0")
    _pod(world, "full", on="n1", app="b", cpu="3")
    _pod(world, "waits", **spread(ZONE), **TRAITS["on ssd"])
    world.change(a_node("n1", cpu="3", labels={HOST: "n1", ZONE: "b", "disk": "hdd"}))


def _nodes(world: DelayedCluster, **labels: dict[str, str]) -> None:
    for name, more in labels.items():
        world.create(a_node(name, cpu="3", labels={HOST: name, **more}))
    world.come_to_rest()


def _pod(world: DelayedCluster, name: str, app: str = "a", on: str = "", rests: bool = True, **more: Any) -> Pod:
    spec = {"cpu": "1", "schedulerName": DEFAULT, "nodeName": on, **more}
    pod = a_pod(name, labels={"app": app}, metadata={"uid": f"uid-{name}"}, **spec)
    world.create(pod)
    world.deliver((Pod, pod.key))
    if rests:
        world.come_to_rest()
    return pod


STORIES: dict[str, Callable[[DelayedCluster], None]] = {
    "an unwanted neighbour of several terms": _many_terms,
    "only spread heeds nodes that go": _node_goes,
    "room that is left for other room": _bound_elsewhere,
    "the first of its kind": _last_neighbour_changes,
    "no node helps without terms": _node_comes,
    "spread heeds only its keys": _node_is_counted_no_more,
}


@pytest.mark.parametrize("name", EXCUSES)
def test_a_pod_is_stranded_as_upstream_strands_it(name: str) -> None:
    world = DelayedCluster()
    STORIES[name](world)
    world.come_to_rest()
    (entry,) = world.unschedulable()
    assert entry.pod.name == "waits"
    assert isinstance(verdict(world.fresh(), entry.pod), Placement)
    assert excuse(entry, world.unschedulable_since[entry.uid].turns) == name
    for _ in range(331):
        world.pass_second()
    world.come_to_rest()
    assert world.unschedulable() == []
    assert world.scheduler.core.queue.counters.rescued == 1
