"""Events that name the pods that they are about: the index of the queue moves the same pods as asking about all of them.

The twin is a scheduler whose registrations have no keys, so that its queue asks about every pod that a plugin rejected.
"""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_allocation
from gangs import GROUP_GATES, a_group
from how_many import examples
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.contract.events import Change, Registration
from mooring.framework.contract.points import Plugin
from mooring.kit.clock import VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.plugins.devices.device_claims import DEVICE_EVENTS, claim_matters
from mooring.queue import hints
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler

NAMES = [f"p{i}" for i in range(6)]
CLAIMS = ["c0", "c1", "p0-gpu", "p1-gpu"]
VOLUMES = ["c0", "c1", "p0-v", "p1-v"]
GROUPS = ["g0", "g1"]
SPACES = ["default", "other"]

PODS: dict[str, Callable[[str], dict[str, Any]]] = {
    "plain": lambda name: {},
    "with a gate": lambda name: {"schedulingGates": [{"name": "wait"}]},
    "too large": lambda name: {"cpu": "64"},
    "intolerant": lambda name: {"nodeSelector": {"kubernetes.io/hostname": "tainted"}},
    "with a claim": lambda name: {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c0"}]},
    "with two claims": lambda name: {
        "resourceClaims": [{"name": n, "resourceClaimName": n} for n in ("c0", "c1")],
    },
    "with a claim from a template": lambda name: {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]},
    },
    "with a claim that is yet to be made": lambda name: {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}],
    },
    "with a volume": lambda name: {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}]},
    "with an ephemeral volume": lambda name: {
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
    },
    "with a disk": lambda name: {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]},
    "in a group": lambda name: {"schedulingGroup": {"podGroupName": "g0"}},
    "in another group": lambda name: {"schedulingGroup": {"podGroupName": "g1"}},
    "with a claim, a volume and a group": lambda name: {
        **PODS["with a claim"](name),
        **PODS["with a volume"](name),
        **PODS["in a group"](name),
    },
}

STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(NAMES), st.sampled_from(list(PODS)), st.sampled_from(SPACES)),
    st.tuples(st.just("claim"), st.sampled_from(CLAIMS), st.sampled_from(["free", "given"]), st.sampled_from(SPACES)),
    st.tuples(st.just("volume"), st.sampled_from(VOLUMES), st.sampled_from(["", "pv"]), st.sampled_from(SPACES)),
    st.tuples(st.just("group"), st.sampled_from(GROUPS), st.sampled_from(["1", "2"]), st.sampled_from(SPACES)),
    st.tuples(st.just("made"), st.sampled_from(NAMES), st.just(""), st.sampled_from(SPACES)),
    st.tuples(st.just("open"), st.sampled_from(NAMES), st.just(""), st.sampled_from(SPACES)),
    st.tuples(st.just("delete"), st.sampled_from(["Pod", "ResourceClaim"]), st.sampled_from(NAMES), st.just("default")),
    st.tuples(st.just("attempt"), st.just(""), st.just(""), st.just("")),
    st.tuples(st.just("second"), st.just(""), st.just(""), st.just("")),
)
Step = tuple[str, str, str, str]


class World:
    """A scheduler with two nodes, one of them tainted, and a device."""

    def __init__(self) -> None:
        self.stories: list[str] = []
        clock = VirtualClock(START_NS)
        self.metrics = SchedulerMetrics(clock)
        self.scheduler = build_scheduler(
            config.default(feature_gates=GROUP_GATES),
            clock,
            listeners=SchedulerListeners(
                tell=lambda pod, what: self.stories.append(f"{pod.key}: {what}"),
                report=lambda text, fault: self.stories.append(f"{text}: {fault}"),
                observer=self.metrics,
            ),
            gates=GROUP_GATES,
        )
        self.driver = Driver(clock, self.scheduler, with_versions=True)
        for item in (a_node("n0", cpu="2"), a_node("tainted", cpu="2", taints=["a=b:NoSchedule"]), a_class()):
            self.driver.create(item)
        self.driver.create(a_slice("n0", a_device("d0"), node="n0"))

    def take(self, step: Step) -> None:
        what, name, detail, namespace = step
        metadata = {"name": name, "namespace": namespace}
        if what == "pod":
            more = PODS[detail](name)
            metadata["uid"] = f"uid-{namespace}-{name}"
            self._put(a_pod(name, metadata=metadata, **{"cpu": "1", "schedulerName": "default-scheduler", **more}))
        elif what == "claim":
            status = {"allocation": an_allocation("n0/d0", node="n0")} if detail == "given" else {}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name[:2], "controller": True}
            owners = [{**owner, "uid": f"uid-{namespace}-{name[:2]}"}] if "-" in name else []
            self._put(a_claim(name, metadata={**metadata, "uid": "", "ownerReferences": owners}, status=status))
        elif what == "volume":
            spec = {"storageClassName": "none", "volumeName": detail, "resources": {"requests": {"storage": "1"}}}
            self._put(msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolumeClaim))
            if detail:
                self._put(msgspec.convert({"metadata": {"name": detail}}, PersistentVolume))
        elif what == "group":
            self._put(a_group(name, int(detail), namespace, uid=f"uid-{namespace}-{name}"))
        elif what in ("made", "open"):
            self._change(f"{namespace}/{name}", what)
        elif what == "delete":
            self.driver.delete(name, f"{namespace}/{detail if name == 'Pod' else 'c0'}")
        elif what == "attempt":
            self.driver.attempt_once()
        else:
            self.driver.advance_second()

    def _put(self, item: KubeObject) -> None:
        """Create an object, or replace it. Pods are not replaced: their specs do not change."""
        old = self.driver.objects.get((type(item).__name__, item.key))
        if old is None:
            self.driver.create(item)
        elif not isinstance(item, Pod):
            self.driver._replace(old, item)

    def _change(self, key: str, what: str) -> None:
        """The claim of a pod was made, or its gate opened. Pods on nodes change too: nobody waits for that."""
        pod = self.driver.objects.get(("Pod", key))
        if not isinstance(pod, Pod):
            return
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{pod.name}-gpu"}]}
        written = msgspec.to_builtins(pod)
        if what == "made":
            written["status"] = {**written["status"], **status}
        else:
            written["spec"] = {**written["spec"], "schedulingGates": []}
        self.driver._replace(pod, msgspec.convert(written, Pod))

    def seen(self) -> dict[str, object]:
        """All that the index could change: where pods are and why, and what the queue counts."""
        queue = self.scheduler.core.queue
        durations = self.metrics.registry.text()
        return {
            "stories": self.stories,
            "places": [(entry.key, queue.where(entry.key), entry.rejectors) for entry in queue.entries()],
            "hints": +queue.counters.hints,
            "incoming": dict(queue.counters.incoming),
            "unschedulable": +queue.counters.unschedulable,
            "observed": [line for line in durations.splitlines() if "queueing_hint" in line and "_count" in line],
        }


def without_keys(plugin: Plugin) -> Sequence[Registration]:
    return [msgspec.structs.replace(each, keys=None) for each in ALL_REGISTRATIONS(plugin)]


ALL_REGISTRATIONS = hints.registrations_of


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_pods_move_as_if_every_pod_was_asked_about(steps: list[Step]) -> None:
    world = World()
    with patch.object(hints, "registrations_of", without_keys):
        twin = World()
    for step in steps:
        world.take(step)
        twin.take(step)
        assert world.seen() == twin.seen()
        assert world.scheduler.core.queue.check() == []


def test_each_claim_that_comes_after_its_pod_asks_about_that_pod_alone() -> None:
    asked: list[str] = []
    (claims,) = (each for each in DEVICE_EVENTS if each.hint is claim_matters)

    def counting(pod: Pod, change: Change) -> bool:
        asked.append(pod.name)
        return claim_matters(pod, change)

    counted = msgspec.structs.replace(claims, hint=counting)
    with patch("mooring.plugins.devices.dynamic_resources.DEVICE_EVENTS", (counted,)):
        world = World()
    for i in range(30):
        entries = [{"name": "gpu", "resourceClaimName": f"c{i}"}]
        world.driver.create(a_pod(f"p{i}", schedulerName="default-scheduler", resourceClaims=entries))
    for i in range(30):
        world.driver.create(a_claim(f"c{i}"))
    assert asked == [f"p{i}" for i in range(30)]
    assert world.scheduler.core.queue.pending_counts()["active"] == 30
    label = "resource.k8s.io/ResourceClaimAdd"
    counters = world.scheduler.core.queue.counters
    assert counters.hints == {("DynamicResources", label, "Queue"): 30, ("DynamicResources", label, "QueueSkip"): 435}
