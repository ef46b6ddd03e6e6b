"""What an API server adds. The first rows are recorded: what was sent to a real one, and what it made of that."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from mooring.api.decode import decode
from mooring.inputs.admission import Admission, missing_namespaces
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import Toleration
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.model.workloads import Namespace, PodGroup

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}
ADDED = {
    "schedulerName": "default-scheduler",
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "tolerations": [NOT_READY, UNREACHABLE],
}
ADMITTED = {"name": "p", "namespace": "default", "uid": "e64d66a1", "resourceVersion": "42"}


def typed(kind: str, **written: Any) -> Any:
    decoded, problems = decode(kind, {"metadata": {"name": "x"}, **written})
    assert problems == []
    return decoded


def spec_of(pod: Pod) -> dict[str, Any]:
    spec: dict[str, Any] = msgspec.to_builtins(pod.spec)
    return spec


def admitted(*objects: KubeObject) -> list[str]:
    """Admit the objects to a cluster of them. Each problem names its object."""
    admission = Admission.of(objects)
    return [
        str(problem.at(f"{type(item).__name__} {item.key}")) for item in objects for problem in admission.admit(item)
    ]


RECORDED = [
    pytest.param(
        {"containers": [{"name": "c", "image": "nginx"}]},
        {**ADDED, "containers": [{"name": "c", "image": "nginx", "resources": {}}]},
        id="a bare pod",
    ),
    pytest.param(
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "200m", "memory": "64Mi"}}}]},
        {
            **ADDED,
            "containers": [
                {
                    "name": "c",
                    "resources": {
                        "limits": {"cpu": "200m", "memory": "64Mi"},
                        "requests": {"cpu": "200m", "memory": "64Mi"},
                    },
                }
            ],
        },
        id="limits only",
    ),
]


@pytest.mark.parametrize(("sent", "stored"), RECORDED)
def test_as_a_real_server_does(sent: dict[str, Any], stored: dict[str, Any]) -> None:
    pod = typed("Pod", spec=sent)
    assert admitted(pod) == []
    assert spec_of(pod) == stored
    assert (pod.namespace, pod.uid, pod.status.phase) == ("default", "default/x", "Pending")


ALREADY_STORED = [
    pytest.param("Pod", {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}, id="a pod"),
    pytest.param(
        "Pod", {"spec": {"containers": [{"name": "c"}], "priorityClassName": "gone", "priority": 9}}, id="its class"
    ),
    pytest.param("Pod", {"spec": {"containers": [{"name": "c"}], "runtimeClassName": "vm"}}, id="its runtime class"),
    pytest.param("Node", {"status": {"capacity": {"cpu": "4"}}}, id="a node"),
    pytest.param("Namespace", {"metadata": {**ADMITTED, "namespace": ""}}, id="a namespace"),
    pytest.param("PersistentVolume", {"spec": {"capacity": {"storage": "1"}}}, id="a volume"),
    pytest.param("StorageClass", {"provisioner": "x"}, id="a storage class"),
]


@pytest.mark.parametrize(("kind", "written"), ALREADY_STORED)
def test_what_a_server_has_seen_stays_as_it_is(kind: str, written: dict[str, Any]) -> None:
    stored = typed(kind, **{"metadata": ADMITTED, **written})
    before = msgspec.to_builtins(stored)
    others = [
        typed("LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1"}}]}),
        typed("RuntimeClass", metadata={"name": "vm"}, overhead={"podFixed": {"cpu": "1"}}),
        typed("PriorityClass", value=5, globalDefault=True),
    ]
    assert admitted(stored, *others) == []
    assert msgspec.to_builtins(stored) == before


def test_admitting_twice_changes_nothing() -> None:
    term = {"labelSelector": {}, "topologyKey": "z", "matchLabelKeys": ["app"]}
    pod = a_pod(labels={"app": "web"}, affinity={"podAffinity": {HARD: [term]}}, cpu="0.1m")
    admitted(pod)
    once = msgspec.to_builtins(pod)
    admitted(pod)
    assert msgspec.to_builtins(pod) == once


CRITICAL = "system-node-critical"
HIGH = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
LOW = {"metadata": {"name": "low"}, "value": -5, "globalDefault": True}
MIDDLE = {"metadata": {"name": "middle"}, "value": 7, "globalDefault": True}
LOWER = "PreemptLowerPriority"

PRIORITIES = [
    pytest.param({}, [], (0, LOWER, ""), id="no class at all"),
    pytest.param({"priorityClassName": "high"}, [HIGH], (1000, "Never", "high"), id="a class with its policy"),
    pytest.param(
        {"priorityClassName": CRITICAL}, [], (2_000_001_000, LOWER, CRITICAL), id="a class that always exists"
    ),
    pytest.param(
        {"priorityClassName": "system-cluster-critical"}, [], (2 * 10**9, LOWER, "system-cluster-critical"), id="other"
    ),
    pytest.param({}, [HIGH, MIDDLE, LOW], (-5, LOWER, "low"), id="the lowest of the global defaults"),
    pytest.param({"priority": 3}, [LOW], (3, LOWER, ""), id="a priority of its own and no class"),
    pytest.param(
        {"priorityClassName": "high"}, [HIGH, LOW], (1000, "Never", "high"), id="its class before the default"
    ),
    pytest.param(
        {"priorityClassName": "gone", "priority": 4}, [], (4, LOWER, "gone"), id="an absent class, value known"
    ),
]


@pytest.mark.parametrize(("spec", "classes", "expected"), PRIORITIES)
def test_priority(spec: dict[str, Any], classes: list[dict[str, Any]], expected: tuple[int, str, str]) -> None:
    pod = a_pod(**spec)
    assert admitted(pod, *(typed("PriorityClass", **written) for written in classes)) == []
    assert (pod.spec.priority, pod.spec.preemption_policy, pod.spec.priority_class_name) == expected


@pytest.mark.parametrize("kind", ["PodGroup", "CompositePodGroup"])
@pytest.mark.parametrize(("spec", "classes", "expected"), PRIORITIES)
def test_a_group_has_the_priority_of_its_class_too(
    spec: dict[str, Any], classes: list[dict[str, Any]], expected: tuple[int, str, str], kind: str
) -> None:
    group: Any = typed(kind, metadata={"name": "g"}, spec=spec)
    assert admitted(group, *(typed("PriorityClass", **written) for written in classes)) == []
    assert (group.spec.priority, group.spec.priority_class_name or "") == (expected[0], expected[2])
    assert group.spec.preemption_policy is None, "the gate PodGroupPreemptionPolicy is off"


def test_a_group_has_the_preemption_policy_of_its_class_with_the_gate() -> None:
    high, group = typed("PriorityClass", **HIGH), typed("PodGroup", spec={"priorityClassName": "high"})
    assert Admission.of([high], {"PodGroupPreemptionPolicy": True}).admit(group) == []
    assert isinstance(group, PodGroup) and group.spec.preemption_policy == "Never"


REFUSED = [
    pytest.param(
        {"priorityClassName": "nope"},
        'spec.priorityClassName: Invalid value: "nope": must be a known class: '
        "high, system-cluster-critical, system-node-critical",
        id="an unknown class",
    ),
    pytest.param(
        {"priorityClassName": "high", "priority": 5},
        "spec.priority: Invalid value: 5: must be 1000, the value of PriorityClass high",
        id="a priority that is not that of its class",
    ),
    pytest.param(
        {"priorityClassName": "high", "preemptionPolicy": LOWER},
        f'spec.preemptionPolicy: Invalid value: "{LOWER}": must be Never, the policy of PriorityClass high',
        id="a policy that is not that of its class",
    ),
    pytest.param(
        {"runtimeClassName": "vm", "nodeSelector": {"kvm": "no"}},
        'spec.nodeSelector.kvm: Invalid value: "no": must be yes, as RuntimeClass vm has it',
        id="a node selector that contradicts the runtime class",
    ),
    pytest.param(
        {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
        "spec.overhead: Invalid value: an object: must be that of RuntimeClass vm",
        id="an overhead that the runtime class does not have",
    ),
    pytest.param(
        {"containers": [{"name": "c", "resources": {"limits": {"cpu": "4"}}}]},
        "spec.containers: maximum cpu usage per Container is 3, but limit is 4, as a LimitRange of default says",
        id="more than a limit range allows",
    ),
]


@pytest.mark.parametrize(("spec", "text"), REFUSED)
def test_what_admission_refuses(spec: dict[str, Any], text: str) -> None:
    runtime = typed("RuntimeClass", metadata={"name": "vm"}, scheduling={"nodeSelector": {"kvm": "yes"}})
    limits = typed("LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "3"}}]})
    others = (typed("PriorityClass", **HIGH), runtime, limits)
    assert admitted(a_pod("web", **spec), *others) == [f"Pod default/web: {text}"]


TOLERATED = [
    pytest.param([], [NOT_READY, UNREACHABLE], id="both are added"),
    pytest.param([{"operator": "Exists"}], [{"operator": "Exists"}], id="everything is tolerated already"),
    pytest.param(
        [{**NOT_READY, "tolerationSeconds": 5}], [{**NOT_READY, "tolerationSeconds": 5}, UNREACHABLE], id="one is there"
    ),
    pytest.param(
        [{"key": NOT_READY["key"], "operator": "Exists", "effect": "NoSchedule"}],
        [{"key": NOT_READY["key"], "operator": "Exists", "effect": "NoSchedule"}, NOT_READY, UNREACHABLE],
        id="another effect does not count",
    ),
]


@pytest.mark.parametrize(("written", "expected"), TOLERATED)
def test_default_tolerations(written: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    pod = a_pod(tolerations=written)
    admitted(pod)
    assert pod.spec.tolerations == msgspec.convert(expected, list[Toleration])


def requests_of(pod: Pod) -> list[dict[str, Any]]:
    return [(c.resources.requests if c.resources else None) or {} for c in pod.shape.containers]


def test_requests_come_from_limits_by_resource() -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    pod = a_pod(
        initContainers=[{"name": "i", "resources": {"limits": {"cpu": "3"}}}],
        containers=[{"name": "c", "resources": resources}],
    )
    admitted(pod)
    assert requests_of(pod) == [{"cpu": "3"}, {"cpu": "1", "memory": "1Gi"}]


POD_LEVEL = [
    pytest.param(
        {"limits": {"cpu": "4", "memory": "8Gi"}}, {"cpu": "1500m", "memory": "8Gi"}, id="containers, else limits"
    ),
    pytest.param({"requests": {"cpu": "2"}}, {"cpu": "2"}, id="requests without limits stay"),
    pytest.param({"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}, {"cpu": "3"}, id="what is written stays"),
]


@pytest.mark.parametrize(("resources", "expected"), POD_LEVEL)
def test_requests_of_the_pod_as_a_whole(resources: dict[str, Any], expected: dict[str, str]) -> None:
    containers = [{"name": n, "resources": {"requests": {"cpu": cpu}}} for n, cpu in (("c", "1"), ("d", "500m"))]
    pod = a_pod(containers=containers, resources=resources, overhead={"cpu": "7"})
    admitted(pod)
    assert pod.spec.resources is not None
    assert pod.spec.resources.requests == expected


def test_quantities_are_rounded_up_to_milli_and_nonsense_is_left_to_validation() -> None:
    pod = a_pod(requests={"cpu": "0.1m", "memory": "100.5m", "ephemeral-storage": "1x"}, overhead={"cpu": "1u"})
    limited = a_pod("other", containers=[{"name": "c", "resources": {"limits": {"cpu": "0.5m"}}}])
    admitted(pod, limited)
    assert requests_of(pod) == [{"cpu": "1m", "memory": "101m", "ephemeral-storage": "1x"}]
    assert pod.spec.overhead == {"cpu": "1m"}
    assert requests_of(limited) == [{"cpu": "1m"}]


def test_rbd_volumes_have_a_pool() -> None:
    pod = a_pod(volumes=[{"name": "a", "rbd": {}}, {"name": "b", "rbd": {"pool": "mine"}}, {"name": "c"}])
    admitted(pod)
    assert [volume.rbd and volume.rbd.pool for volume in pod.spec.volumes or ()] == ["rbd", "mine", None]


def test_the_newest_default_storage_class_wins_then_the_first_by_name() -> None:
    def a_class(name: str, created: str | None) -> KubeObject:
        marks = {"storageclass.kubernetes.io/is-default-class": "true"}
        meta = {"name": name, "creationTimestamp": created, "annotations": marks}
        found: KubeObject = typed("StorageClass", metadata=meta)
        return found

    old, new = "2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
    for classes, winner in (
        ([a_class("a", old), a_class("c", new), a_class("b", new)], "b"),
        ([a_class("b", None), a_class("a", None)], "a"),
        ([a_class("b", None), a_class("a", old)], "a"),
    ):
        claim: PersistentVolumeClaim = typed("PersistentVolumeClaim")
        admitted(*classes, claim)
        assert claim.class_name == winner


LIMITS = [
    pytest.param({"default": {"cpu": "1"}}, {}, {"cpu": "1"}, {"cpu": "1"}, id="a default limit is a request too"),
    pytest.param({"max": {"cpu": "2"}}, {}, {"cpu": "2"}, {"cpu": "2"}, id="a maximum is a default limit"),
    pytest.param({"min": {"cpu": "3m"}}, {}, {"cpu": "3m"}, {}, id="a minimum is a default request"),
    pytest.param(
        {"default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {},
        {"cpu": "100m"},
        {"cpu": "1"},
        id="each its own",
    ),
    pytest.param(
        {"defaultRequest": {"cpu": "100m"}},
        {"limits": {"cpu": "4"}},
        {"cpu": "4"},
        {"cpu": "4"},
        id="limits of the container become its requests first",
    ),
    pytest.param(
        {"type": "Pod", "default": {"cpu": "1"}},
        {"requests": {"cpu": "9"}},
        {"cpu": "9"},
        {},
        id="limits of pods add nothing",
    ),
]


@pytest.mark.parametrize(("item", "resources", "requests", "limits"), LIMITS)
def test_limit_ranges(
    item: dict[str, Any], resources: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    pod = a_pod(containers=[{"name": "c", "resources": resources}])
    elsewhere = a_pod(namespace="other", containers=[{"name": "c"}])
    admitted(pod, elsewhere, typed("LimitRange", spec={"limits": [{"type": "Container", **item}]}))
    given = pod.spec.containers[0].resources
    assert given is not None
    assert (given.requests or {}, given.limits or {}) == (requests, limits)
    assert requests_of(elsewhere) == [{}]


def test_the_first_limit_range_by_name_wins() -> None:
    ranges = [
        typed(
            "LimitRange",
            metadata={"name": name},
            spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}}]},
        )
        for name, cpu in (("b", "2"), ("a", "1"))
    ]
    pod = a_pod(containers=[{"name": "c"}])
    admitted(pod, *ranges)
    assert requests_of(pod) == [{"cpu": "1"}]


def test_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    extra = {"key": "vm", "operator": "Exists"}
    runtime = typed(
        "RuntimeClass",
        metadata={"name": "vm"},
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={"nodeSelector": {"kvm": "yes"}, "tolerations": [extra]},
    )
    pod = a_pod(runtimeClassName="vm", nodeSelector={"disk": "ssd"})
    plain = a_pod("other")
    unknown = a_pod("third", runtimeClassName="gvisor")
    assert admitted(pod, plain, unknown, runtime) == []
    assert pod.spec.overhead == {"cpu": "250m"}
    assert pod.spec.node_selector == {"disk": "ssd", "kvm": "yes"}
    assert (pod.spec.tolerations or [])[-1] == msgspec.convert(extra, Toleration)
    assert plain.spec.overhead is None
    assert unknown.spec.overhead is None


def test_ports_get_a_protocol_and_on_the_host_network_a_host_port() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]
    pod = a_pod(containers=[{"name": "c", "ports": ports}])
    exposed = a_pod("other", hostNetwork=True, containers=[{"name": "c", "ports": ports}])
    admitted(pod, exposed)
    assert [(p.host_port, p.protocol) for p in pod.spec.containers[0].ports or ()] == [(0, "TCP"), (0, "UDP")]
    assert [(p.host_port, p.protocol) for p in exposed.spec.containers[0].ports or ()] == [(80, "TCP"), (53, "UDP")]


def test_label_keys_become_lines_of_the_selector() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "zone",
        "matchLabelKeys": ["hash", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    bare = {"topologyKey": "zone", "matchLabelKeys": ["hash"]}
    pod = a_pod(
        labels={"hash": "abc", "tenant": "t1"},
        affinity={
            "podAffinity": {HARD: [term, bare]},
            "podAntiAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": term}]},
        },
        topologySpreadConstraints=[{"maxSkew": 1, "labelSelector": {}, "matchLabelKeys": ["hash"]}],
    )
    admitted(pod)
    lines = [
        {"key": "hash", "operator": "In", "values": ["abc"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t1"]},
    ]
    affinity = spec_of(pod)["affinity"]
    assert affinity["podAffinity"][HARD][0]["labelSelector"] == {
        "matchLabels": {"app": "web"},
        "matchExpressions": lines,
    }
    assert "labelSelector" not in affinity["podAffinity"][HARD][1]
    assert affinity["podAntiAffinity"][SOFT][0]["podAffinityTerm"]["labelSelector"]["matchExpressions"] == lines
    constraint = (pod.spec.topology_spread_constraints or [])[0]
    assert msgspec.to_builtins(constraint.label_selector) == {"matchExpressions": lines[:1]}
    assert (constraint.node_affinity_policy, constraint.node_taints_policy, constraint.min_domains) == (
        None,
        None,
        None,
    )


def test_nodes_volumes_claims_and_classes() -> None:
    node: Node = typed("Node", metadata={"name": "n", "namespace": "odd"}, status={"capacity": {"cpu": "4"}})
    small: Node = typed("Node", status={"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}})
    volume: PersistentVolume = typed("PersistentVolume")
    bound: PersistentVolume = typed("PersistentVolume", status={"phase": "Bound"})
    default: StorageClass = typed(
        "StorageClass", metadata={"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    )
    claim: PersistentVolumeClaim = typed("PersistentVolumeClaim")
    no_class: PersistentVolumeClaim = typed("PersistentVolumeClaim", spec={"storageClassName": ""})
    assert admitted(node, small, volume, bound, default, claim, no_class) == []
    assert (node.key, node.status.allocatable) == ("n", {"cpu": "4"})
    assert small.status.allocatable == {"cpu": "3"}
    assert (volume.status.phase, bound.status.phase) == ("Available", "Bound")
    assert default.volume_binding_mode == "Immediate"
    given = [typed("PriorityClass", preemptionPolicy=policy) for policy in (None, "Never")]
    admitted(*given)
    assert [c.preemption_policy for c in given] == ["PreemptLowerPriority", "Never"]
    assert (claim.class_name, claim.status.phase, no_class.class_name) == ("std", "Pending", "")


def test_device_requests_ask_for_one_device() -> None:
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu"}},
        {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "count": 3}]},
    ]
    for claim in (
        typed("ResourceClaim", spec={"devices": {"requests": requests}}),
        typed("ResourceClaimTemplate", spec={"spec": {"devices": {"requests": requests}}}),
    ):
        admitted(claim)
        spec = msgspec.to_builtins(claim.spec)
        exact, every, first = spec.get("spec", spec)["devices"]["requests"]
        assert (exact["exactly"]["allocationMode"], exact["exactly"]["count"]) == ("ExactCount", 1)
        assert every["exactly"] == {"deviceClassName": "gpu", "allocationMode": "All"}
        assert first["firstAvailable"][0]["count"] == 3


def test_generated_names_are_counted_up() -> None:
    pods = [a_pod("", metadata={"generateName": prefix}) for prefix in ("web-", "web-", "db-")]
    admitted(*pods)
    assert [pod.name for pod in pods] == ["web-0", "web-1", "db-0"]


def test_namespaces_of_pods_exist_with_their_label() -> None:
    given = typed("Namespace", metadata={"name": "given", "labels": {"team": "a"}})
    pods = [a_pod("a", namespace="given"), a_pod("b", namespace="new"), a_pod("c", namespace="new")]
    assert admitted(given, *pods) == []
    assert given.labels == {"team": "a", "kubernetes.io/metadata.name": "given"}
    made = missing_namespaces([given, *pods])
    assert [(type(n), n.name, n.labels) for n in made] == [(Namespace, "new", {"kubernetes.io/metadata.name": "new"})]
