"""The metrics of the scheduler against a table: names, kinds, stability, labels and buckets are what dashboards rely on."""

import pytest

from mooring.framework.profile.metric_catalogue import BY_GATE, CATALOGUE, HEALTH, RESOURCES
from mooring.kit.metrics import Description

BOUNDS = {
    "": [],
    "E1": [0.001 * 2**n for n in range(15)],
    "E2": [0.0001 * 2**n for n in range(12)],
    "E3": [0.01 * 2**n for n in range(20)],
    "E4": [1e-05 * 1.5**n for n in range(20)],
    "E5": [1e-05 * 2**n for n in range(12)],
    "E6": [0.1 * 2**n for n in range(14)],
    "E7": [0.001 * 2**n for n in range(16)],
    "to 16": [1, 2, 4, 8, 16],
    "to 1024": [2**n for n in range(11)],
    "to 64": [1, 2, 4, 8, 16, 32, 64],
    "informers": [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    "requests": [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
}

# Name | kind | stability | labels | bounds of a histogram
TABLE = """
scheduler_schedule_attempts_total | counter | STABLE | result profile
scheduler_scheduling_attempt_duration_seconds | histogram | STABLE | result profile | E1
scheduler_scheduling_algorithm_duration_seconds | histogram | BETA | | E1
scheduler_pod_scheduling_sli_duration_seconds | histogram | BETA | attempts | E3
scheduler_pod_scheduling_attempts | histogram | STABLE | | to 16
scheduler_pod_scheduled_after_flush_total | counter | ALPHA |
scheduler_pending_pods | gauge | STABLE | queue
scheduler_queue_incoming_pods_total | counter | STABLE | queue event
scheduler_queued_entities | gauge | ALPHA | queue type
scheduler_queue_incoming_entities_total | counter | ALPHA | queue event type
scheduler_pre_queueing_hint_evaluations_total | counter | ALPHA | plugin result
scheduler_batch_rescore_attempts_total | counter | ALPHA | profile
scheduler_batch_rescore_duration_seconds | histogram | ALPHA | profile | E5
informer_queued_items | gauge | ALPHA | name group version resource
informer_processing_latency_seconds | histogram | ALPHA | name group version resource | informers
informer_store_resource_version | gauge | ALPHA | name group version resource
scheduler_framework_extension_point_duration_seconds | histogram | STABLE | extension_point status profile | E2
scheduler_plugin_execution_duration_seconds | histogram | BETA | plugin extension_point status | E4
scheduler_plugin_evaluation_total | counter | BETA | plugin extension_point profile
scheduler_preemption_attempts_total | counter | STABLE |
scheduler_preemption_victims | histogram | STABLE | | to 64
scheduler_unschedulable_pods | gauge | BETA | plugin profile
scheduler_cache_size | gauge | ALPHA | type
scheduler_event_handling_duration_seconds | histogram | ALPHA | event | E2
scheduler_goroutines | gauge | BETA | operation
scheduler_permit_wait_duration_seconds | histogram | BETA | result | E1
scheduler_batch_attempts_total | counter | ALPHA | profile result
scheduler_batch_cache_flushed_total | counter | ALPHA | profile reason
scheduler_get_node_hint_duration_seconds | histogram | ALPHA | hinted profile | E5
scheduler_store_schedule_results_duration_seconds | histogram | ALPHA | profile | E5
scheduler_volume_binder_cache_requests_total | counter | ALPHA | operation
scheduler_volume_scheduling_stage_error_total | counter | ALPHA | operation
scheduler_queueing_hint_execution_duration_seconds | histogram | ALPHA | plugin event hint | E4
scheduler_inflight_events | gauge | ALPHA | event
scheduler_preemption_goroutines_duration_seconds | histogram | ALPHA | result | E3
scheduler_preemption_goroutines_execution_total | counter | ALPHA | result
dynamic_resource_allocation_resourceclaim_creates_total | counter | ALPHA | \
status admin_access owner_api_group owner_api_kind
scheduler_dra_bindingconditions_allocations_total | counter | ALPHA | profile driver status
scheduler_dra_bindingconditions_wait_duration_seconds | histogram | ALPHA | profile driver status | E6
leader_election_master_status | gauge | ALPHA | name
rest_client_requests_total | counter | ALPHA | code method host
rest_client_request_duration_seconds | histogram | ALPHA | verb host | requests
mooring_watches_ended_total | counter | ALPHA | resource reason
mooring_watch_gap_seconds_total | counter | ALPHA | resource
mooring_recording_steps_total | counter | ALPHA |
mooring_recording_bytes_total | counter | ALPHA |
mooring_recording_segments_total | counter | ALPHA |
mooring_recording_lost_steps_total | counter | ALPHA |
mooring_recording_faults_total | counter | ALPHA |
mooring_kept_answers_bytes | gauge | ALPHA |
mooring_kept_answers_limit_bytes | gauge | ALPHA |
mooring_kept_answers_memos | gauge | ALPHA |
mooring_kept_answers_lookups_total | counter | ALPHA | result
mooring_kept_answers_evictions_total | counter | ALPHA |
kubernetes_build_info | gauge | BETA | \
major minor git_version git_commit git_tree_state build_date go_version compiler platform
process_cpu_seconds_total | counter | ALPHA |
process_resident_memory_bytes | gauge | ALPHA |
process_start_time_seconds | gauge | ALPHA |
"""

WITH_GATES = """
scheduler_async_api_call_execution_total | counter | ALPHA | call_type result
scheduler_async_api_call_execution_duration_seconds | histogram | ALPHA | call_type result | E1
scheduler_pending_async_api_calls | gauge | ALPHA | call_type
scheduler_podgroup_schedule_attempts_total | counter | ALPHA | result profile
scheduler_podgroup_scheduling_attempt_duration_seconds | histogram | ALPHA | result profile | E1
scheduler_podgroup_scheduling_algorithm_duration_seconds | histogram | ALPHA | | E1
scheduler_workload_preemption_attempts_total | counter | ALPHA | result
scheduler_workload_preemption_victims | histogram | ALPHA | | to 1024
scheduler_preemption_workload_disruptions | histogram | ALPHA | preemptor | to 1024
scheduler_preemption_evaluation_duration_seconds | histogram | ALPHA | preemptor result | E7
scheduler_preemption_execution_duration_seconds | histogram | ALPHA | preemptor result | E7
scheduler_preemption_pdb_violations_total | counter | ALPHA | preemptor
scheduler_generated_placements_total | counter | ALPHA | profile
scheduler_placement_evaluations_total | counter | ALPHA | result profile
scheduler_placement_evaluation_duration_seconds | histogram | ALPHA | result profile | E1
"""

OTHER_PAGES = """
kubernetes_healthcheck | gauge | STABLE | name type
kubernetes_healthchecks_total | counter | STABLE | name type status
kube_pod_resource_request | gauge | STABLE | namespace pod node scheduler priority resource unit
kube_pod_resource_limit | gauge | STABLE | namespace pod node scheduler priority resource unit
"""


def rows(table: str) -> dict[str, list[str]]:
    """By name: what else the table says."""
    cells = ([cell.strip() for cell in row.split("|")] for row in table.strip().splitlines())
    return {name: [kind, stability, labels, *(bounds or [""])] for name, kind, stability, labels, *bounds in cells}


@pytest.mark.parametrize(
    ("descriptions", "table"),
    [
        (CATALOGUE, TABLE),
        ([description for added in BY_GATE.values() for description in added], WITH_GATES),
        (HEALTH + RESOURCES, OTHER_PAGES),
    ],
    ids=["by default", "with gates that are off", "on other pages"],
)
def test_the_catalogue(descriptions: list[Description], table: str) -> None:
    expected = rows(table)
    assert [d.name for d in descriptions if d.name not in expected] == []
    assert {d.name: [d.kind, d.stability, " ".join(d.labels)] for d in descriptions} == {
        name: row[:3] for name, row in expected.items()
    }
    for description in descriptions:
        bounds = BOUNDS[expected[description.name][3]]
        assert list(description.bounds) == pytest.approx(bounds, rel=1e-12), description.name


def test_v137_20_2_a_deprecated_metric_says_since_when() -> None:
    deprecated = [each.name for each in CATALOGUE if each.help.startswith("(Deprecated since 1.37.0) ")]
    assert deprecated == ["scheduler_preemption_goroutines_duration_seconds"]


def test_bounds_grow() -> None:
    for description in CATALOGUE:
        assert list(description.bounds) == sorted(set(description.bounds)), description.name


def test_only_evaluations_show_series_that_were_never_used() -> None:
    assert [d.name for d in CATALOGUE if d.shows_zero] == ["scheduler_plugin_evaluation_total"]
