"""Records that are passed around in a live scheduler cannot be changed: several tasks and threads share them."""

from types import ModuleType

import pytest

from mooring.drivers import api_writer, binder, dry_run, event_writer, self_checks
from mooring.drivers import live_service as service
from mooring.drivers import traced_requests as requests
from mooring.serve import tracing
from mooring.serve.lease import leader_election, leader_elector, lease_record
from mooring.serve.pages import access, pages, server
from mooring.serve.pages import pages as zpages

RECORDS: list[tuple[ModuleType, str]] = [
    (api_writer, "WriteClients"),
    (binder, "BindOutcome"),
    (dry_run, "_Opinion TiedNodes DrySender"),
    (access, "CallingUser Caller Permission AccessSettings"),
    (pages, "PageRequest PageReply"),
    (pages, "Check Health HealthPage Sources"),
    (server, "WebLimits"),
    (zpages, "DocumentForm Build"),
    (event_writer, "NewEvent Repetition"),
    (leader_election, "Read Create Update ElectionPause Over Found NoLease Unfulfilled Candidate ElectionTimes"),
    (leader_elector, "ElectorSettings TimeAndChance Callbacks"),
    (lease_record, "CandidateName"),
    (lease_record, "LeaseName LeaseRecord CandidateName"),
    (self_checks, "SelfCheckSettings CheckedScheduler"),
    (service, "ClientLimits LiveOptions SelfCheckPlan"),
    (requests, "_TracedSender"),
    (tracing, "TracingSettings"),
]


@pytest.mark.parametrize(("module", "names"), RECORDS, ids=[module.__name__ for module, _ in RECORDS])
def test_records_cannot_be_changed(module: ModuleType, names: str) -> None:
    for name in names.split():
        record = getattr(module, name)
        form = getattr(record, "__struct_config__", None) or record.__dataclass_params__
        assert form.frozen, name
