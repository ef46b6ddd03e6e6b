"""Claims of pod groups (gate DRAWorkloadResourceClaims), and the protection of groups that have pods."""

from mooring.api.json_objects import JsonObject
from mooring.api.kinds.scheduling import GROUP_PROTECTION
from mooring.apiserver.admission.lookups import Lookups
from mooring.rules.pod_claims import GROUP_CLAIMS_GATE


def admit_group_claims(old: JsonObject, new: JsonObject, cluster: Lookups) -> None:
    """A group gets claims of its own only with the gate; `old` is empty for a new one. Parity: claims that a group has stay,
    although the gate is off now."""
    if not cluster.gates.get(GROUP_CLAIMS_GATE, False) and not old.get("spec", {}).get("resourceClaims"):
        new.get("spec", {}).pop("resourceClaims", None)


def protect(group: JsonObject, cluster: Lookups) -> None:
    """A new group is kept while it has pods."""
    if cluster.gates.get("GenericWorkload", False):
        held = group["metadata"].get("finalizers", [])
        group["metadata"]["finalizers"] = [*held, *([] if GROUP_PROTECTION in held else [GROUP_PROTECTION])]
