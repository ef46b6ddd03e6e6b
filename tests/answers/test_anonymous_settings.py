"""Settings and compared numbers in an anonymous dump: what decisions read stays, names of people's own do not."""

from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.answers.dumps.anonymize import Anonymizer
from mooring.answers.dumps.anonymous_settings import unknown_plugins
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.sim.reading.created_objects import Manifest
from mooring.sim.reading.manifests import Manifests

SETTINGS: dict[str, Any] = {
    "apiVersion": "mooring.dev/v1",
    "kind": "Settings",
    "configuration": {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 8,
        "percentageOfNodesToScore": 30,
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "delayCacheUntilActive": True,
        "clientConnection": {"kubeconfig": "/home/acme/config"},
        "extenders": [{"urlPrefix": "http://acme.example"}],
        "profiles": [
            {
                "schedulerName": "acme-scheduler",
                "percentageOfNodesToScore": 40,
                "plugins": {
                    "multiPoint": {
                        "enabled": [{"name": "AcmeFit"}, {"name": "NodeResourcesFit", "weight": 3}],
                        "disabled": [{"name": "*"}, {"name": "AcmeOld"}],
                    }
                },
                "pluginConfig": [
                    {"name": "AcmeFit", "args": {"secret": "acme"}},
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "apiVersion": "kubescheduler.config.k8s.io/v1",
                            "kind": "NodeResourcesFitArgs",
                            "ignoredResources": ["acme.example/gpu"],
                            "ignoredResourceGroups": ["acme.example"],
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 2}, {"name": "acme.example/gpu", "weight": 1}],
                            },
                        },
                    },
                    {
                        "name": "PodTopologySpread",
                        "args": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "acme.example/rack"}]},
                    },
                    {"name": "NodeAffinity"},
                ],
            },
            {},
        ],
    },
    "featureGates": {"GenericWorkload": True, "AcmeGate": True},
}


def anonymized(*items: KubeObject, settings: dict[str, Any] | None = None) -> Anonymizer:
    return Anonymizer(Manifests([Manifest(item, None) for item in items]), settings)


def test_settings_keep_what_decisions_read() -> None:
    dump = anonymized(a_node("n", labels={"acme.example/rack": "r1"}), settings=SETTINGS)
    found = dump.settings()
    assert found is not None
    profile, empty = found["configuration"].pop("profiles")
    assert found == {
        "apiVersion": "mooring.dev/v1",
        "kind": "Settings",
        "configuration": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 8,
            "percentageOfNodesToScore": 30,
            "podInitialBackoffSeconds": 2,
            "podMaxBackoffSeconds": 20,
            "delayCacheUntilActive": True,
        },
        "featureGates": {"GenericWorkload": True},
    }
    assert empty == {}
    assert profile["percentageOfNodesToScore"] == 40
    assert profile["plugins"] == {
        "multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}], "disabled": [{"name": "*"}]}
    }
    fit, spread, affinity = profile["pluginConfig"]
    rack, gpu = dump.book.key("acme.example/rack"), dump.book.resource("acme.example/gpu")
    assert fit == {
        "name": "NodeResourcesFit",
        "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "NodeResourcesFitArgs",
            "ignoredResources": [gpu],
            "ignoredResourceGroups": [dump.book.driver("acme.example")],
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 2}, {"name": gpu, "weight": 1}],
            },
        },
    }
    assert spread == {
        "name": "PodTopologySpread",
        "args": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": rack}]},
    }
    assert affinity == {"name": "NodeAffinity", "args": {}}
    assert b"acme" not in msgspec.json.encode([found, profile]).lower()


def test_plugins_of_users_are_told() -> None:
    assert unknown_plugins(SETTINGS) == ["AcmeFit", "AcmeOld"]
    assert unknown_plugins({"configuration": {}}) == []


def test_without_settings_there_are_none() -> None:
    assert anonymized(a_node("n")).settings() is None


def test_an_added_affinity_has_the_keys_of_the_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "acme", "operator": "In", "values": ["gold"]}]}]
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    args = [{"name": "NodeAffinity", "args": {"addedAffinity": added}}]
    dump = anonymized(
        a_node("n", labels={"acme": "gold"}), settings={"configuration": {"profiles": [{"pluginConfig": args}]}}
    )
    found = dump.settings()
    assert found is not None
    (entry,) = found["configuration"]["profiles"][0]["pluginConfig"]
    affinity = entry["args"]["addedAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (rule,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    (node,) = (each.object for each in dump.manifests().objects)
    assert isinstance(node, Node)
    assert {rule["key"]: rule["values"][0]} == {
        key: value for key, value in node.labels.items() if key != "kubernetes.io/hostname"
    }
    assert rule["operator"] == "In"


# ---- numbers that are compared


def compared(operator: str, value: str) -> tuple[Node, Pod]:
    terms = [{"matchExpressions": [{"key": "acme", "operator": operator, "values": ["5"]}]}]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    dump = anonymized(a_node("n", labels={"acme": value}), a_pod("p", image="i", affinity={"nodeAffinity": rule}))
    node, pod = (each.object for each in dump.manifests().objects)
    assert isinstance(node, Node) and isinstance(pod, Pod)
    return node, pod


@pytest.mark.parametrize("value", ["7", "-7", "+7"])
def test_numbers_that_selectors_compare_by_size_stay(value: str) -> None:
    for operator in ("Gt", "Lt"):
        node, _ = compared(operator, value)
        assert value in node.labels.values()


def test_other_values_are_renamed() -> None:
    assert "7" not in compared("In", "7")[0].labels.values()
    assert "seven" not in compared("Gt", "seven")[0].labels.values()


def test_numbers_that_tolerations_compare_by_size_stay() -> None:
    toleration = {"key": "acme", "operator": "Gt", "value": "5", "effect": "NoSchedule"}
    dump = anonymized(a_node("n", taints=["acme=9:NoSchedule"]), a_pod("p", image="i", tolerations=[toleration]))
    node, pod = (each.object for each in dump.manifests().objects)
    assert isinstance(node, Node) and isinstance(pod, Pod)
    (taint,) = node.taints
    (copy,) = pod.spec.tolerations or []
    assert (taint.value, taint.effect, copy.value, copy.operator, copy.effect) == (
        "9",
        "NoSchedule",
        "5",
        "Gt",
        "NoSchedule",
    )
    assert taint.key == copy.key != "acme"
