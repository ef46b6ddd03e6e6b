"""Records that are passed around in a live scheduler cannot be changed: several tasks and threads share them."""

from importlib import import_module

import pytest

RECORDS = {
    "api_writer": "ApiWriter",
    "binder": "BindOutcome",
    "dry_run": "_Opinion _TiedNodes",
    "endpoints.access": "CallingUser Caller Permission AccessSettings",
    "endpoints.answers": "PageRequest PageReply",
    "endpoints.pages": "Check Health HealthPage Sources",
    "endpoints.server": "WebLimits",
    "endpoints.zpages": "DocumentForm Build",
    "event_writer": "NewEvent Repetition",
    "leader_election": "Read Create Update ElectionPause Over Found NoLease Unfulfilled Candidate ElectionTimes",
    "leader_elector": "ElectorSettings TimeAndChance Callbacks",
    "lease_candidate": "CandidateName",
    "lease_record": "LeaseName LeaseRecord",
    "self_checks": "SelfCheckSettings CheckedScheduler",
    "service": "ClientLimits SelfCheckPlan",
    "tracing.requests": "_TracedSender _TracedAsker",
    "tracing.settings": "TracingSettings",
}


@pytest.mark.parametrize("module", RECORDS)
def test_records_cannot_be_changed(module: str) -> None:
    for name in RECORDS[module].split():
        record = getattr(import_module(f"mooring.live.{module}"), name)
        form = getattr(record, "__struct_config__", None) or record.__dataclass_params__
        assert form.frozen, name
