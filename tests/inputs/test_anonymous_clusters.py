"""Random small clusters: their anonymous dumps give the same decisions, under names that have nothing of the old ones."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mooring
from how_many import examples
from mooring.inputs.documents import STDIN
from mooring.inputs.dumps.anonymize import Anonymizer
from mooring.inputs.dumps.contents import dump_text, dumped_objects
from mooring.inputs.manifests import Manifests, read

pytestmark = pytest.mark.slow

NODES = ["zqa", "zqa-1", "zqa.b", "zqa1", "zqb", "zqb-2", "zqc"]
"""Names that sort differently if a letter more or less counts differently."""
ZONES = ["zqz-1", "zqz-1-a", "zqz1"]
LABELS = ["zqteam", "zq.example/tier", "zqsize"]
VALUES = ["zqred", "zqblue", "3", "7", "zqred-2"]
CLAIMED = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "zqlocal",
}


def picks(values: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


labels = st.dictionaries(picks(LABELS), picks(VALUES), max_size=3)
selectors = st.builds(
    lambda found: {"matchLabels": found}, st.dictionaries(picks(LABELS[:2]), picks(VALUES), max_size=1)
)


@st.composite
def a_requirement(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(picks(["In", "NotIn", "Exists", "Gt", "Lt"]))
    key = draw(picks([*LABELS, "topology.kubernetes.io/zone", "kubernetes.io/hostname"]))
    if operator in ("Gt", "Lt"):
        return {"key": "zqsize", "operator": operator, "values": [draw(picks(["3", "5"]))]}
    if operator == "Exists":
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": [draw(picks([*VALUES, *ZONES, *NODES]))]}


@st.composite
def an_affinity(draw: st.DrawFn) -> dict[str, Any]:
    term = {"matchExpressions": draw(st.lists(a_requirement(), min_size=1, max_size=2))}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [draw(picks(NODES))]}]}
    terms = [{**term, **(fields if draw(st.integers(0, 3)) == 0 else {})}]
    near = {
        "labelSelector": draw(selectors),
        "topologyKey": draw(picks(["topology.kubernetes.io/zone", "kubernetes.io/hostname", "zqteam"])),
        **({"namespaces": ["zqshop", "default"]} if draw(st.booleans()) else {}),
    }
    kind = draw(picks(["none", "node", "preferred", "near", "apart"]))
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    kinds: dict[str, dict[str, Any]] = {
        "none": {},
        "node": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}},
        "preferred": {"nodeAffinity": {preferred: [{"weight": 5, "preference": term}]}},
        "near": {"podAffinity": {preferred: [{"weight": 9, "podAffinityTerm": near}]}},
        "apart": {"podAntiAffinity": {required: [near]}},
    }
    return kinds[kind]


@st.composite
def a_node_written(draw: st.DrawFn, name: str) -> dict[str, Any]:
    own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": draw(picks(ZONES))}
    taints = [{"key": "zqdedicated", "value": draw(picks(VALUES)), "effect": "NoSchedule"}]
    amounts = {
        "cpu": draw(picks(["1", "2", "4"])),
        "memory": "8Gi",
        "pods": "10",
        "zq.example/gpu": draw(picks(["0", "2"])),
    }
    images = [{"names": [draw(picks(["zqreg/app:1", "zqreg/app:latest"]))], "sizeBytes": 300_000_000}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**draw(labels), **own}, "annotations": {"zqnote": "zqtext"}},
        "spec": {"taints": taints} if draw(st.integers(0, 2)) == 0 else {},
        "status": {"allocatable": amounts, "images": images},
    }


@st.composite
def a_pod_written(draw: st.DrawFn, index: int) -> dict[str, Any]:
    requests = {"cpu": draw(picks(["100m", "1", "2"])), **({"zq.example/gpu": "1"} if draw(st.booleans()) else {})}
    spread = {
        "maxSkew": 1,
        "topologyKey": draw(picks(["topology.kubernetes.io/zone", "zqteam"])),
        "whenUnsatisfiable": draw(picks(["DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": draw(selectors),
    }
    container = {
        "name": "zqmain",
        "image": draw(picks(["zqreg/app:1", "zqreg/app"])),
        "resources": {"requests": requests, "limits": {name: text for name, text in requests.items() if "/" in name}},
        "env": [{"name": "ZQENV", "value": "zqsecret"}],
        "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.1.2.3"}] if draw(st.integers(0, 4)) == 0 else [],
    }
    volume = {"name": "zqdata", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIMED}}}
    tolerations = [{"key": "zqdedicated", "operator": "Equal", "value": draw(picks(VALUES)), "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"zqpod-{index}",
            "namespace": draw(picks(["default", "zqshop"])),
            "labels": draw(labels),
        },
        "spec": {
            "containers": [container],
            "affinity": draw(an_affinity()),
            "tolerations": tolerations if draw(st.booleans()) else [],
            "topologySpreadConstraints": [spread] if draw(st.booleans()) else [],
            "volumes": [volume] if draw(st.integers(0, 3)) == 0 else [],
            "priorityClassName": draw(picks(["", "zqhigh"])),
            "nodeSelector": {"zqteam": draw(picks(VALUES))} if draw(st.integers(0, 5)) == 0 else {},
        },
    }


STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "zqlocal"},
    "provisioner": "zq.example/disks",
    "volumeBindingMode": "WaitForFirstConsumer",
}
PRIORITY = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "zqhigh"}, "value": 100}


@st.composite
def a_cluster(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.lists(picks(NODES), min_size=1, max_size=6, unique=True))
    nodes = [draw(a_node_written(name)) for name in names]
    pods = [draw(a_pod_written(index)) for index in range(draw(st.integers(1, 8)))]
    return [STORAGE, PRIORITY, *nodes, *pods]


def read_items(items: list[dict[str, Any]]) -> Manifests:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    manifests = read([STDIN], io.BytesIO(text))
    assert not manifests.problems, [str(problem) for problem in manifests.problems]
    return manifests


@settings(deadline=None, max_examples=examples(30))
@given(a_cluster())
def test_dumps_give_the_same_decisions_and_anonymous_ones_have_no_name(items: list[dict[str, Any]]) -> None:
    anonymizer = Anonymizer(read_items(items))
    plain = mooring.simulate(json.loads(dump_text(dumped_objects(read_items(items)))))
    text = dump_text(dumped_objects(anonymizer.manifests()))
    assert b"zq" not in text.lower()
    before, after = mooring.simulate(items), mooring.simulate(json.loads(text))
    assert [(each.pod.key, each.node, each.message) for each in plain.pods] == [
        (each.pod.key, each.node, each.message) for each in before.pods
    ]
    name, public = anonymizer.book.name, anonymizer.book.public_name
    wanted = [(public(each.pod.namespace), name(each.pod.name), name(each.node), each.fate) for each in before.pods]
    assert [(each.pod.namespace, each.pod.name, each.node, each.fate) for each in after.pods] == wanted
    assert sorted((public(e.pod.namespace), name(e.pod.name), name(e.node)) for e in before.preempted) == sorted(
        (e.pod.namespace, e.pod.name, e.node) for e in after.preempted
    )
