"""Patches of a pod's status, word for word as kube-scheduler sends them."""

import json
from typing import Any

import msgspec
import pytest

from mooring.drivers.status_writer import status_patch, with_patch
from mooring.model.meta import Condition
from mooring.model.pod_spec import PodStatus

NOW = "2026-11-15T06:39:10Z"
EARLIER = "2026-11-15T06:00:00Z"
MESSAGE = "0/2 nodes are available: 2 Insufficient cpu."

NEVER_TRIED = PodStatus(phase="Pending")


def failed(message: str = MESSAGE, reason: str = "Unschedulable", generation: int | None = 1, **more: Any) -> Condition:
    return Condition(
        type="PodScheduled", status="False", reason=reason, message=message, observed_generation=generation, **more
    )


READY = Condition(type="Ready", status="False", last_transition_time=EARLIER)
TARGET = Condition(
    type="DisruptionTarget",
    status="True",
    reason="PreemptionByScheduler",
    message="default-scheduler: preempting to accommodate a higher priority pod",
    observed_generation=3,
)
TRIED = PodStatus(phase="Pending", conditions=[failed(last_transition_time=EARLIER)])
BOUND = PodStatus(
    phase="Running", conditions=[READY, Condition(type="PodScheduled", status="True", last_transition_time=EARLIER)]
)
NOMINATED = PodStatus(phase="Pending", nominated_node_name="n1", conditions=TRIED.conditions)

FIRST_FAILURE = (
    '{"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-11-15T06:39:10Z","message":"'
    + MESSAGE
    + '","observedGeneration":1,"reason":"Unschedulable","status":"False","type":"PodScheduled"}]}}'
)
ANOTHER_MESSAGE = (
    '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
    '"conditions":[{"message":"other","type":"PodScheduled"}]}}'
)


def test_the_first_failure() -> None:
    assert msgspec.json.encode(status_patch(NEVER_TRIED, failed(), None, NOW)).decode() == FIRST_FAILURE


def test_a_change_of_the_message_alone() -> None:
    assert msgspec.json.encode(status_patch(TRIED, failed("other"), None, NOW)).decode() == ANOTHER_MESSAGE


@pytest.mark.parametrize(
    ("old", "condition", "nominated", "status"),
    [
        pytest.param(NEVER_TRIED, None, "n2", {"nominatedNodeName": "n2"}, id="a nomination alone"),
        pytest.param(NOMINATED, None, "", {"nominatedNodeName": None}, id="a nomination is cleared"),
        pytest.param(NOMINATED, None, "n2", {"nominatedNodeName": "n2"}, id="another nomination"),
        pytest.param(
            NEVER_TRIED,
            failed(),
            "n2",
            {**json.loads(FIRST_FAILURE)["status"], "nominatedNodeName": "n2"},
            id="a failure with a nomination",
        ),
        pytest.param(
            TRIED,
            failed("oops", "SchedulerError"),
            None,
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"message": "oops", "reason": "SchedulerError", "type": "PodScheduled"}],
            },
            id="reason and message",
        ),
        pytest.param(
            TRIED,
            failed("other", generation=2),
            None,
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"message": "other", "observedGeneration": 2, "type": "PodScheduled"}],
            },
            id="message and generation",
        ),
        pytest.param(
            BOUND,
            failed(),
            None,
            {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
                "conditions": [
                    {
                        "lastTransitionTime": NOW,
                        "message": MESSAGE,
                        "observedGeneration": 1,
                        "reason": "Unschedulable",
                        "status": "False",
                        "type": "PodScheduled",
                    }
                ],
            },
            id="the time changes when the status flips",
        ),
        pytest.param(
            BOUND,
            TARGET,
            None,
            {
                "$setElementOrder/conditions": [
                    {"type": "Ready"},
                    {"type": "PodScheduled"},
                    {"type": "DisruptionTarget"},
                ],
                "conditions": [
                    {
                        "lastProbeTime": None,
                        "lastTransitionTime": NOW,
                        "message": "default-scheduler: preempting to accommodate a higher priority pod",
                        "observedGeneration": 3,
                        "reason": "PreemptionByScheduler",
                        "status": "True",
                        "type": "DisruptionTarget",
                    }
                ],
            },
            id="a victim",
        ),
        pytest.param(
            PodStatus(conditions=[failed("%s " * 400)]),
            failed("x" * 5000),
            None,
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                "conditions": [{"message": "x" * 5000, "type": "PodScheduled"}],
            },
            id="a message is never cut",
        ),
    ],
)
def test_differences(old: PodStatus, condition: Condition | None, nominated: str | None, status: Any) -> None:
    assert status_patch(old, condition, nominated, NOW) == {"status": status}


@pytest.mark.parametrize(
    ("old", "condition", "nominated"),
    [
        pytest.param(TRIED, failed(), None, id="the same condition"),
        pytest.param(TRIED, failed(generation=2), None, id="another generation alone"),
        pytest.param(NOMINATED, None, "n1", id="the same nomination"),
        pytest.param(NEVER_TRIED, None, "", id="no nomination to clear"),
        pytest.param(NOMINATED, failed(), None, id="nothing is said of the nomination"),
    ],
)
def test_nothing_to_change_is_no_patch(old: PodStatus, condition: Condition | None, nominated: str | None) -> None:
    assert status_patch(old, condition, nominated, NOW) is None


def test_a_reason_that_is_gone_is_written_as_null() -> None:
    patch = status_patch(TRIED, Condition(type="PodScheduled", status="False", message=MESSAGE), None, NOW)
    assert patch is not None
    assert patch["status"]["conditions"] == [{"observedGeneration": None, "reason": None, "type": "PodScheduled"}]


@pytest.mark.parametrize("old", [NEVER_TRIED, TRIED, BOUND, NOMINATED])
@pytest.mark.parametrize("condition", [None, failed("other", generation=2), TARGET])
@pytest.mark.parametrize("nominated", [None, "", "n2"])
def test_after_a_patch_there_is_nothing_left_to_change(
    old: PodStatus, condition: Condition | None, nominated: str | None
) -> None:
    written = with_patch(old, condition, nominated, NOW)
    assert status_patch(written, condition, nominated, "2030-01-01T00:00:00Z") is None
    kept = [c for c in old.conditions or () if condition is None or c.type != condition.type]
    assert [c for c in written.conditions or () if condition is None or c.type != condition.type] == kept
    assert written.phase == old.phase
