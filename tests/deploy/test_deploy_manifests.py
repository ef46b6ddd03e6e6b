"""The manifests: every API server takes them, `mooring run` takes their flags, and the pods may do what they have to."""

import pytest

from deploying import DEPLOY, check_config, flags_of, grants, items_of, refusals_of, the

FILES = sorted(DEPLOY.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_field_is_known_and_every_value_is_right(path: object) -> None:
    assert len(FILES) == 3
    assert refusals_of(items_of(path.read_text())) == []  # type: ignore[attr-defined]


def test_an_unknown_field_would_be_noticed() -> None:
    items = items_of((DEPLOY / "replacement-static-pod.yaml").read_text())
    items[0]["spec"]["containers"][0]["argz"] = []
    (told,) = refusals_of(items)
    assert 'unknown field "spec.containers[0].argz"' in told


def test_the_static_pod_can_read_what_kubeadm_writes_for_root_alone_and_has_no_other_power() -> None:
    (pod,) = items_of((DEPLOY / "replacement-static-pod.yaml").read_text())
    container = pod["spec"]["containers"][0]
    assert pod["spec"]["securityContext"]["runAsUser"] == 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    flags = flags_of(container)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    for name in ("kubeconfig", "authentication_kubeconfig", "authorization_kubeconfig"):
        assert flags[name] in mounted


def test_the_second_scheduler_has_its_own_lease_and_may_ask_for_reviews() -> None:
    items = items_of((DEPLOY / "second-scheduler.yaml").read_text())
    assert grants(items, "mooring") == {
        "system:kube-scheduler",
        "system:volume-scheduler",
        "system:auth-delegator",
        "extension-apiserver-authentication-reader",
        "mooring-lease",
        "mooring-newer-kinds",
    }
    config = check_config(the(items, "ConfigMap")["data"]["config.yaml"])
    election = config.leader_election
    assert (election.resource_namespace, election.resource_name) == ("kube-system", "mooring")
    assert [profile.scheduler_name for profile in config.profiles] == ["mooring"]
    spec = the(items, "Deployment")["spec"]["template"]["spec"]
    assert flags_of(spec["containers"][0])["config"] == "/etc/mooring/config.yaml"
    assert spec["securityContext"]["runAsNonRoot"] is True
