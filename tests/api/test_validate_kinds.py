"""What manifests of kinds other than Pod are refused for, word for word."""

from typing import Any

import pytest

from mooring.api.decode import decode, decode_as
from mooring.api.validate import validate
from mooring.model.workloads import Workload
from validation_texts import CLAIM, EFFECTS, LABEL_RULE, QUANTITY, VALUE_RULE

SLICE = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": True}


def faults(kind: str, written: dict[str, Any]) -> list[str]:
    decoded, problems = decode(kind, {"metadata": {"name": "x"}, **written})
    assert problems == []
    assert decoded is not None
    return [str(problem) for problem in validate(decoded)]


def a_request(**request: Any) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": [{"name": "r", **request}]}}}


OTHER_KINDS: list[Any] = [
    pytest.param(
        "Node",
        {"spec": {"taints": [{"key": "a", "effect": "Go"}]}},
        [f'spec.taints[0].effect: Unsupported value: "Go": supported values: {EFFECTS}'],
        id="a taint effect",
    ),
    pytest.param(
        "Node",
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "value": "b", "effect": "NoExecute"}]}},
        ['spec.taints[1]: Duplicate value: "a", "NoExecute"'],
        id="a taint given twice",
    ),
    pytest.param(
        "Node",
        {"status": {"allocatable": {"cpu": "four"}}},
        [f'status.allocatable.cpu: Invalid value: "four": must be {QUANTITY}'],
        id="allocatable",
    ),
    pytest.param(
        "Node",
        {"status": {"images": [{"sizeBytes": -1}]}},
        ["status.images[0].sizeBytes: Invalid value: -1: must be 0 or more"],
        id="an image size",
    ),
    pytest.param(
        "Namespace", {"metadata": {"name": "a.b"}}, [f'metadata.name: Invalid value: "a.b": {LABEL_RULE}'], id="dots"
    ),
    pytest.param(
        "PriorityClass",
        {"value": 2_000_000_000},
        ["value: Invalid value: 2000000000: must be between -2147483648 and 1000000000"],
        id="a priority class that is too high",
    ),
    pytest.param(
        "PriorityClass",
        {"preemptionPolicy": "Maybe"},
        ['preemptionPolicy: Unsupported value: "Maybe": supported values: PreemptLowerPriority, Never'],
        id="a preemption policy",
    ),
    pytest.param(
        "PriorityClass",
        {"metadata": {"name": "system-mine"}},
        ['metadata.name: Invalid value: "system-mine": must be a name that does not start with system-'],
        id="a reserved name",
    ),
    pytest.param(
        "PriorityClass",
        {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000},
        [],
        id="the system class itself",
    ),
    pytest.param(
        "PriorityClass",
        {"metadata": {"name": "system-node-critical"}, "value": 1},
        ["value: Invalid value: 1: must be 2000001000, the value of this system class"],
        id="a system class with another value",
    ),
    pytest.param(
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "maxUnavailable": "half"}},
        [
            "spec: Invalid value: both minAvailable and maxUnavailable: at most one of them must be set",
            'spec.maxUnavailable: Invalid value: "half": must be a number of pods, or a percentage, e.g. 50%',
        ],
        id="a budget with both, one of them a word",
    ),
    pytest.param("PodDisruptionBudget", {"spec": {"minAvailable": "50%"}}, [], id="a percentage"),
    pytest.param(
        "Service", {"spec": {"selector": {"a": "-"}}}, [f'spec.selector.a: Invalid value: "-": {VALUE_RULE}'], id="svc"
    ),
    pytest.param(
        "StorageClass",
        {"volumeBindingMode": "Later"},
        [
            "provisioner: Required value: the name of a provisioner",
            'volumeBindingMode: Unsupported value: "Later": supported values: Immediate, WaitForFirstConsumer',
        ],
        id="a storage class",
    ),
    pytest.param(
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["Mine"]}},
        [
            'spec.accessModes[0]: Unsupported value: "Mine": supported values: ReadWriteOnce, '
            "ReadOnlyMany, ReadWriteMany, ReadWriteOncePod",
            "spec.resources.requests.storage: Required value: a size, e.g. 10Gi",
        ],
        id="a claim",
    ),
    pytest.param("PersistentVolumeClaim", {"spec": CLAIM}, [], id="a sound claim"),
    pytest.param(
        "PersistentVolume",
        {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": {}}}},
        ["spec.nodeAffinity.required.nodeSelectorTerms: Required value: one term or more"],
        id="a volume",
    ),
    pytest.param(
        "ResourceClaim",
        a_request(),
        ["spec.devices.requests[0]: Required value: exactly one of exactly and firstAvailable must be set"],
        id="an empty device request",
    ),
    pytest.param(
        "ResourceClaim",
        a_request(exactly={"deviceClassName": "gpu", "allocationMode": "All", "count": 2, "selectors": [{}]}),
        [
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Required value: a CEL expression",
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must be empty with allocationMode All",
        ],
        id="a device request",
    ),
    pytest.param("ResourceSlice", {"spec": SLICE}, [], id="a sound slice"),
    pytest.param(
        "ResourceSlice",
        {"spec": {**SLICE, "nodeName": "n"}},
        [
            "spec: Invalid value: 2 of them: exactly one of nodeName, nodeSelector, allNodes and "
            "perDeviceNodeSelection must be set"
        ],
        id="a slice in two places",
    ),
    pytest.param(
        "ResourceSlice",
        {"spec": {**SLICE, "devices": [{"name": "d", "attributes": {"a": {}}, "capacity": {"m": {"value": "x"}}}]}},
        [
            "spec.devices[0].attributes.a: Invalid value: 0 of them: exactly one of int, bool, string and "
            "version, or a list of one, must be set",
            f'spec.devices[0].capacity.m.value: Invalid value: "x": must be {QUANTITY}',
        ],
        id="a device",
    ),
    pytest.param(
        "ResourceSlice",
        {
            "spec": {
                **SLICE,
                "devices": [
                    {
                        "name": "d",
                        "attributes": {"a": {"ints": []}},
                        "nodeAllocatableResources": {
                            "cpu": {
                                "mapping": {"capacityKey": "c", "capacityMultiplier": "x"},
                                "overhead": {"perPod": "y", "perContainer": "1"},
                            }
                        },
                    }
                ],
            }
        },
        [
            "spec.devices[0].attributes.a.ints: Required value: one value or more",
            f"spec.devices[0].nodeAllocatableResources.cpu.mapping.capacityMultiplier: Invalid value: "
            f'"x": must be {QUANTITY}',
            "spec.devices[0].nodeAllocatableResources.cpu.mapping.capacityKey: Invalid value: "
            '"c": must be a capacity of the device',
            f'spec.devices[0].nodeAllocatableResources.cpu.overhead.perPod: Invalid value: "y": must be {QUANTITY}',
        ],
        id="a device that takes from its node",
    ),
    pytest.param(
        "ResourceSlice",
        {
            "spec": {
                "driver": "d",
                "pool": {"name": "p", "resourceSliceCount": 0, "generation": -1},
                "nodeSelector": {},
                "devices": [
                    {"name": "D", "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "x"}}}]}
                ],
                "sharedCounters": [{"name": "c", "counters": {"m": {"value": "y"}}}],
            }
        },
        [
            "spec.pool.resourceSliceCount: Invalid value: 0: must be 1 or more",
            "spec.pool.generation: Invalid value: -1: must be 0 or more",
            "spec.nodeSelector.nodeSelectorTerms: Required value: one term or more",
            f'spec.devices[0].name: Invalid value: "D": {LABEL_RULE}',
            f'spec.devices[0].consumesCounters[0].counters.m.value: Invalid value: "x": must be {QUANTITY}',
            f'spec.sharedCounters[0].counters.m.value: Invalid value: "y": must be {QUANTITY}',
        ],
        id="counts, places, names and counters of a slice",
    ),
    pytest.param(
        "ResourceSlice",
        {"spec": {"allNodes": True}},
        [
            "spec.driver: Required value: a name",
            "spec.pool.name: Required value: the name of a pool",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be 1 or more",
        ],
        id="a slice of nobody",
    ),
    pytest.param(
        "ResourceClaimTemplate",
        {"spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"count": -1}}], "constraints": [{}]}}}},
        [
            "spec.spec.devices.requests[0].exactly.deviceClassName: Required value: a name",
            "spec.spec.devices.requests[0].exactly.count: Invalid value: -1: must be 0 or more",
            "spec.spec.devices.constraints[0]: Required value: exactly one of matchAttribute and "
            "distinctAttribute must be set",
        ],
        id="a claim template",
    ),
    pytest.param(
        "ResourceClaim",
        {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "", "firstAvailable": [{"name": "S", "deviceClassName": "gpu"}]},
                        {"name": "", "exactly": {"deviceClassName": "gpu"}},
                        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
                        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
                    ]
                }
            }
        },
        [
            "spec.devices.requests[0].name: Required value: a name",
            f'spec.devices.requests[0].firstAvailable[0].name: Invalid value: "S": {LABEL_RULE}',
            "spec.devices.requests[1].name: Required value: a name",
            'spec.devices.requests[3].name: Duplicate value: "r"',
        ],
        id="names of requests",
    ),
    pytest.param(
        "ResourceClaim",
        a_request(
            exactly={
                "deviceClassName": "gpu",
                "allocationMode": "Some",
                "tolerations": [{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}],
                "capacity": {"requests": {"m": "x"}},
            },
            firstAvailable=[{"name": "s", "deviceClassName": "gpu"}],
        ),
        [
            "spec.devices.requests[0]: Invalid value: both: exactly one of exactly and firstAvailable must be set",
            'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: ExactCount, All',
            "spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "
            '"PreferNoSchedule": supported values: '
            "None, NoSchedule, NoExecute",
            f'spec.devices.requests[0].exactly.capacity.requests.m: Invalid value: "x": must be {QUANTITY}',
        ],
        id="modes, tolerations and capacity of a request",
    ),
    pytest.param(
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {}}]}},
        ["spec.selectors[0].cel.expression: Required value: a CEL expression"],
        id="a device class",
    ),
    pytest.param(
        "CSINode",
        {"spec": {"drivers": [{"name": "a"}, {"name": "b", "allocatable": {"count": -1}}]}},
        ["spec.drivers[1].allocatable.count: Invalid value: -1: must be 0 or more"],
        id="a count of volumes",
    ),
    pytest.param(
        "StorageClass",
        {"provisioner": "x", "allowedTopologies": [{"matchLabelExpressions": [{"key": "", "values": []}]}]},
        [
            "allowedTopologies[0].matchLabelExpressions[0].key: Required value: a label key",
            "allowedTopologies[0].matchLabelExpressions[0].values: Required value: one value or more",
        ],
        id="topologies of a storage class",
    ),
    pytest.param(
        "PersistentVolume",
        {"spec": {"volumeMode": "Tape", "capacity": {"iops": "x"}}},
        [
            "spec.accessModes: Required value: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod",
            f'spec.capacity.iops: Invalid value: "x": must be {QUANTITY}',
            "spec.capacity.storage: Required value: a size, e.g. 10Gi",
            'spec.volumeMode: Unsupported value: "Tape": supported values: Filesystem, Block',
        ],
        id="an empty volume",
    ),
    pytest.param(
        "PersistentVolumeClaim",
        {"spec": {**CLAIM, "volumeMode": "Tape", "selector": {"matchLabels": {"a": "-"}}}},
        [
            f'spec.selector.matchLabels.a: Invalid value: "-": {VALUE_RULE}',
            'spec.volumeMode: Unsupported value: "Tape": supported values: Filesystem, Block',
        ],
        id="selector and mode of a claim",
    ),
    pytest.param(
        "ReplicaSet",
        {"spec": {"selector": {"matchExpressions": [{"key": "", "operator": ""}]}}},
        [
            "spec.selector.matchExpressions[0].key: Required value: a label key",
            "spec.selector.matchExpressions[0].operator: Required value: In, NotIn, Exists, DoesNotExist",
        ],
        id="an empty requirement",
    ),
    pytest.param(
        "DeviceTaintRule",
        {
            "spec": {
                "deviceSelector": {"driver": "", "pool": "", "device": "a"},
                "taint": {"key": "", "effect": "Never"},
            }
        },
        [
            "spec.deviceSelector.driver: Required value: a name",
            "spec.deviceSelector.pool: Required value: the name of a pool",
            "spec.taint.key: Required value: a label key",
            'spec.taint.effect: Unsupported value: "Never": supported values: None, NoSchedule, NoExecute',
        ],
        id="a rule that taints devices",
    ),
    pytest.param(
        "RuntimeClass",
        {"scheduling": {"nodeSelector": {"a": "-"}, "tolerations": [{"key": "a", "effect": "Odd"}]}},
        [
            f'scheduling.nodeSelector.a: Invalid value: "-": {VALUE_RULE}',
            f'scheduling.tolerations[0].effect: Unsupported value: "Odd": supported values: {EFFECTS}',
        ],
        id="placement of a runtime class",
    ),
    pytest.param(
        "CSIStorageCapacity",
        {"maximumVolumeSize": "-1", "nodeTopology": {"matchLabels": {"a": "-"}}},
        [
            "storageClassName: Required value: the name of a StorageClass",
            f'nodeTopology.matchLabels.a: Invalid value: "-": {VALUE_RULE}',
            f'maximumVolumeSize: Invalid value: "-1": must be {QUANTITY}',
        ],
        id="a capacity of no class",
    ),
    pytest.param(
        "LimitRange",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "x"}}]}},
        [f'spec.limits[0].max.cpu: Invalid value: "x": must be {QUANTITY}'],
        id="a limit range",
    ),
    pytest.param(
        "RuntimeClass",
        {"overhead": {"podFixed": {"cpu": "x"}}},
        [f'overhead.podFixed.cpu: Invalid value: "x": must be {QUANTITY}'],
        id="a runtime class",
    ),
    pytest.param(
        "CSIStorageCapacity",
        {"storageClassName": "fast", "capacity": "x"},
        [f'capacity: Invalid value: "x": must be {QUANTITY}'],
        id="a storage capacity",
    ),
]


@pytest.mark.parametrize(("kind", "written", "texts"), OTHER_KINDS)
def test_other_kinds(kind: str, written: dict[str, Any], texts: list[str]) -> None:
    assert faults(kind, written) == texts


TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
WORKLOADS: list[Any] = [
    pytest.param({"selector": {"matchLabels": {"app": "web"}}}, [], id="sound"),
    pytest.param({}, ["spec.selector: Required value: a selector that matches the labels of the template"], id="bare"),
    pytest.param(
        {"selector": {"matchLabels": {"app": "db"}}},
        [
            "spec.template.metadata.labels: Invalid value: labels that spec.selector does not match: must "
            "be labels that it matches"
        ],
        id="a selector for other labels",
    ),
    pytest.param(
        {"selector": {"matchLabels": {"app": "web"}}, "replicas": -1},
        ["spec.replicas: Invalid value: -1: must be 0 or more"],
        id="fewer than no replicas",
    ),
    pytest.param(
        {
            "selector": {"matchLabels": {"app": "web"}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {**CLAIM, "accessModes": None}}],
        },
        [
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: "
            "ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod"
        ],
        id="a claim template",
    ),
]


@pytest.mark.parametrize(("spec", "texts"), WORKLOADS)
def test_workloads(spec: dict[str, Any], texts: list[str]) -> None:
    written = {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": TEMPLATE, **spec}}
    workload, problems = decode_as(Workload, written)
    assert problems == []
    assert workload is not None
    assert [str(problem) for problem in validate(workload)] == texts
