"""NodeDeclaredFeatures: pods that need something of the kubelet, and nodes that say they have it."""

from typing import Any

import pytest

from alone import build, skips_filter, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework.contract.status import final
from mooring.model.pod import Pod
from mooring.plugins.nodes.node_declared_features import NodeDeclaredFeatures

LACKING = final("node(s) didn't match Pod's required features").by("NodeDeclaredFeatures")
RESTART, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def restarting(action: str = "RestartAllContainers") -> dict[str, Any]:
    return {"name": "c", "restartPolicyRules": [{"action": action}]}


def mounting(options: list[str] | None) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w", "bindMountOptions": options}]
    return {"name": "m", "volumeMounts": mounts}


PODS: dict[str, tuple[Pod, list[str]]] = {
    "a plain pod": (a_pod(), []),
    "a container that restarts all": (a_pod(containers=[restarting()]), ["bare", "users"]),
    "an init container that restarts all": (a_pod(initContainers=[restarting()]), ["bare", "users"]),
    "a container that restarts itself": (a_pod(containers=[restarting("Restart")]), []),
    "the network of the host with users of its own": (a_pod(hostNetwork=True, hostUsers=False), ["bare", "restart"]),
    "the network of the host, users unsaid": (a_pod(hostNetwork=True), []),
    "the network and the users of the host": (a_pod(hostNetwork=True, hostUsers=True), []),
    "users of its own alone": (a_pod(hostUsers=False), []),
    "v1.37, 11.11: a mount with options": (
        a_pod(containers=[mounting(["noexec"])]),
        ["bare", "restart", "users", "all"],
    ),
    "v1.37, 11.11: an init container's": (a_pod(initContainers=[mounting(["x"])]), ["bare", "restart", "users", "all"]),
    "v1.37, 11.11: one for debugging": (
        a_pod(ephemeralContainers=[mounting(["x"])]),
        ["bare", "restart", "users", "all"],
    ),
    "v1.37, 11.11: mounts without options": (a_pod(containers=[mounting([]), mounting(None)]), []),
    "both": (a_pod(containers=[restarting()], hostNetwork=True, hostUsers=False), ["bare", "restart", "users"]),
}


@pytest.mark.parametrize(("pod", "lacking"), PODS.values(), ids=PODS.keys())
def test_nodes_that_lack_what_a_pod_needs(pod: Pod, lacking: list[str]) -> None:
    cluster = a_cluster(
        a_node("bare"),
        a_node("restart", features=["Other", RESTART]),
        a_node("users", features=[USERS]),
        a_node("all", features=[RESTART, USERS]),
        a_node("mounts", features=[RESTART, USERS, "VolumeBindMountOptions"]),
    )
    plugin = build(NodeDeclaredFeatures)
    assert verdicts(plugin, pod, cluster) == dict.fromkeys(lacking, LACKING)
    assert skips_filter(plugin, pod, cluster) == (not lacking)
