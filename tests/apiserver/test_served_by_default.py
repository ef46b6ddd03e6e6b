"""Group versions of the embedded server beside those that kube-apiserver v1.37 serves without `--runtime-config`.

The lists are upstream's (pkg/controlplane/instance.go of v1.37.0-rc.1): stable versions are on, beta and alpha versions off.
"""

import pytest

from asking import ask
from cluster_api import an_api

STABLE = [
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
    "storagemigration.k8s.io/v1",
]
OFF = [
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1alpha3",
    "lifecycle.k8s.io/v1alpha1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1alpha1",
    "networking.k8s.io/v1beta1",
    "coordination.k8s.io/v1alpha2",
    "certificates.k8s.io/v1beta1",
    "admissionregistration.k8s.io/v1beta1",
]
ON_HERE = {"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3", "coordination.k8s.io/v1beta1"}
"""Pod groups can be created before a gate is on, and LeaseCandidates are those of coordinated leader election."""


def test_no_version_is_served_that_upstream_leaves_out_but_for_groups_and_lease_candidates() -> None:
    groups = ask(an_api(), "GET", "/apis", accept="application/json").body["groups"]
    served = {version["groupVersion"] for group in groups for version in group["versions"]}
    assert served - set(STABLE) == ON_HERE


@pytest.mark.parametrize("version", OFF)
def test_versions_that_are_off_by_default_are_not_found(version: str) -> None:
    assert ask(an_api(), "GET", f"/apis/{version}").code == 404
