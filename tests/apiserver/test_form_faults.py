"""What kube-apiserver v1.37.0-rc.1 refused and with which words: `refusals.jsonl` has its answers to dry runs of a POST.

Each line has a plural, the spec of an object with the name `x`, and the message behind `is invalid: `.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from asking import CONFIG_MAPS, MERGE_PATCH, PODS, a_manifest, ask
from cluster_api import an_api
from mooring.api.kinds.pods import POD
from mooring.apiserver.resource_api import ResourceApi

REFUSALS = [json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text().splitlines()]
GROUPS = {
    **dict.fromkeys(("deployments", "statefulsets", "daemonsets", "replicasets"), "/apis/apps/v1"),
    **dict.fromkeys(("jobs", "cronjobs"), "/apis/batch/v1"),
    "poddisruptionbudgets": "/apis/policy/v1",
}
SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}, "suspend": True}
FROZEN = "Forbidden: field is immutable when `immutable` is set"


def collection(plural: str) -> str:
    return f"{GROUPS.get(plural, '/api/v1')}/namespaces/default/{plural}"


def refused(api: ResourceApi, *request: Any, **query: Any) -> tuple[int, str]:
    """The code, and the message without the name of the object."""
    reply = ask(api, *request, **query)
    return reply.code, reply.body.get("message", "").partition(" is invalid: ")[2] or reply.body.get("message", "")


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row['plural']}: {row['case']}")
def test_what_a_cluster_refuses_is_refused_with_its_words(row: dict[str, Any]) -> None:
    item = {"metadata": {"name": "x"}, "spec": row["spec"]}
    assert refused(an_api(), "POST", collection(row["plural"]), item) == (422, row["message"])


def test_objects_that_do_not_come_from_clients_are_taken_as_they_are() -> None:
    """A dump may be without images, and the pods of its workloads too."""
    api = an_api()
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "c"}]}}
    assert api.create(POD, "default", bare)["metadata"]["name"] == "bare"
    assert ask(api, "PATCH", f"{PODS}/bare", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH).code == 200
    code, why = refused(api, "PATCH", f"{PODS}/bare", {"spec": {"activeDeadlineSeconds": 5}}, MERGE_PATCH)
    assert (code, why) == (422, "spec.containers[0].image: Required value")


def test_metadata() -> None:
    api = an_api()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a"}
    body = a_manifest() | {"metadata": {"name": "p", "ownerReferences": [owner]}}
    assert refused(api, "POST", PODS, body)[1] == "metadata.ownerReferences[0].uid: Required value: must not be empty"
    body["metadata"] = {"name": "p", "finalizers": ["foo"]}
    why = 'Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified'
    assert refused(api, "POST", PODS, body)[1] == f"metadata.finalizers[0]: {why}"
    body["metadata"] = {"name": "p", "annotations": {"a b": "c"}}
    assert refused(api, "POST", PODS, body)[1].startswith('metadata.annotations: Invalid value: "a b": name part must')
    body["metadata"] = {"name": "p", "finalizers": ["example.com/a"], "annotations": {"Has.Capitals/Yes": ""}}
    assert ask(api, "POST", PODS, body).code == 201
    assert ask(api, "DELETE", f"{PODS}/p").code == 200
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}
    assert refused(api, "PATCH", f"{PODS}/p", more, MERGE_PATCH)[1] == (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"example.com/b"}'
    )


# ---- ConfigMaps and Secrets

DATA: list[tuple[str, dict[str, Any], int, str]] = [
    (CONFIG_MAPS, {"data": {"a b": "x"}}, 422, 'data[a b]: Invalid value: "a b": a valid config key must consist of'),
    (
        CONFIG_MAPS,
        {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
        422,
        'data[a]: Invalid value: "a": duplicate of key present in binaryData',
    ),
    (
        CONFIG_MAPS,
        {"binaryData": {"a": "!"}},
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte 0',
    ),
    (
        SECRETS,
        {"data": {"a": "YWI!"}},
        400,
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 3',
    ),
    (
        SECRETS,
        {"type": "kubernetes.io/tls", "data": {}},
        422,
        "[data[tls.crt]: Required value, data[tls.key]: Required value]",
    ),
]


@pytest.mark.parametrize(("path", "item", "code", "why"), DATA)
def test_data(path: str, item: dict[str, Any], code: int, why: str) -> None:
    found = refused(an_api(), "POST", path, {"metadata": {"name": "x"}, **item})
    assert (found[0], found[1][: len(why)]) == (code, why)


def test_the_texts_of_a_secret_become_data() -> None:
    api = an_api()
    made = ask(api, "POST", SECRETS, {"metadata": {"name": "s"}, "data": {"b": "Yg=="}, "stringData": {"a": "é"}}).body
    assert (made["data"], "stringData" in made) == ({"a": "w6k=", "b": "Yg=="}, False)
    assert refused(api, "PATCH", f"{SECRETS}/s", {"type": "other"}, MERGE_PATCH) == (
        *(422, 'type: Invalid value: "other": field is immutable'),
    )


def test_immutable_data_stays() -> None:
    api = an_api()
    assert ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}, "immutable": True}).code == 201
    assert refused(api, "PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "2"}}, MERGE_PATCH) == (422, f"data: {FROZEN}")
    assert refused(api, "PATCH", f"{CONFIG_MAPS}/c", {"immutable": None}, MERGE_PATCH) == (422, f"immutable: {FROZEN}")
    assert ask(api, "PATCH", f"{CONFIG_MAPS}/c", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH).code == 200


# ---- what never changes, and what is filled in


def test_a_service_keeps_its_address() -> None:
    api = an_api()
    assert ask(api, "POST", SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).code == 201
    found = refused(api, "PATCH", f"{SERVICES}/s", {"spec": {"clusterIP": "10.96.0.99"}}, MERGE_PATCH)
    assert found == (422, 'spec.clusterIPs[0]: Invalid value: ["10.96.0.99"]: may not change once set')
    assert ask(api, "PATCH", f"{SERVICES}/s", {"spec": {"ports": [{"port": 81}]}}, MERGE_PATCH).code == 200


def test_a_job_keeps_its_template() -> None:
    api = an_api()
    made = ask(api, "POST", JOBS, {"metadata": {"name": "j"}, "spec": JOB}).body
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"  # those of its template
    containers = [{"name": "c", "image": "y"}]
    changed = {"spec": {"template": {"spec": {"containers": containers}}}}
    code, why = refused(api, "PATCH", f"{JOBS}/j", changed, MERGE_PATCH)
    assert (code, why.partition(":")[0], why.endswith("field is immutable")) == (422, "spec.template", True)
    code, why = refused(api, "PATCH", f"{JOBS}/j", {"spec": {"completions": 7}}, MERGE_PATCH)
    assert (code, why) == (422, "spec.completions: Invalid value: 7: field is immutable")
    moved = {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    assert ask(api, "PATCH", f"{JOBS}/j", moved, MERGE_PATCH).code == 200  # while it has never started
    started = ask(api, "PATCH", f"{JOBS}/j/status", {"status": {"startTime": "2026-01-01T00:00:00Z"}}, MERGE_PATCH)
    assert started.code == 200
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"a": "c"}}}}}
    assert refused(api, "PATCH", f"{JOBS}/j", moved, MERGE_PATCH)[0] == 422


def test_a_stateful_set_mounts_the_volumes_of_its_claims() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    container = {"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {**TEMPLATE, "spec": {"containers": [container]}}
    spec = {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template}
    api = an_api()
    why = 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    assert refused(api, "POST", SETS, {"metadata": {"name": "s"}, "spec": spec}) == (422, why)
    made = {"metadata": {"name": "s"}, "spec": {**spec, "volumeClaimTemplates": [claim]}}
    assert ask(api, "POST", SETS, made).code == 201


def test_a_stateful_set_keeps_its_service() -> None:
    api = an_api()
    spec = {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    made = ask(api, "POST", SETS, {"metadata": {"name": "s"}, "spec": spec}).body["spec"]
    assert made["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert made["updateStrategy"]["rollingUpdate"] == {"partition": 0, "maxUnavailable": 1}
    found = refused(api, "PATCH", f"{SETS}/s", {"spec": {"serviceName": "y"}}, MERGE_PATCH)
    assert found == (422, 'spec.serviceName: Invalid value: "y": field is immutable')


def test_the_template_of_a_cron_job_is_completed() -> None:
    api = an_api()
    spec = {"schedule": "@every 1h", "jobTemplate": {"spec": JOB}}
    cron: dict[str, Any] = {"metadata": {"name": "c"}, "spec": spec}
    made = ask(api, "POST", collection("cronjobs"), cron).body["spec"]["jobTemplate"]
    assert made["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    cron["metadata"]["name"] = "c" * 53
    why = f'metadata.name: Invalid value: "{"c" * 53}": must be no more than 52 characters'
    assert refused(api, "POST", collection("cronjobs"), cron) == (422, why)


def test_namespaces_of_every_cluster_stay() -> None:
    reply = ask(an_api(), "DELETE", "/api/v1/namespaces/default")
    assert reply.code == 403
    assert reply.body["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_a_deletion_of_many_has_a_limit() -> None:
    api = an_api()
    for name in "abc":
        ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": name}})
    assert [item["metadata"]["name"] for item in ask(api, "DELETE", CONFIG_MAPS, limit=2).body["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in ask(api, "GET", CONFIG_MAPS).body["items"]] == ["c"]


def test_names_of_roles_and_subjects_of_bindings() -> None:
    api, roles = an_api(), "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert ask(api, "POST", roles, {"metadata": {"name": "system:Some-Role"}}).code == 201
    assert refused(api, "POST", roles, {"metadata": {"name": "a/b"}}) == (
        *(422, "metadata.name: Invalid value: \"a/b\": may not contain '/'"),
    )
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    binding = {"metadata": {"name": "b"}, "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "s"}]}
    assert refused(api, "POST", f"{roles[:-5]}rolebindings", binding) == (422, "subjects[0].namespace: Required value")
    place = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert ask(api, "POST", place, binding).code == 201
