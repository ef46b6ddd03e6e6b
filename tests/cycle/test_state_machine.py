"""Any sequence of changes, with everything late: no pod is ever lost, counted twice, or left to wait for no reason."""

import os
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from late_world import CAREFUL, DEFAULT, BindOutcome, Cause, LateWorld, Mood, verdict

from build import a_node, a_pod, a_taint
from mooring.cycle.decision import Placement
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.queue.entry import QueuedPod

STEPS = int(os.environ.get("MOORING_STEPS", "2000"))
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
NAMES = [f"p{i}" for i in range(9)]
NODE_NAMES = [f"n{i}" for i in range(4)]

PODS = st.fixed_dictionaries(
    {
        "traits": st.lists(st.sampled_from(list(TRAITS)), min_size=1, max_size=2),
        "cpu": st.sampled_from(["500m", "1", "1", "2"]),
        "priority": st.sampled_from([0, 0, 10, 100]),
        "app": st.sampled_from("aab"),
        "schedulerName": st.sampled_from([DEFAULT, DEFAULT, CAREFUL]),
    }
)
NODES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["1", "2", "3"]),
        "pods": st.sampled_from([2, 4]),
        "zone": st.sampled_from(["a", "b", None]),
        "disk": st.sampled_from(["ssd", "hdd"]),
        "taints": st.sampled_from([(), (), ("dedicated=x:NoSchedule",)]),
        "unschedulable": st.sampled_from([False, False, True]),
    }
)


class SchedulerMachine(RuleBasedStateMachine):
    """Everything that can happen to a scheduler, in any order, and what must hold all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.world = LateWorld()
        self.made = 0

    # ---- Pods come, change and go

    @rule(name=st.sampled_from(NAMES), made=PODS)
    def create_pod(self, name: str, made: dict[str, Any]) -> None:
        if (Pod, f"default/{name}") not in self.world.store:
            self.world.create(self._a_pod(name, made))

    @precondition(lambda self: self.world.nodes())
    @rule(name=st.sampled_from(NAMES), made=PODS, data=st.data())
    def create_pod_on_a_node(self, name: str, made: dict[str, Any], data: st.DataObject) -> None:
        if (Pod, f"default/{name}") not in self.world.store:
            made = {**made, "nodeName": data.draw(st.sampled_from(NODE_NAMES))}
            self.world.create(self._a_pod(name, made))

    def _a_pod(self, name: str, made: dict[str, Any]) -> Pod:
        self.made += 1
        made = dict(made)
        for trait in made.pop("traits"):
            made.update(TRAITS[trait])
        labels = {"app": made.pop("app")}
        return a_pod(name, labels=labels, metadata={"uid": f"{name}-{self.made}"}, **made)

    @precondition(lambda self: self.world.pods())
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self.world.delete(data.draw(st.sampled_from(self.world.pods())))

    @precondition(lambda self: self.world.pods())
    @rule(data=st.data())
    def terminate_pod(self, data: st.DataObject) -> None:
        self.world.terminate(data.draw(st.sampled_from(self.world.pods())))

    @precondition(lambda self: any(pod.spec.node_name for pod in self.world.pods()))
    @rule(data=st.data())
    def finish_pod(self, data: st.DataObject) -> None:
        self.world.finish(data.draw(st.sampled_from([pod for pod in self.world.pods() if pod.spec.node_name])))

    @precondition(lambda self: self.world.pods())
    @rule(data=st.data(), app=st.sampled_from("ab"))
    def relabel_pod(self, data: st.DataObject, app: str) -> None:
        pod = data.draw(st.sampled_from(self.world.pods()))
        metadata = msgspec.structs.replace(pod.metadata, labels={"app": app})
        self.world.change(Pod(metadata=metadata, spec=pod.spec, status=pod.status))

    @precondition(lambda self: any(not pod.spec.node_name for pod in self.world.pods()))
    @rule(data=st.data(), gates=st.sampled_from([None, [{"name": "one"}]]))
    def open_gates_or_tolerate(self, data: st.DataObject, gates: Any) -> None:
        pod = data.draw(st.sampled_from([pod for pod in self.world.pods() if not pod.spec.node_name]))
        if pod.spec.scheduling_gates:
            spec = msgspec.structs.replace(pod.spec, scheduling_gates=pod.spec.scheduling_gates[1:] if gates else None)
        else:
            spec = msgspec.structs.replace(pod.spec, tolerations=a_pod(**TRAITS["tolerant"]).spec.tolerations)
        self.world.change(Pod(metadata=pod.metadata, spec=spec, status=pod.status))

    @precondition(lambda self: any(not pod.spec.node_name for pod in self.world.pods()))
    @rule(data=st.data(), node=st.sampled_from(NODE_NAMES))
    def bind_pod_behind_our_back(self, data: st.DataObject, node: str) -> None:
        pod = data.draw(st.sampled_from([pod for pod in self.world.pods() if not pod.spec.node_name]))
        if not pod.is_terminating:
            self.world.bind(pod, node)

    # ---- Nodes and budgets

    @rule(name=st.sampled_from(NODE_NAMES), made=NODES)
    def put_node(self, name: str, made: dict[str, Any]) -> None:
        node = _a_node(name, made)
        if (Node, name) in self.world.store:
            self.world.change(node)
        else:
            self.world.create(node)

    @precondition(lambda self: self.world.nodes())
    @rule(data=st.data(), made=NODES, part=st.sampled_from(["labels", "taints", "allocatable", "unschedulable"]))
    def change_node(self, data: st.DataObject, made: dict[str, Any], part: str) -> None:
        node: Node = data.draw(st.sampled_from(self.world.nodes()))
        other = _a_node(node.name, made)
        metadata, spec, status = node.metadata, node.spec, node.status
        if part == "labels":
            metadata = other.metadata
        elif part == "allocatable":
            status = other.status
        else:
            spec = msgspec.structs.replace(spec, **{part: getattr(other.spec, part)})
        self.world.change(Node(metadata=metadata, spec=spec, status=status))

    @precondition(lambda self: self.world.nodes())
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        self.world.delete(data.draw(st.sampled_from(self.world.nodes())))

    @rule(allowed=st.integers(0, 1), app=st.sampled_from("ab"))
    def put_budget(self, allowed: int, app: str) -> None:
        budget = msgspec.convert(
            {
                "metadata": {"name": app, "namespace": "default", "uid": f"budget-{app}"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": allowed},
            },
            PodDisruptionBudget,
        )
        if (PodDisruptionBudget, budget.key) in self.world.store:
            self.world.change(budget)
        else:
            self.world.create(budget)

    # ---- What is on its way arrives

    @precondition(lambda self: self.world.unseen())
    @rule(data=st.data(), misses=st.booleans())
    def deliver(self, data: st.DataObject, misses: bool) -> None:
        self.world.deliver(data.draw(st.sampled_from(self.world.unseen())), misses)

    @precondition(lambda self: self.world.unseen())
    @rule()
    def deliver_all(self) -> None:
        for ref in self.world.unseen():
            while self.world.watch[ref]:
                self.world.deliver(ref)

    @precondition(lambda self: self.world.requested())
    @rule(
        data=st.data(),
        bind=st.sampled_from(["bound", "bound", "failed", "bound but the answer was lost"]),
        evicts=st.sampled_from([True, True, True, False]),
        gracefully=st.booleans(),
    )
    def execute(self, data: st.DataObject, bind: BindOutcome, evicts: bool, gracefully: bool) -> None:
        self.world.execute(data.draw(st.sampled_from(self.world.requested())), bind, evicts, gracefully)

    @precondition(lambda self: self.world.unanswered())
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.world.answer(data.draw(st.sampled_from(self.world.unanswered())))

    # ---- The scheduler at work

    @rule(times=st.integers(1, 3))
    def attempt(self, times: int) -> None:
        for _ in range(times):
            self.world.attempt()

    @rule(mood=st.sampled_from(["go", "wait", "wait", "refuse"]))
    def change_mood(self, mood: Mood) -> None:
        self.world.gatekeeper.mood = mood

    @precondition(lambda self: len(self.world.scheduler.core.desk.waiting))
    @rule(data=st.data(), allow=st.booleans())
    def decide_on_waiting(self, data: st.DataObject, allow: bool) -> None:
        waiting = data.draw(st.sampled_from(list(self.world.scheduler.core.desk.waiting)))
        if allow:
            waiting.allow("Gatekeeper")
        else:
            waiting.reject("Gatekeeper", "on second thoughts")

    @precondition(lambda self: len(self.world.scheduler.core.desk.waiting))
    @rule()
    def release(self) -> None:
        self.world.release()

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
            assert not core.queue.is_in_flight(pod.id) or (held and bound), f"{pod.key} is lost in flight"
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
                assert core.desk.waiting.get(pod.id) is not None, f"{pod.key} is gone and still holds room"

    @invariant()
    def nominated_are_only_pods_that_wait(self) -> None:
        core = self.world.scheduler.core
        waiting = {pod.id: pod for pod in core.pods.values() if not pod.spec.node_name}
        nominated = core.queue.nominations._node_of
        assert nominated == core.nominated._node_of
        assert nominated.keys() <= waiting.keys()
        assert not any(core.cache.is_assumed(uid) for uid in nominated)
        for uid, node in nominated.items():
            promised = next(pod for pod in core.nominated.on(node) if pod.id == uid)
            assert promised.shape is waiting[uid].shape and promised.kin is waiting[uid].kin

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
        world = self.world
        world.come_to_rest()
        stranded = self._check_rest()
        assert world.scheduler.core.queue.counters.rescued == 0
        for _ in range(331):
            world.pass_second()
        world.come_to_rest()
        assert world.scheduler.core.queue.counters.rescued <= len(stranded)

    def _check_rest(self) -> list[str]:
        """At rest nobody waits that a scheduler would place which starts now. Returns those who do, and may."""
        world, core = self.world, self.world.scheduler.core
        self.is_in_order()
        self.each_pod_is_in_one_place()
        assert not core.bindings and not core.evictions and not len(core.desk.waiting)
        assert not core.cache.assumed_count and not core.queue._in_flight.uids()
        fresh = world.fresh()
        stranded = []
        for entry in world.parked():
            now = verdict(world.scheduler, entry.pod)
            anew = verdict(fresh, entry.pod)
            assert now == anew, f"{entry.key}: {now} differs from a fresh {anew}"
            if isinstance(anew, Placement):
                assert excuse(entry, world.cures[entry.uid]) is not None, self._story(entry)
                stranded.append(entry.uid)
        return stranded

    def _story(self, entry: QueuedPod) -> str:
        cause = self.world.cures[entry.uid]
        spec = msgspec.json.encode(entry.pod).decode()
        story = "\n".join(self.world.stories[entry.key][-12:])
        return f"\nSTRANDED {entry.key} {spec}\nrejected by {entry.rejectors}\ncured when {cause}\nstory:\n{story}\n"


def excuse(entry: QueuedPod, cure: Cause) -> str | None:
    return None


def _a_node(name: str, made: dict[str, Any]) -> Node:
    made = dict(made)
    zone, disk = made.pop("zone"), made.pop("disk")
    labels = {HOST: name, "disk": disk} | ({} if zone is None else {ZONE: zone})
    node = a_node(name, labels=labels, **made)
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, uid=f"uid-{name}"))


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    max_examples=max(1, STEPS // EXAMPLE_STEPS),
    stateful_step_count=EXAMPLE_STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
_ = a_taint
