"""What tests of leader election share: one lease, its name and times, and whoever stands for it."""

import logging
from collections.abc import Callable

from mooring.api.json_objects import JsonObject
from mooring.kit.logs import Log
from mooring.serve.lease.leader_election import Candidate, ElectionTimes
from mooring.serve.lease.lease_record import LeaseName, LeaseRecord

LEASE = LeaseName("kube-system", "kube-scheduler")
TIMES = ElectionTimes(15, 10, 2)
SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))


def a_candidate(identity: str = "a", random: Callable[[], float] = lambda: 0.0) -> Candidate:
    return Candidate(identity, LEASE, TIMES, lambda: "2026-11-15T07:17:46.000123Z", random)


def a_lease(holder: str, duration_s: int = 15, renew_time: str = "r", version: str = "7") -> JsonObject:
    spec = LeaseRecord(holder, duration_s, "acquired", renew_time, 3).spec()
    metadata = {"name": LEASE.name, "namespace": LEASE.namespace, "resourceVersion": version, "labels": {"kept": "yes"}}
    return {"metadata": metadata, "spec": spec}


def with_version(lease: JsonObject, version: str) -> JsonObject:
    return {**lease, "metadata": {**lease["metadata"], "resourceVersion": version}}


def version_of(lease: JsonObject) -> str:
    return str(lease["metadata"]["resourceVersion"])
