"""A snapshot is input for a simulation, which then decides as the scheduler that made it would."""

import json
from pathlib import Path
from typing import Any

import pytest

from build import a_node, a_pod
from mooring import simulate
from mooring.framework import config
from mooring.framework.config.feature_gates import parse_gates
from mooring.inputs.manifests import read
from mooring.kit.clock import VirtualClock
from mooring.scheduler.inputs import ObjectAdded
from mooring.serve.cache_debugger import snapshot
from mooring.state.scheduler_assembly import build_scheduler

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PACKED = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
PROFILE = {"schedulerName": "mine", "pluginConfig": [{"name": "NodeResourcesFit", "args": PACKED}]}
SERVER = {"resourceVersion": "7"}


def a_snapshot(gates: str = "", **fields: Any) -> dict[str, Any]:
    chosen = parse_gates(gates)
    settings = config.from_object({**HEADER, "profiles": [PROFILE], **fields}, feature_gates=chosen)
    scheduler = build_scheduler(settings, VirtualClock(), gates=chosen)
    scheduler.handle(ObjectAdded(a_node("large", cpu="8")))
    scheduler.handle(ObjectAdded(a_node("small", cpu="2")))
    scheduler.handle(
        ObjectAdded(a_pod("p", cpu="1", schedulerName="mine", priority=0, metadata={"uid": "u", **SERVER}))
    )
    return snapshot(scheduler, settings, chosen)


def test_a_simulation_has_the_profiles_of_the_scheduler() -> None:
    report = simulate(a_snapshot())
    assert [(result.pod.name, result.node) for result in report.placed] == [("p", "small")], (
        "packed, by a profile `mine`"
    )


def test_another_configuration_replaces_it() -> None:
    spread = simulate(a_snapshot(), {**HEADER, "profiles": [{"schedulerName": "mine"}]})
    assert [result.node for result in spread.placed] == ["large"]


def test_feature_gates_are_carried(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(a_snapshot("GenericWorkload=true")))
    settings = read([str(path)]).settings
    assert settings is not None
    assert settings.gates == {"GenericWorkload": True}
    assert settings.file == str(path)


def test_private_keys_of_extenders_stay_where_they_are() -> None:
    tls = {"certData": "YQ==", "keyData": "c2VjcmV0"}
    extender = {"urlPrefix": "https://127.0.0.1:1", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}
    written = json.dumps(a_snapshot(extenders=[extender]))
    assert "YQ==" in written and "c2VjcmV0" not in written


def test_passwords_and_tokens_in_urls_stay_where_they_are() -> None:
    extender = {"urlPrefix": "http://me:SECRET@h:1/x?token=SECRET", "filterVerb": "f"}
    configuration = a_snapshot(extenders=[extender], tracing={"endpoint": "me:SECRET@collector:4317"})
    written = json.dumps(configuration)
    assert "SECRET" not in written
    assert '"http://h:1/x"' in written and '"collector:4317"' in written


@pytest.mark.parametrize("part", [{"configuration": 7}, {"configuration": {}, "featureGates": {"A": "x"}}])
def test_settings_of_another_form_are_refused(tmp_path: Path, part: dict[str, Any]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"apiVersion": "mooring.dev/v1", "kind": "SchedulerSettings", **part}))
    (problem,) = read([str(path)]).problems
    assert "does not have the form that `mooring snapshot` writes; remove it" in str(problem)
