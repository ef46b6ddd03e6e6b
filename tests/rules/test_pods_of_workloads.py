"""What controllers make of a pod template, as those of v1.36 do."""

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.rules.workload_pods import (
    claims_of,
    identified,
    job_labels,
    meant_for,
    pod_of,
    template_hash,
    with_index,
)

SETS = RESOURCES["apps", "v1", "statefulsets"]
OWNER = {"metadata": {"name": "web", "namespace": "ns", "uid": "u"}}
TEMPLATE: JsonObject = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["a/b"], "name": "ignored"},
    "spec": {"containers": [{"name": "c", "env": []}], "volumes": [{"name": "data"}, {"name": "tmp"}]},
}
SET: JsonObject = {
    **OWNER,
    "spec": {
        "serviceName": "svc",
        "selector": {"matchLabels": {"app": "web"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"x": 1}}],
    },
}


def a_pod() -> JsonObject:
    return pod_of(SETS, OWNER, TEMPLATE)


def test_a_pod_has_the_metadata_of_its_template_and_its_owner() -> None:
    assert a_pod() == {
        "metadata": {
            "generateName": "web-",
            "labels": {"app": "web"},
            "finalizers": ["a/b"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "web",
                    "uid": "u",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": TEMPLATE["spec"],
    }


def test_a_pod_of_a_stateful_set_has_its_identity_and_claims() -> None:
    pod = identified(SET, a_pod(), "web-rev", 3)
    assert (pod["metadata"]["name"], "generateName" in pod["metadata"]) == ("web-3", False)
    assert pod["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": "web-rev",
        "statefulset.kubernetes.io/pod-name": "web-3",
        "apps.kubernetes.io/pod-index": "3",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-3", "svc")
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-3"}}
    assert pod["spec"]["volumes"] == [{"name": "tmp"}, mounted]
    assert [*claims_of(SET, 3)] == [
        {"metadata": {"name": "data-web-3", "labels": {"a": "b", "app": "web"}}, "spec": {"x": 1}}
    ]
    assert a_pod()["spec"]["volumes"] == [{"name": "data"}, {"name": "tmp"}]


def test_a_pod_of_a_daemon_set_names_its_node() -> None:
    pod = meant_for(a_pod(), "n1", "abc")
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert pod["metadata"]["labels"]["controller-revision-hash"] == "abc"
    assert len(pod["spec"]["tolerations"]) == 6


def test_a_pod_of_an_indexed_job_knows_its_index() -> None:
    pod, index = with_index(a_pod(), "job", 2), "batch.kubernetes.io/job-completion-index"
    meta = pod["metadata"]
    assert (meta["generateName"], meta["labels"][index], meta["annotations"][index]) == ("job-2-", "2", "2")
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert job_labels("j", "u") == {
        "job-name": "j",
        "controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "batch.kubernetes.io/controller-uid": "u",
    }
    assert job_labels("j", "") == {"job-name": "j", "batch.kubernetes.io/job-name": "j"}


def test_equal_templates_have_equal_names_unless_one_is_taken() -> None:
    turned = {key: TEMPLATE[key] for key in reversed(TEMPLATE)}
    assert template_hash(TEMPLATE) == template_hash(turned) != template_hash(TEMPLATE, 1)
    assert len(template_hash(TEMPLATE)) == 10
