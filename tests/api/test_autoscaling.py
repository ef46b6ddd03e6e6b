"""HorizontalPodAutoscalers in two versions: what one client writes in v1, another reads in v2, and the other way round."""

import json
from typing import Any

from asking import TABLE, ask
from cluster_api import an_api

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = V1.replace("v1", "v2")
REFERENCE = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
REQUESTS: dict[str, Any] = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps", "selector": {}}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
QUEUE = {
    "type": "Object",
    "object": {
        "metric": {"name": "length"},
        "describedObject": {"kind": "Service", "name": "q", "apiVersion": "v1"},
        "target": {"type": "Value", "value": "30"},
    },
}


def an_autoscaler(version: str, **spec: Any) -> dict[str, Any]:
    own = {"scaleTargetRef": REFERENCE, "maxReplicas": 5} | spec
    return {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": own}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def test_what_v1_writes_is_read_in_v2() -> None:
    api = an_api()
    made = ask(api, "POST", V1, an_autoscaler("autoscaling/v1", targetCPUUtilizationPercentage=60))
    assert (made.code, made.body["apiVersion"]) == (201, "autoscaling/v1")
    assert made.body["spec"]["targetCPUUtilizationPercentage"] == 60
    read = ask(api, "GET", f"{V2}/web").body
    assert read["spec"] == {"scaleTargetRef": REFERENCE, "minReplicas": 1, "maxReplicas": 5, "metrics": [cpu(60)]}
    rows = ask(api, "GET", V1, accept=TABLE).body["rows"]
    assert rows[0]["cells"] == ["web", "Deployment/web", "cpu: <unknown>/60%", 1, 5, 0, "0s"]


def test_an_autoscaler_without_a_metric_gets_that_of_cpu() -> None:
    for path, version in ((V1, "autoscaling/v1"), (V2, "autoscaling/v2")):
        api = an_api()
        assert ask(api, "POST", path, an_autoscaler(version)).code == 201
        assert ask(api, "GET", f"{V2}/web").body["spec"]["metrics"] == [cpu(80)]
        assert ask(api, "GET", f"{V1}/web").body["spec"]["targetCPUUtilizationPercentage"] == 80


def test_v1_keeps_in_annotations_what_it_cannot_say() -> None:
    api = an_api()
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    spec: dict[str, Any] = {"metrics": [MEMORY, REQUESTS, QUEUE, cpu(50)], "behavior": behavior}
    assert ask(api, "POST", V2, an_autoscaler("autoscaling/v2", **spec)).code == 201
    read = ask(api, "GET", f"{V1}/web").body
    notes = read["metadata"]["annotations"]
    assert json.loads(notes["autoscaling.alpha.kubernetes.io/metrics"])[0] == {
        "type": "Resource",
        "resource": {"name": "memory", "targetAverageValue": "1Gi"},
    }
    assert json.loads(notes["autoscaling.alpha.kubernetes.io/behavior"]) == behavior
    assert (read["spec"]["targetCPUUtilizationPercentage"], "metrics" in read["spec"]) == (50, False)
    assert ask(api, "PUT", f"{V1}/web", read | {"spec": read["spec"] | {"maxReplicas": 7}}).code == 200
    again = ask(api, "GET", f"{V2}/web").body
    without_selector = {"type": "Pods", "pods": REQUESTS["pods"] | {"metric": {"name": "rps"}}}
    assert again["spec"]["metrics"] == [MEMORY, without_selector, QUEUE, cpu(50)]
    assert (again["spec"]["maxReplicas"], again["spec"]["behavior"]) == (7, behavior)
    assert "annotations" not in again["metadata"]


def test_annotations_that_make_no_sense_count_as_missing() -> None:
    api = an_api()
    odd = an_autoscaler("autoscaling/v1")
    odd["metadata"]["annotations"] = {
        "autoscaling.alpha.kubernetes.io/metrics": '[{"type": "Resource", "resource": [1]}, {"type": 7}]',
        "autoscaling.alpha.kubernetes.io/behavior": "[]",
    }
    assert ask(api, "POST", V1, odd).code == 201
    assert ask(api, "GET", f"{V2}/web").body["spec"]["metrics"] == [cpu(80)]


def test_a_quota_counts_autoscalers_of_both_versions() -> None:
    api = an_api()
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/horizontalpodautoscalers.autoscaling": "1"}}}
    ask(api, "POST", "/api/v1/namespaces/default/resourcequotas", quota)
    for path, version, code in ((V2, "autoscaling/v2", 201), (V1, "autoscaling/v1", 403), (V2, "autoscaling/v2", 403)):
        autoscaler = an_autoscaler(version) | {"metadata": {"generateName": "web-"}}
        assert ask(api, "POST", path, autoscaler).code == code
