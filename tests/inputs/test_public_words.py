"""Words that stay in an anonymous dump are Kubernetes' own, as its API reference has them; all others are not."""

import re

import pytest

from mooring.inputs.dumps import renaming as words

CONDITIONS = """
Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable PodScheduled Initialized ContainersReady
PodReadyToStartContainers DisruptionTarget PodResizePending PodResizeInProgress DisruptionAllowed PodGroupInitiallyScheduled
Complete Failed Suspended SuccessCriteriaMet FailureTarget Available Progressing ReplicaFailure
"""
REASONS = """
Unschedulable SchedulerError SchedulingGated Infeasible Deferred SufficientPods InsufficientPods SyncFailed
PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI TerminationByKubelet KubeletReady KubeletNotReady
NodeStatusUnknown
"""
EVENTS = """
FailedScheduling Scheduled Preempted WaitingForPodGroup FailedBinding FailedAttachVolume NotTriggerScaleUp
TriggeredScaleUp TaintManagerEviction Evicted FailedCreate
"""
FINALIZERS = """
kubernetes foregroundDeletion orphan kubernetes.io/pv-protection kubernetes.io/pvc-protection
resource.kubernetes.io/delete-protection batch.kubernetes.io/job-tracking service.kubernetes.io/load-balancer-cleanup
scheduling.k8s.io/podgroup-protection
"""


@pytest.mark.parametrize(
    ("table", "expected"),
    [("conditions", CONDITIONS), ("reasons", REASONS), ("event_reasons", EVENTS), ("finalizers", FINALIZERS)],
    ids=["conditions", "reasons", "reasons of events", "finalizers"],
)
def test_words_of_kubernetes_stay_and_no_others(table: str, expected: str) -> None:
    assert words.PUBLIC[table] == set(expected.split())


def test_provisioners_of_others_do_not_stay() -> None:
    assert "kubernetes.io/no-provisioner" in words.PUBLIC_PROVISIONERS
    assert "kubernetes.io/acme" not in words.PUBLIC_PROVISIONERS


@pytest.mark.parametrize("text", ["NoSchedule", "WaitForFirstConsumer", "TCP", "System", "Node", "Pod", "v1", "True"])
def test_constants_of_fields_and_kinds_stay(text: str) -> None:
    assert text in words.WORDS


@pytest.mark.parametrize(
    ("form", "those", "others"),
    [
        (
            words.TIME,
            ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00+02:00"],
            ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00.1234567890Z", "acme2026-01-01T00:00:00Z"],
        ),
        (words.NUMBER, ["0", "9" * 30], ["", "9" * 31, "a", "1a", "-1"]),
        (
            words.AMOUNT,
            ["1", "1.5", ".5", "100m", "1Gi", "1e3", "1E-3", "50%", "+1", "-1", "1k", "1Ei"],
            ["1Acme", "acme", "1ki", "1e", "1 Gi"],
        ),
        (words.DURATION, ["1s", "1h30m", "1.5h", "10ms", "5us", "3ns"], ["", "1", "acme", "1d", "1s acme"]),
        (words.HUGE_PAGES, ["hugepages-2Mi", "hugepages-1Gi", "hugepages-64"], ["hugepages-", "hugepages-acme"]),
        (words.OWN_REQUEST, ["container-0-request-12"], ["container-0-request-", "container-a-request-1"]),
    ],
    ids=["times", "numbers", "amounts", "durations", "huge pages", "requests of the scheduler"],
)
def test_forms_that_have_no_room_for_a_word(form: re.Pattern[str], those: list[str], others: list[str]) -> None:
    assert [text for text in those if form.fullmatch(text) is None] == []
    assert [text for text in others if form.fullmatch(text) is not None] == []
