"""Questions about an embedded cluster get what the commands say about a dump of it: with workloads, classes and events."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dashboard_stage import AnsweringThread
from mooring.api.json_objects import JsonObject
from mooring.app.dashboards import SchedulerSource
from mooring.cli.main import main
from mooring.dashboard.interfaces import AskedChange, AskedChanges, ExplainPod, Question
from mooring.dashboard.questions import child_questions
from mooring.dashboard.questions.asked_cluster import AskedScheduler, objects_in_store
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.framework.config import default
from mooring.inputs.dump_header import DumpHeader, header_object
from mooring.inputs.live_source import EVENTS, LISTED
from virtual_cluster import VirtualCluster

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(autouse=True)
def answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered by a thread."""
    monkeypatch.setattr(child_questions, "ChildProcess", AnsweringThread)


def a_shop() -> VirtualCluster:
    """Two nodes, a Deployment that fits, and one with a pod that fits nowhere."""
    cluster = VirtualCluster()
    cluster.node("n1", "4")
    cluster.node("n2", "8")
    for name, replicas, cpu in (("web", 3, "1"), ("giant", 1, "64")):
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        cluster.ask("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    cluster.wait(30)
    return cluster


def dumped(cluster: VirtualCluster, path: Path) -> Path:
    """All that `mooring dump` would list."""
    items: list[JsonObject] = [header_object(DumpHeader(has_all_pods=True))]
    for spec in (*LISTED, EVENTS):
        found = cluster.api.store.all(spec.storage)
        items += [{"apiVersion": spec.api_version, "kind": spec.kind, **item} for item in found]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def printed(path: Path, *arguments: str) -> Any:
    result = CliRunner().invoke(main, [arguments[0], "--from", str(path), "-o", "json", *arguments[1:]])
    return json.loads(result.stdout)


def answer(cluster: VirtualCluster, question: Question) -> Any:
    source = SchedulerSource("up", cluster.clock)
    source.show(cluster.cluster.scheduler)
    asked = AskedScheduler(default())
    return json.loads(asyncio.run(ChildQuestions(source, lambda: asked, objects_in_store(cluster.api)).ask(question)))


def test_an_explanation_has_the_history_of_its_pod(tmp_path: Path) -> None:
    cluster = a_shop()
    pod = next(key for key in cluster.cluster.scheduler.pods if "giant" in key)
    found = answer(cluster, ExplainPod(*pod.split("/")))
    assert found == printed(dumped(cluster, tmp_path / "dump.json"), "explain", pod)
    assert any("FailedScheduling" in str(event) for event in found["history"])
    assert found["cures"]


def test_deployments_are_scaled_in_a_what_if(tmp_path: Path) -> None:
    cluster = a_shop()
    changes = [("scale", "Deployment/default/web=6"), ("delete", "Deployment/default/giant"), ("drain", "n2")]
    found = answer(cluster, AskedChanges([AskedChange(*change) for change in changes]))
    flags = [text for name, value in changes for text in (f"--{name}", value)]
    assert found["answer"] == printed(dumped(cluster, tmp_path / "dump.json"), "what-if", *flags)
    assert found["after"]["names"] == ["n1", "n2"]
