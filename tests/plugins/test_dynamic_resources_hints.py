"""Which changes wake a pod that DynamicResources rejected."""

from typing import Any

import pytest

from build import a_cluster, a_pod
from device_building import a_claim, an_allocation, claiming
from hinting import action_of, wakes
from mooring.api.kinds.devices import RESOURCE_CLAIM
from mooring.framework.contract.events import TARGET_POD, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.plugins.devices.dynamic_resources import DynamicResources

PLUGIN = DynamicResources(None, Handle())
POD_OF_C = claiming(a_pod("p", metadata={"uid": "p"}), "c")
GIVEN = {"allocation": an_allocation("a/d0")}
FREE_C, GIVEN_C = a_claim("c"), a_claim("c", status=GIVEN)
FREE_D, GIVEN_D = a_claim("d"), a_claim("d", status=GIVEN)
LABELLED_C = a_claim("c", metadata={"labels": {"x": "y"}})
USED_C = a_claim("c", status={**GIVEN, "reservedFor": [{"uid": "q"}]})

CLAIMS: dict[str, tuple[ResourceClaim | None, ResourceClaim | None, list[Any], bool]] = {
    "its claim comes": (None, FREE_C, [FREE_C], True),
    "another claim comes": (None, FREE_D, [FREE_C, FREE_D], False),
    "another claim comes, its own is missing": (None, FREE_D, [FREE_D], False),
    "its claim is allocated": (FREE_C, GIVEN_C, [GIVEN_C], True),
    "its claim gets a user": (GIVEN_C, USED_C, [USED_C], True),
    "its claim gets a label": (FREE_C, LABELLED_C, [LABELLED_C], False),
    "another claim is allocated": (FREE_D, GIVEN_D, [FREE_C, GIVEN_D], False),
    "another claim gives its devices back": (GIVEN_D, FREE_D, [FREE_C, FREE_D], True),
    "devices are given back, its own claim is missing": (GIVEN_D, FREE_D, [FREE_D], False),
    "another claim is deleted": (FREE_D, None, [FREE_C], False),
    "its claim is deleted": (FREE_C, None, [], False),
    "another claim is deleted with its devices": (GIVEN_D, None, [FREE_C], True),
    "a claim is deleted with its devices, its own is missing": (GIVEN_D, None, [], True),
}


@pytest.mark.parametrize(("old", "new", "items", "woken"), CLAIMS.values(), ids=CLAIMS.keys())
def test_claims(old: ResourceClaim | None, new: ResourceClaim | None, items: list[Any], woken: bool) -> None:
    """v1.37, 4.7: deletions too."""
    event = ClusterEvent(RESOURCE_CLAIM.event, action_of(old, new, Action.UPDATE))
    assert wakes(PLUGIN, POD_OF_C, event, old, new, a_cluster(*items)) is woken


def from_template(uid: str, *made: str) -> Pod:
    statuses = [{"name": "gpu", "resourceClaimName": name} for name in made]
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": statuses}
    return a_pod("p", metadata={"uid": uid}, resourceClaims=entries, status=status)


OWNED = a_claim("made", metadata={"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "p", "controller": True}]})
PODS: dict[str, tuple[Pod, list[Any], bool]] = {
    "its claim was made": (from_template("p", "made"), [OWNED], True),
    "its claim was made, but is not to be seen": (from_template("p", "made"), [], False),
    "nothing was made": (from_template("p"), [OWNED], False),
    "its claim was made for another pod of its name": (from_template("q", "made"), [OWNED], False),
}


@pytest.mark.parametrize(("new", "items", "woken"), PODS.values(), ids=PODS.keys())
def test_pods(new: Pod, items: list[Any], woken: bool) -> None:
    event = ClusterEvent(TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    waiting = from_template("p")
    assert wakes(PLUGIN, waiting, event, waiting, new, a_cluster(*items)) is woken
