"""Metrics of claims: what is counted when one is created, and when pods wait for devices."""

import msgspec

from mooring.framework.contract.points import Handle
from mooring.framework.profile.metric_catalogue import CATALOGUE
from mooring.kit.metrics import MetricRegistry
from mooring.model.devices import AllocatedDevice
from mooring.plugins.devices.allocation import ClaimMetrics


def test_what_is_counted() -> None:
    registry = MetricRegistry(CATALOGUE)
    metrics = ClaimMetrics(Handle(metrics=registry))
    metrics.created(True)
    metrics.created(False)
    slow, quick = ({"driver": "slow.io", "bindingConditions": ["ready"]}, {"driver": "quick.io"})
    metrics.waited([msgspec.convert(each, AllocatedDevice) for each in (slow, quick)], "timeout", 3.0)
    registry.fold()
    lines = registry.text().splitlines()
    for status in ("success", "failure"):  # v1.37, 20.3
        owner = f'status="{status}",admin_access="false",owner_api_group="",owner_api_kind="Pod"'
        assert f"dynamic_resource_allocation_resourceclaim_creates_total{{{owner}}} 1" in lines
    labels = 'profile="default-scheduler",driver="{}",status="timeout"'
    about = "scheduler_dra_bindingconditions_"
    assert f"{about}allocations_total{{{labels.format('slow.io')}}} 1" in lines
    assert not any(line.startswith(f"{about}allocations_total") and "quick.io" in line for line in lines)
    for driver in ("slow.io", "quick.io"):
        assert f"{about}wait_duration_seconds_sum{{{labels.format(driver)}}} 3" in lines
