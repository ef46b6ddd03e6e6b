"""What pods are refused for, word for word; each row is one fault in an otherwise sound pod."""

from typing import Any

import pytest

from mooring.api.decode import decode
from mooring.api.validate import validate
from validation_texts import CLAIM, EFFECTS, LABEL_RULE, NAME_RULE, QUANTITY, SUBDOMAIN_RULE, VALUE_RULE

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"


def faults(kind: str, written: dict[str, Any]) -> list[str]:
    decoded, problems = decode(kind, {"metadata": {"name": "x"}, **written})
    assert problems == []
    assert decoded is not None
    return [str(problem) for problem in validate(decoded)]


def pod_faults(**spec: Any) -> list[str]:
    return faults("Pod", {"spec": {"containers": [{"name": "c"}], **spec}})


def container_faults(**container: Any) -> list[str]:
    return pod_faults(containers=[{"name": "c", **container}])


def test_a_sound_pod_has_no_faults() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "matchLabelKeys": ["hash"]}
    line = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    assert (
        pod_faults(
            initContainers=[{"name": "i", "restartPolicy": "Always"}],
            containers=[
                {
                    "name": "c",
                    "resources": {
                        "requests": {"cpu": "1", "example.com/gpu": 2},
                        "limits": {"cpu": 2, "example.com/gpu": 2},
                    },
                    "ports": [
                        {"containerPort": 80, "hostPort": 80},
                        {"containerPort": 80, "hostPort": 80, "protocol": "UDP"},
                    ],
                }
            ],
            nodeSelector={"example.com/tier": ""},
            tolerations=[
                {"operator": "Exists"},
                {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
            ],
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "nodeTaintsPolicy": "Honor",
                },
            ],
            affinity={
                "nodeAffinity": {
                    HARD: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [line, {"key": "n", "operator": "Gt", "values": ["5"]}]}
                        ]
                    },
                    SOFT: [{"weight": 100, "preference": {"matchExpressions": [line]}}],
                },
                "podAffinity": {HARD: [term]},
                "podAntiAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": term}]},
            },
            schedulingGates=[{"name": "example.com/wait"}],
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
            resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
            overhead={"cpu": "10m"},
            resources={"requests": {"cpu": "1"}},
            preemptionPolicy="Never",
            priority=-5,
        )
        == []
    )


METADATA = [
    pytest.param({"name": ""}, ["metadata.name: Required value: a name"], id="no name"),
    pytest.param(
        {"name": "Bad_Name"}, [f'metadata.name: Invalid value: "Bad_Name": {SUBDOMAIN_RULE}'], id="a bad name"
    ),
    pytest.param(
        {"name": "x", "labels": {"a b": "c"}}, [f'metadata.labels[a b]: Invalid value: "a b": {NAME_RULE}'], id="key"
    ),
    pytest.param(
        {"name": "x", "labels": {"a": "b c"}},
        [f'metadata.labels.a: Invalid value: "b c": {VALUE_RULE}'],
        id="a label value",
    ),
    pytest.param(
        {"name": "x", "namespace": "a.b"},
        [f'metadata.namespace: Invalid value: "a.b": {LABEL_RULE}'],
        id="a bad namespace",
    ),
    pytest.param({"generateName": "x-"}, [], id="a name that is to be generated"),
]


@pytest.mark.parametrize(("metadata", "texts"), METADATA)
def test_metadata(metadata: dict[str, Any], texts: list[str]) -> None:
    assert faults("Service", {"metadata": metadata}) == texts


RESOURCES: list[Any] = [
    pytest.param(
        {"requests": {"cpu": "2x"}}, f'requests.cpu: Invalid value: "2x": must be {QUANTITY}', id="not a quantity"
    ),
    pytest.param(
        {"requests": {"cpu": -1}}, f"requests.cpu: Invalid value: -1: must be {QUANTITY}", id="a negative request"
    ),
    pytest.param(
        {"limits": {"memory": "-1Gi"}},
        f'limits.memory: Invalid value: "-1Gi": must be {QUANTITY}',
        id="a negative limit",
    ),
    pytest.param(
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}},
        'requests.cpu: Invalid value: "2": must be at most its limit of "1500m"',
        id="more than its limit",
    ),
    pytest.param(
        {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}},
        "requests[example.com/gpu]: Invalid value: 1: must be equal to its limit of 2",
        id="an extended resource that is not its limit",
    ),
    pytest.param(
        {"requests": {"example.com/gpu": "500m"}},
        'requests[example.com/gpu]: Invalid value: "500m": must be a whole number',
        id="half of an extended resource",
    ),
    pytest.param(
        {"requests": {"gpu": 1}},
        'requests.gpu: Invalid value: "gpu": must be cpu, memory, ephemeral-storage, hugepages-<size> or <domain>/<name>',
        id="an unknown resource",
    ),
]


@pytest.mark.parametrize("amount", ["9223372036854775808", "1e30", "1" * 5000])
def test_an_amount_may_be_as_large_as_an_api_server_lets_it(amount: str) -> None:
    assert container_faults(resources={"requests": {"memory": amount}}) == []


@pytest.mark.parametrize(("resources", "text"), RESOURCES)
def test_resources_of_containers(resources: dict[str, Any], text: str) -> None:
    assert container_faults(resources=resources) == [f"spec.containers[0].resources.{text}"]


CONTAINERS: list[Any] = [
    pytest.param({"name": ""}, "name: Required value: a name", id="no name"),
    pytest.param({"name": "A"}, f'name: Invalid value: "A": {LABEL_RULE}', id="a bad name"),
    pytest.param(
        {"restartPolicy": "Maybe"},
        'restartPolicy: Unsupported value: "Maybe": supported values: Always, OnFailure, Never',
        id="restart",
    ),
    pytest.param(
        {"restartPolicyRules": [{"action": "Jump"}]},
        'restartPolicyRules[0].action: Unsupported value: "Jump": supported values: Restart, RestartAllContainers',
        id="a restart rule",
    ),
    pytest.param(
        {"ports": [{"hostPort": 80}]},
        "ports[0].containerPort: Invalid value: 0: must be between 1 and 65535",
        id="no port",
    ),
    pytest.param(
        {"ports": [{"containerPort": 1, "hostPort": 70000}]},
        "ports[0].hostPort: Invalid value: 70000: must be between 0 and 65535",
        id="host port",
    ),
    pytest.param(
        {"ports": [{"containerPort": 1, "protocol": "QUIC"}]},
        'ports[0].protocol: Unsupported value: "QUIC": supported values: SCTP, TCP, UDP',
        id="a protocol",
    ),
    pytest.param(
        {"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]},
        'ports[1].hostPort: Duplicate value: "0.0.0.0", "TCP", 9',
        id="a host port taken twice",
    ),
]


@pytest.mark.parametrize(("container", "text"), CONTAINERS)
def test_containers(container: dict[str, Any], text: str) -> None:
    assert container_faults(**container) == [f"spec.containers[0].{text}"]


def a_requirement(operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]}
    return {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": [term]}}}}


def a_field(operator: str, *values: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}
    return {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": [term]}}}}


def a_pod_term(**term: Any) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {HARD: [{"topologyKey": "zone", "labelSelector": {}, **term}]}}}


def a_constraint(**changes: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **changes}
    return {"topologySpreadConstraints": [constraint]}


NODE_LINE = f"affinity.nodeAffinity.{HARD}.nodeSelectorTerms[0].matchExpressions[0]"
FIELD_LINE = f"affinity.nodeAffinity.{HARD}.nodeSelectorTerms[0].matchFields[0]"
POD_TERM = f"affinity.podAffinity.{HARD}[0]"
SPREAD = "topologySpreadConstraints[0]"

SPECS: list[Any] = [
    pytest.param({"containers": []}, "containers: Required value: one container or more", id="no containers"),
    pytest.param(
        {"initContainers": [{"name": "c"}]},
        'initContainers[0].name: Duplicate value: "c"',
        id="a container name used twice",
    ),
    pytest.param(
        {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 81}]}]},
        "containers[0].ports[0].hostPort: Invalid value: 81: must be 80, the container port, because hostNetwork is set",
        id="host network with another host port",
    ),
    pytest.param(
        {"nodeSelector": {"a": "b c"}}, f'nodeSelector.a: Invalid value: "b c": {VALUE_RULE}', id="node selector"
    ),
    pytest.param(
        {"tolerations": [{"key": "a", "operator": "Nope"}]},
        'tolerations[0].operator: Unsupported value: "Nope": supported values: Equal, Exists',
        id="a toleration operator",
    ),
    pytest.param(
        {"tolerations": [{"key": "a", "operator": "Lt", "value": "01"}]},
        'tolerations[0].value: Invalid value: "01": must be a valid decimal integer in canonical form',
        id="a comparison with a number in another form",
    ),
    pytest.param(
        {"tolerations": [{"operator": "Gt", "value": "1"}]},
        'tolerations[0].operator: Invalid value: "Gt": must be Exists, because the key is empty',
        id="a comparison without a key",
    ),
    pytest.param(
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        'tolerations[0].value: Invalid value: "b": must be empty with Exists',
        id="Exists with a value",
    ),
    pytest.param(
        {"tolerations": [{"value": "b"}]},
        'tolerations[0].operator: Invalid value: "": must be Exists, because the key is empty',
        id="Equal without a key",
    ),
    pytest.param(
        {"tolerations": [{"operator": "Exists", "effect": "Never"}]},
        f'tolerations[0].effect: Unsupported value: "Never": supported values: {EFFECTS}',
        id="a toleration effect",
    ),
    pytest.param(
        {"tolerations": [{"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        'tolerations[0].effect: Invalid value: "NoSchedule": must be NoExecute, because tolerationSeconds is set',
        id="seconds without NoExecute",
    ),
    pytest.param(
        a_requirement("Like", "x"),
        f'{NODE_LINE}.operator: Unsupported value: "Like": supported values: In, NotIn, Exists, DoesNotExist, Gt, Lt',
        id="a node selector operator",
    ),
    pytest.param(a_requirement("In"), f"{NODE_LINE}.values: Required value: one value or more with In", id="In"),
    pytest.param(
        a_requirement("Exists", "x"),
        f"{NODE_LINE}.values: Invalid value: 1 values: must be empty with Exists",
        id="Exists",
    ),
    pytest.param(
        a_requirement("Gt", "x"), f'{NODE_LINE}.values: Invalid value: "x": must be one integer with Gt', id="Gt a word"
    ),
    pytest.param(
        a_requirement("Lt", "1", "2"),
        f"{NODE_LINE}.values: Invalid value: 2 values: must be one integer with Lt",
        id="Lt two values",
    ),
    pytest.param(
        {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": []}}}},
        f"affinity.nodeAffinity.{HARD}.nodeSelectorTerms: Required value: one term or more",
        id="no node selector terms",
    ),
    pytest.param(
        {
            "affinity": {
                "nodeAffinity": {
                    HARD: {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]
                    }
                }
            }
        },
        f'{FIELD_LINE}.key: Invalid value: "spec.x": must be metadata.name',
        id="an unknown field",
    ),
    pytest.param(
        a_field("Exists", "n"),
        f'{FIELD_LINE}.operator: Unsupported value: "Exists": supported values: In, NotIn',
        id="a field operator",
    ),
    pytest.param(
        a_field("In", "a", "b"), f"{FIELD_LINE}.values: Invalid value: 2 values: must be one value", id="two fields"
    ),
    pytest.param(
        {"affinity": {"nodeAffinity": {SOFT: [{"weight": 1, "preference": {"matchExpressions": [{"key": "a"}]}}]}}},
        f"affinity.nodeAffinity.{SOFT}[0].preference.matchExpressions[0].operator: "
        "Required value: In, NotIn, Exists, DoesNotExist, Gt, Lt",
        id="a preference",
    ),
    pytest.param(
        {"affinity": {"nodeAffinity": {SOFT: [{"weight": 101, "preference": {}}]}}},
        f"affinity.nodeAffinity.{SOFT}[0].weight: Invalid value: 101: must be between 1 and 100",
        id="a node weight",
    ),
    pytest.param(
        {"affinity": {"podAntiAffinity": {SOFT: [{"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}}},
        f"affinity.podAntiAffinity.{SOFT}[0].weight: Invalid value: 0: must be between 1 and 100",
        id="a pod weight",
    ),
    pytest.param(a_pod_term(topologyKey=""), f"{POD_TERM}.topologyKey: Required value: a label key", id="no topology"),
    pytest.param(
        a_pod_term(labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
        f'{POD_TERM}.labelSelector.matchExpressions[0].operator: Unsupported value: "Gt": supported '
        "values: In, NotIn, Exists, DoesNotExist",
        id="a label selector operator",
    ),
    pytest.param(
        a_pod_term(namespaces=["A"]),
        f'{POD_TERM}.namespaces[0]: Invalid value: "A": {LABEL_RULE}',
        id="a namespace of a term",
    ),
    pytest.param(
        a_pod_term(labelSelector=None, matchLabelKeys=["a"]),
        f'{POD_TERM}.matchLabelKeys[0]: Invalid value: "a": must be empty, because labelSelector is not set',
        id="matchLabelKeys without a selector",
    ),
    pytest.param(
        a_pod_term(matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
        f'{POD_TERM}.mismatchLabelKeys: Invalid value: "a": must be a key that is not in matchLabelKeys as well',
        id="a key that must match and must not",
    ),
    pytest.param(a_constraint(maxSkew=0), f"{SPREAD}.maxSkew: Invalid value: 0: must be 1 or more", id="no skew"),
    pytest.param(a_constraint(topologyKey=""), f"{SPREAD}.topologyKey: Required value: a label key", id="no key"),
    pytest.param(
        a_constraint(whenUnsatisfiable=""),
        f"{SPREAD}.whenUnsatisfiable: Required value: DoNotSchedule, ScheduleAnyway",
        id="no action",
    ),
    pytest.param(
        a_constraint(whenUnsatisfiable="Panic"),
        f'{SPREAD}.whenUnsatisfiable: Unsupported value: "Panic": supported values: DoNotSchedule, ScheduleAnyway',
        id="an unknown action",
    ),
    pytest.param(
        a_constraint(minDomains=0), f"{SPREAD}.minDomains: Invalid value: 0: must be 1 or more", id="no domains"
    ),
    pytest.param(
        a_constraint(minDomains=2, whenUnsatisfiable="ScheduleAnyway"),
        f"{SPREAD}.minDomains: Invalid value: 2: must be empty unless whenUnsatisfiable is DoNotSchedule",
        id="domains of a soft constraint",
    ),
    pytest.param(
        a_constraint(nodeAffinityPolicy="Maybe"),
        f'{SPREAD}.nodeAffinityPolicy: Unsupported value: "Maybe": supported values: Honor, Ignore',
        id="an inclusion policy",
    ),
    pytest.param(
        {"topologySpreadConstraints": a_constraint()["topologySpreadConstraints"] * 2},
        'topologySpreadConstraints[1]: Duplicate value: "zone", "DoNotSchedule"',
        id="a constraint given twice",
    ),
    pytest.param(
        {"preemptionPolicy": "Sometimes"},
        'preemptionPolicy: Unsupported value: "Sometimes": supported values: PreemptLowerPriority, Never',
        id="a preemption policy",
    ),
    pytest.param(
        {"priority": 1 << 40},
        f"priority: Invalid value: {1 << 40}: must be between -2147483648 and 2000001000",
        id="a priority out of range",
    ),
    pytest.param(
        {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
        'schedulingGates[1].name: Duplicate value: "a"',
        id="a gate given twice",
    ),
    pytest.param(
        {"schedulingGates": [{"name": "a"}], "nodeName": "n"},
        'nodeName: Invalid value: "n": must be empty, because the pod has scheduling gates',
        id="a gated pod on a node",
    ),
    pytest.param({"overhead": {"cpu": "x"}}, f'overhead.cpu: Invalid value: "x": must be {QUANTITY}', id="overhead"),
    pytest.param(
        {"resources": {"requests": {"ephemeral-storage": 1}}},
        'resources.requests.ephemeral-storage: Invalid value: "ephemeral-storage": must be cpu, memory or hugepages-<size>',
        id="a pod-level resource",
    ),
    pytest.param(
        {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "resources": {"requests": {"cpu": "500m"}},
            "overhead": {"cpu": "1"},
        },
        'resources.requests.cpu: Invalid value: "500m": must be at least what the containers ask for together: 2',
        id="pod-level requests smaller than those of the containers",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        "volumes[0].persistentVolumeClaim.claimName: Required value: the name of a claim",
        id="a claim without name",
    ),
    pytest.param(
        {
            "volumes": [
                {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {**CLAIM, "accessModes": ["Mine"]}}}}
            ]
        },
        'volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes[0]: Unsupported value: "Mine": supported values: '
        "ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod",
        id="the claim of an ephemeral volume",
    ),
    pytest.param(
        {"volumes": [{"name": "v"}, {"name": "v"}]},
        'volumes[1].name: Duplicate value: "v"',
        id="a volume name used twice",
    ),
    pytest.param(
        {"resourceClaims": [{"name": "g"}]},
        "resourceClaims[0]: Required value: exactly one of resourceClaimName and resourceClaimTemplateName must be set",
        id="a resource claim without source",
    ),
]


@pytest.mark.parametrize(("spec", "text"), SPECS)
def test_pod_specs(spec: dict[str, Any], text: str) -> None:
    assert pod_faults(**spec) == [f"spec.{text}"]


def test_all_faults_of_a_pod_are_told_at_once() -> None:
    texts = pod_faults(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "x", "memory": "y"}}}, {"name": "c"}],
        tolerations=[{"operator": "Nope", "key": "a", "effect": "Odd"}],
        priority=1 << 40,
    )
    assert [text.split(":")[0] for text in texts] == [
        "spec.containers[0].resources.requests.cpu",
        "spec.containers[0].resources.requests.memory",
        "spec.containers[1].name",
        "spec.tolerations[0].operator",
        "spec.tolerations[0].effect",
        "spec.priority",
    ]


def test_a_spec_that_was_sound_is_checked_again_where_more_than_its_node_differs() -> None:
    gate = {"schedulingGates": [{"name": "wait"}]}
    assert pod_faults(priority=7) == pod_faults(priority=7, nodeName="n") == pod_faults(**gate) == []
    assert len(pod_faults(**gate, nodeName="n")) == 1
    assert len(pod_faults(priority=3_000_000_000)) == 1
    assert len(pod_faults(priority=1 << 70)) == 1
