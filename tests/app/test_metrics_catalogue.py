"""The metrics of the scheduler against a table: names, kinds, stability, labels and buckets are what dashboards rely on."""

import pytest

from mooring.framework.metric_catalogue import BY_GATE, CATALOGUE, HEALTH, RESOURCES
from mooring.kit.metrics import Description

# Name | kind | stability | labels | first bound, last bound and number of bounds of a histogram
TABLE = """
scheduler_schedule_attempts_total | counter | STABLE | result profile
scheduler_scheduling_attempt_duration_seconds | histogram | STABLE | result profile | 0.001 16.384 15
scheduler_scheduling_algorithm_duration_seconds | histogram | ALPHA | | 0.001 16.384 15
scheduler_pod_scheduling_sli_duration_seconds | histogram | BETA | attempts | 0.01 5242.88 20
scheduler_pod_scheduling_attempts | histogram | STABLE | | 1 16 5
scheduler_pod_scheduled_after_flush_total | counter | ALPHA |
scheduler_pending_pods | gauge | STABLE | queue
scheduler_queue_incoming_pods_total | counter | STABLE | queue event
scheduler_framework_extension_point_duration_seconds | histogram | STABLE | extension_point status profile | 0.0001 0.2048 12
scheduler_plugin_execution_duration_seconds | histogram | ALPHA | plugin extension_point status | 1e-05 0.02216837820053101 20
scheduler_plugin_evaluation_total | counter | BETA | plugin extension_point profile
scheduler_preemption_attempts_total | counter | STABLE |
scheduler_preemption_victims | histogram | STABLE | | 1 64 7
scheduler_unschedulable_pods | gauge | BETA | plugin profile
scheduler_cache_size | gauge | ALPHA | type
scheduler_event_handling_duration_seconds | histogram | ALPHA | event | 0.0001 0.2048 12
scheduler_goroutines | gauge | BETA | operation
scheduler_permit_wait_duration_seconds | histogram | BETA | result | 0.001 16.384 15
scheduler_batch_attempts_total | counter | ALPHA | profile result
scheduler_batch_cache_flushed_total | counter | ALPHA | profile reason
scheduler_get_node_hint_duration_seconds | histogram | ALPHA | hinted profile | 1e-05 0.02048 12
scheduler_store_schedule_results_duration_seconds | histogram | ALPHA | profile | 1e-05 0.02048 12
scheduler_volume_binder_cache_requests_total | counter | ALPHA | operation
scheduler_volume_scheduling_stage_error_total | counter | ALPHA | operation
scheduler_queueing_hint_execution_duration_seconds | histogram | ALPHA | plugin event hint | 1e-05 0.02216837820053101 20
scheduler_inflight_events | gauge | ALPHA | event
scheduler_preemption_goroutines_duration_seconds | histogram | ALPHA | result | 0.01 5242.88 20
scheduler_preemption_goroutines_execution_total | counter | ALPHA | result
scheduler_resourceclaim_creates_total | counter | ALPHA | status
scheduler_dra_bindingconditions_allocations_total | counter | ALPHA | profile driver status
scheduler_dra_bindingconditions_wait_duration_seconds | histogram | ALPHA | profile driver status | 0.1 819.2 14
leader_election_master_status | gauge | ALPHA | name
rest_client_requests_total | counter | ALPHA | code method host
rest_client_request_duration_seconds | histogram | ALPHA | verb host | 0.005 60 12
kubernetes_build_info | gauge | ALPHA | \
major minor git_version git_commit git_tree_state build_date go_version compiler platform
process_cpu_seconds_total | counter | ALPHA |
process_resident_memory_bytes | gauge | ALPHA |
process_start_time_seconds | gauge | ALPHA |
"""

WITH_GATES = """
scheduler_async_api_call_execution_total | counter | ALPHA | call_type result
scheduler_async_api_call_execution_duration_seconds | histogram | ALPHA | call_type result | 0.001 16.384 15
scheduler_pending_async_api_calls | gauge | ALPHA | call_type
scheduler_podgroup_schedule_attempts_total | counter | ALPHA | result profile
scheduler_podgroup_scheduling_attempt_duration_seconds | histogram | ALPHA | result profile | 0.001 16.384 15
scheduler_podgroup_scheduling_algorithm_duration_seconds | histogram | ALPHA | | 0.001 16.384 15
"""

OTHER_PAGES = """
kubernetes_healthcheck | gauge | STABLE | name type
kubernetes_healthchecks_total | counter | STABLE | name type status
kube_pod_resource_request | gauge | STABLE | namespace pod node scheduler priority resource unit
kube_pod_resource_limit | gauge | STABLE | namespace pod node scheduler priority resource unit
"""


def written(description: Description) -> str:
    fields = [description.name, description.kind, description.stability, " ".join(description.labels)]
    bounds = description.bounds
    if bounds:
        fields.append(f"{bounds[0]:g} {float(bounds[-1])!r} {len(bounds)}".replace(".0 ", " "))
    return " | ".join(fields).strip()


def rows(table: str) -> list[str]:
    return sorted(row for row in table.strip().splitlines() if row)


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
    assert sorted(written(description) for description in descriptions) == rows(table)


def test_bounds_grow() -> None:
    for description in CATALOGUE:
        assert list(description.bounds) == sorted(set(description.bounds)), description.name


def test_only_evaluations_show_series_that_were_never_used() -> None:
    assert [d.name for d in CATALOGUE if d.shows_zero] == ["scheduler_plugin_evaluation_total"]
