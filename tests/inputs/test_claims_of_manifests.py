"""The claims that pods of manifests get."""

import msgspec

from build import a_pod
from mooring.inputs.admission import ClaimSources, claims_for
from mooring.model.devices import ResourceClaim, ResourceClaimTemplate
from mooring.model.storage import PersistentVolumeClaim


def test_claims_of_a_pod_are_owned_by_it() -> None:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    template = msgspec.convert(
        {
            "metadata": {"name": "gpus", "namespace": "default"},
            "spec": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
        ResourceClaimTemplate,
    )
    pod = a_pod(
        "p",
        metadata={"uid": "u7"},
        volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}],
        resourceClaims=[
            {"name": "gpu", "resourceClaimTemplateName": "gpus"},
            {"name": "shared", "resourceClaimName": "given"},
            {"name": "lost", "resourceClaimTemplateName": "absent"},
        ],
    )
    sources = ClaimSources({template.key: template})
    made = claims_for(pod, sources)
    assert [(type(o), o.key) for o in made] == [
        (PersistentVolumeClaim, "default/p-scratch"),
        (ResourceClaim, "default/p-gpu"),
    ]
    for claim in made:
        owner = claim.controller()
        assert owner is not None
        assert (owner.kind, owner.name, owner.uid) == ("Pod", "p", "u7")
    assert msgspec.to_builtins(pod.status.resource_claim_statuses) == [{"name": "gpu", "resourceClaimName": "p-gpu"}]
    assert isinstance(made[1], ResourceClaim)
    assert msgspec.to_builtins(made[1].spec) == spec
    assert made[1].labels == {"a": "b"}
    assert made[1].metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert [o.key for o in claims_for(pod, sources)] == ["default/p-scratch"]
