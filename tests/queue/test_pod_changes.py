"""An update of a pod as events."""

from typing import Any

import msgspec
import pytest
from queue_rig import a_pending

from mooring.queue.hints import pod_events

TWO_CPU = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
ONE_CPU: dict[str, Any] = {
    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}}}]
}
ONE_CPU_WRITTEN_SHORT = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
LESS_CPU_MORE_MEMORY = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]}
NO_MEMORY = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
RUNS_WITH_TWO_CPU = {
    "status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
}
TWO_GATES = {"schedulingGates": [{"name": "a"}, {"name": "b"}]}
ONE_GATE: dict[str, Any] = {"schedulingGates": [{"name": "b"}]}
CLAIM = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-x"}]}}
EXTENDED = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        pytest.param({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, ["UpdatePodLabel"], id="labels"),
        pytest.param(TWO_CPU, ONE_CPU, ["UpdatePodScaleDown"], id="a request became less"),
        pytest.param(TWO_CPU, NO_MEMORY, ["UpdatePodScaleDown"], id="a request vanished"),
        pytest.param(ONE_CPU, TWO_CPU, ["UpdatePodScaleUp"], id="a request became more"),
        pytest.param(NO_MEMORY, TWO_CPU, ["UpdatePodScaleUp"], id="a request came"),
        pytest.param(
            ONE_CPU,
            NO_MEMORY,
            ["UpdatePodScaleDown", "UpdatePodScaleUp"],
            id="one request vanished, another became more",
        ),
        pytest.param(ONE_CPU, {**ONE_CPU, **RUNS_WITH_TWO_CPU}, ["UpdatePodScaleUp"], id="more in what it really has"),
        pytest.param(ONE_CPU, ONE_CPU_WRITTEN_SHORT, ["Update"], id="a request is written differently"),
        pytest.param(
            {**TWO_CPU, **RUNS_WITH_TWO_CPU}, {**ONE_CPU, **RUNS_WITH_TWO_CPU}, ["Update"], id="less, but not yet"
        ),
        pytest.param(
            {**ONE_CPU, **RUNS_WITH_TWO_CPU}, ONE_CPU, ["UpdatePodScaleDown"], id="less in what it really has"
        ),
        pytest.param(TWO_GATES, ONE_GATE, ["Update"], id="one of two gates went"),
        pytest.param(ONE_GATE, {}, ["UpdatePodSchedulingGatesEliminated"], id="the last gate went"),
        pytest.param({}, {"tolerations": [{"key": "a"}]}, ["UpdatePodToleration"], id="a toleration was added"),
        pytest.param(
            {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, ["Update"], id="as many tolerations"
        ),
        pytest.param({}, CLAIM, ["UpdatePodGeneratedResourceClaim"], id="a claim was made"),
        pytest.param({}, EXTENDED, ["UpdatePodGeneratedResourceClaim"], id="a claim for extended resources"),
        pytest.param({}, {"metadata": {"deletionTimestamp": "2026-02-01T00:00:00Z"}}, ["Update"], id="it terminates"),
        pytest.param({}, {}, ["Update"], id="nothing that counts"),
        pytest.param(
            {**TWO_CPU, **ONE_GATE, "labels": {"a": "1"}},
            {**LESS_CPU_MORE_MEMORY, **CLAIM, "tolerations": [{"key": "a"}]},
            [
                "UpdatePodLabel",
                "UpdatePodScaleDown",
                "UpdatePodScaleUp",
                "UpdatePodSchedulingGatesEliminated",
                "UpdatePodToleration",
                "UpdatePodGeneratedResourceClaim",
            ],
            id="everything at once, in this order",
        ),
    ],
)
def test_events_of_an_update(old: dict[str, Any], new: dict[str, Any], labels: list[str]) -> None:
    """v1.37, 4.1 and 4.4."""
    events = pod_events(a_pending(**old), a_pending(**new))
    assert [event.label for event in events] == [f"UnscheduledPod{label}" for label in labels]
    events = pod_events(a_pending(**old), a_pending(**new), is_target=True)
    assert [event.label for event in events] == [f"TargetPod{label}" for label in labels]


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        pytest.param({}, RUNS_WITH_TWO_CPU, "UpdatePodScaleUp", id="more in what it really has"),
        pytest.param(RUNS_WITH_TWO_CPU, {}, "UpdatePodScaleDown", id="less in what it really has"),
        pytest.param({}, CLAIM, "UpdatePodGeneratedResourceClaim", id="a claim was made"),
        pytest.param({}, {"status": {"message": "0/1 nodes are available"}}, "Update", id="a message"),
    ],
)
def test_events_of_an_update_of_the_status_by_a_watch_that_shares_spec_and_metadata(
    old: dict[str, Any], new: dict[str, Any], label: str
) -> None:
    before = a_pending(**ONE_CPU, **old)
    after = msgspec.structs.replace(before, status=a_pending(**ONE_CPU, **new).status)
    assert after.spec is before.spec and after.metadata is before.metadata
    assert [event.label for event in pod_events(before, after)] == [f"UnscheduledPod{label}"]


def test_events_of_an_update_by_a_watch_that_shares_the_spec_or_the_metadata_alone() -> None:
    before, after = a_pending(**ONE_GATE, labels={"a": "1"}), a_pending(labels={"a": "2"})
    relabelled = msgspec.structs.replace(before, metadata=after.metadata)
    assert [event.label for event in pod_events(before, relabelled)] == ["UnscheduledPodUpdatePodLabel"]
    opened = msgspec.structs.replace(before, spec=after.spec)
    label = "UnscheduledPodUpdatePodSchedulingGatesEliminated"
    assert [event.label for event in pod_events(before, opened)] == [label]


@pytest.mark.parametrize("is_target", [False, True])
def test_a_pod_that_has_a_node_is_an_assigned_one(is_target: bool) -> None:
    events = pod_events(a_pending(), a_pending(nodeName="n1"), is_target=is_target)
    assert [event.label for event in events] == ["AssignedPodUpdate"]
