"""Keys of events: where a plugin's hint says yes about a pod, the event has a key of that pod.

Every registration with keys is asked about every pair of a pod and a change of the pools below.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from build import a_cluster, a_pod
from device_building import a_claim, an_allocation
from gangs import a_group
from mooring.api.kinds.devices import RESOURCE_CLAIM
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.framework.contract.events import ASSIGNED_POD, UNSCHEDULED_POD, Change, Registration
from mooring.framework.contract.points import Handle
from mooring.model.meta import KubeObject
from mooring.model.storage import PersistentVolumeClaim
from mooring.plugins import in_tree

SPECS: list[dict[str, Any]] = [
    {},
    {"schedulingGates": [{"name": "wait"}]},
    {"tolerations": [{"operator": "Exists"}]},
    {"containers": [{"name": "c", "image": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
    {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c0"}]},
    {"resourceClaims": [{"name": "one", "resourceClaimName": "c0"}, {"name": "two", "resourceClaimName": "c1"}]},
    {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "template"}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}]},
    {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
    {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]},
    {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "disk"}}]},
    {"volumes": [{"name": "v", "iscsi": {"iqn": "disk"}}]},
    {"volumes": [{"name": "v", "rbd": {"monitors": ["a", "b"], "pool": "p", "image": "disk"}}]},
    {"volumes": [{"name": "v", "rbd": {"monitors": ["b", "c"], "pool": "p", "image": "disk"}}]},
    {"schedulingGroup": {"podGroupName": "g0"}},
    {"schedulingGroup": {"podGroupName": "g1"}},
]
STATUS = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p0-gpu"}]}
NAMES, SPACES = ("p0", "p1"), ("default", "other")

PODS = [
    a_pod(name, metadata={"namespace": namespace, "uid": f"uid-{namespace}-{name}"}, status=STATUS, **spec)
    for spec, name, namespace in product(SPECS, NAMES, SPACES)
]
"""Pods of one name and namespace are the same pod in other forms."""


def claims(is_given: bool) -> list[KubeObject]:
    status = {"allocation": an_allocation("n0/d0")} if is_given else {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "uid-default-p0", "controller": True}
    return [
        a_claim(name, metadata={"namespace": namespace, "uid": "", "ownerReferences": owners}, status=status)
        for name, owners in (("c0", []), ("c1", []), ("p0-gpu", [owner]))
        for namespace in SPACES
    ]


def volume_claims() -> list[KubeObject]:
    metadata = ({"name": name, "namespace": namespace} for name in ("c0", "c1", "p0-v") for namespace in SPACES)
    return [msgspec.convert({"metadata": each}, PersistentVolumeClaim) for each in metadata]


CLUSTER = a_cluster(*claims(is_given=False))

Pair = tuple[KubeObject | None, KubeObject | None]


def changes(event: str) -> Iterator[Pair]:
    """Changes of one kind of object, before and after."""
    if event in (ASSIGNED_POD, UNSCHEDULED_POD):
        yield from ((None, pod) for pod in PODS)
        yield from ((pod, None) for pod in PODS)
        yield from ((old, new) for old in PODS for new in PODS if old.id == new.id)
    elif event == RESOURCE_CLAIM.event:
        free, given = claims(is_given=False), claims(is_given=True)
        yield from ((None, claim) for claim in free)
        yield from zip(free, given, strict=True)
        yield from zip(given, free, strict=True)
        yield from ((claim, None) for claim in (*free, *given))
    else:
        assert event in (PERSISTENT_VOLUME_CLAIM.event, POD_GROUP.event), event
        if event == PERSISTENT_VOLUME_CLAIM.event:
            yield from ((None, claim) for claim in volume_claims())
            return
        for name, namespace in product(("g0", "g1"), SPACES):
            three, two = (a_group(name, count, namespace) for count in (3, 2))
            yield from ((None, two), (three, two), (two, three))


def keyed() -> list[tuple[str, Registration]]:
    plugins = {name: build(None, Handle()) for name, build in in_tree().items()}
    return [(name, each) for name, plugin in plugins.items() for each in plugin.events() or () if each.keys is not None]


KEYED = {f"{name} {each.event.label}": each for name, each in keyed()}
SAYS_NO = {"DefaultPreemption AssignedPodDelete"}
"""Upstream's hint says QueueSkip about every pod that was deleted."""


@pytest.mark.parametrize("name", KEYED)
def test_a_pod_to_which_the_hint_says_yes_has_a_key_of_the_change(name: str) -> None:
    registration = KEYED[name]
    keys, hint, yes, passed_over = registration.keys, registration.hint, 0, 0
    assert keys is not None and hint is not None
    of_pods = [(pod, set(keys.of_pod(pod))) for pod in PODS]
    for old, new in changes(registration.event.resource):
        change = Change(old, new, CLUSTER)
        of_change = keys.of_change(change)
        for pod, own in of_pods:
            is_named = of_change is None or not own.isdisjoint(of_change)
            says_yes = hint(pod, change)
            assert is_named or not says_yes, (pod, change)
            yes, passed_over = yes + says_yes, passed_over + (not is_named)
    assert bool(yes) == (name not in SAYS_NO) and passed_over, "a pool without such pods proves nothing"
