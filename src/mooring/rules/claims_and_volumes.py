"""The rules of kube-controller-manager about claims and volumes, as pure functions: objects go in, decisions and
manifests come out.

The PersistentVolume controller (pv_controller.go, index.go): which volume serves a claim, what binding writes, and how
a provisioner makes a volume to order. The scheduler chooses volumes on each node with columns of its own
(`plugins/volumes/volume_choice.py`), where the smallest volume wins.

The controllers of claims (resourceclaim/controller.go, volume/ephemeral/controller.go): which claims they create for a
pod or a pod group, and what they do with a claim for devices whose pods are gone. The functions return new objects and
change none.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.model.meta import LabelSelector
from mooring.model.names import HOSTNAME, TOPOLOGY
from mooring.model.quantity import parse
from mooring.model.selectors import compile_selector
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import BIND_COMPLETED, BOUND_BY_CONTROLLER, FILESYSTEM
from mooring.rules.workload_pods import owner_reference

PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def class_of(item: JsonObject) -> str:
    """The storage class of a claim or a volume. Parity: the deprecated annotation wins over the field."""
    annotations = item["metadata"].get("annotations", {})
    name: str = annotations.get(CLASS_ANNOTATION, item["spec"].get("storageClassName") or "")
    return name


def claim_key(volume: JsonObject) -> str:
    """`namespace/name` of the claim that the volume is reserved for; empty if any claim may have it."""
    reference = volume["spec"].get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def is_for(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether the volume is reserved for this claim. A reference without uid, which a user wrote, means the name; one with
    a uid does not mean a later claim of the same name."""
    meta, reference = claim["metadata"], volume["spec"].get("claimRef") or {}
    named = (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
    return named and reference.get("uid", "") in ("", meta.get("uid", ""))


def capacity_of(volume: JsonObject) -> int:
    return parse(volume["spec"].get("capacity", {}).get("storage", 0))


def request_of(claim: JsonObject) -> int:
    return parse(claim["spec"].get("resources", {}).get("requests", {}).get("storage", 0))


def mismatch(volume: JsonObject, claim: JsonObject) -> str:
    """Why a volume that the claim names cannot serve it, in upstream's words; empty if it can."""
    if volume["metadata"].get("deletionTimestamp"):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity_of(volume) < request_of(claim):
        return "requested PV is too small"
    return "storageClassName does not match" if class_of(volume) != class_of(claim) else _other_kind(volume, claim)


def _other_kind(volume: JsonObject, claim: JsonObject) -> str:
    """The difference between the two apart from size and storage class, in upstream's words."""
    spec, asked = volume["spec"], claim["spec"]
    if (spec.get("volumeAttributesClassName") or "") != (asked.get("volumeAttributesClassName") or ""):
        return "volumeAttributesClassName does not match"
    if (spec.get("volumeMode") or FILESYSTEM) != (asked.get("volumeMode") or FILESYSTEM):
        return "incompatible volumeMode"
    return (
        "" if set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ()) else "incompatible accessMode"
    )


def chosen_volume(claim: JsonObject, named: JsonObject | None, naming: Iterable[JsonObject]) -> JsonObject | None:
    """The volume that a user or the scheduler has chosen for the claim, if it can be bound; otherwise None.

    `named` is the volume that the claim names, `naming` are volumes that name the claim.
    """
    if not claim["spec"].get("volumeName"):
        return next((volume for volume in naming if is_for(volume, claim) and _can_hold(volume, claim)), None)
    if named is None or (named["spec"].get("claimRef") and not is_for(named, claim)):
        return None
    # Parity: if the two name each other, upstream compares nothing else.
    return named if is_for(named, claim) or not mismatch(named, claim) else None


def _can_hold(volume: JsonObject, claim: JsonObject) -> bool:
    """Whether a volume that names the claim can serve it. Parity: its storage class may differ."""
    is_there = not volume["metadata"].get("deletionTimestamp") and capacity_of(volume) >= request_of(claim)
    return is_there and not _other_kind(volume, claim)


def best_volume(claim: JsonObject, volumes: Iterable[JsonObject]) -> JsonObject | None:
    """The first volume by `preference` that is free, fits, and that the claim's selector matches."""
    written = claim["spec"].get("selector")
    selector = compile_selector(msgspec.convert(written, LabelSelector)) if written is not None else None
    fitting = [
        volume
        for volume in volumes
        if is_free(volume)
        and not mismatch(volume, claim)
        and (selector is None or selector.matches(volume["metadata"].get("labels", {})))
    ]
    return min(fitting, key=_preference, default=None)


def _preference(volume: JsonObject) -> tuple[int, int, str]:
    return preference(volume["spec"].get("accessModes", ()), capacity_of(volume), volume["metadata"]["name"])


def preference(access_modes: Collection[str], capacity_nano: int, name: str) -> tuple[int, int, str]:
    """The sort key of volumes: fewer access modes first, then smaller ones, then by name, so that the choice is
    deterministic. A claim thereby never takes a volume that can do more than it asks for while a plainer one is free."""
    return len(set(access_modes)), capacity_nano, name


def is_free(volume: JsonObject) -> bool:
    """Whether no claim has the volume. A volume without a phase is new: its controller has not seen it yet."""
    is_available = volume.get("status", {}).get("phase") in ("Available", "Pending", None)
    return is_available and not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")


def binding_marks(names_volume: bool, provisioner: str = "") -> dict[str, str]:
    """The annotations that a claim gets when it is bound.

    `names_volume` says that the claim named the volume before: then a user chose it, and unbinding keeps the choice.
    """
    marks = {BIND_COMPLETED: "yes"}
    if not names_volume:
        marks[BOUND_BY_CONTROLLER] = "yes"
    if provisioner:
        marks[PROVISIONER] = provisioner
    return marks


# ---- provisioning: a new volume for a claim, as its storage class says


NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
LOCAL = "mooring.dev/local"
"""The class parameter that binds provisioned volumes to one node instead of its zone. Ours: for trying local storage."""


def can_provision(provisioner: str) -> bool:
    """Whether volumes of a class with this provisioner can be provisioned."""
    return provisioner not in ("", NO_PROVISIONER)


def volume_name(claim: JsonObject) -> str:
    """`pvc-<uid>`, as external provisioners name volumes. A claim in a simulation may have no uid."""
    meta = claim["metadata"]
    return f"pvc-{meta.get('uid') or '{namespace}-{name}'.format(**meta)}"


def provisioned(claim: JsonObject, storage_class: JsonObject, node: JsonObject | None) -> JsonObject:
    """The volume for the claim. `node` is where its first consumer will run; None with immediate binding."""
    name, provisioner = volume_name(claim), storage_class["provisioner"]
    spec: JsonObject = {
        "capacity": {"storage": claim["spec"].get("resources", {}).get("requests", {}).get("storage", "1Gi")},
        "accessModes": claim["spec"].get("accessModes", ["ReadWriteOnce"]),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        "claimRef": reference_to(claim),
        "csi": {"driver": provisioner, "volumeHandle": name},
    }
    if claim["spec"].get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = claim["spec"]["volumeAttributesClassName"]
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = storage_class["mountOptions"]
    if terms := _terms(storage_class, node):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}}, "spec": spec}


def reference_to(claim: JsonObject) -> JsonObject:
    meta = claim["metadata"]
    reference = {key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion") if key in meta}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}


def _terms(storage_class: JsonObject, node: JsonObject | None) -> list[JsonObject]:
    """The terms of the volume's node affinity: near the chosen node, or where the class allows; none means everywhere."""
    labels = node["metadata"].get("labels", {}) if node is not None else {}
    if storage_class.get("parameters", {}).get(LOCAL) == "true" and HOSTNAME in labels:
        return [_term({HOSTNAME: [labels[HOSTNAME]]})]
    if near := {key: [labels[key]] for key in TOPOLOGY if key in labels}:
        return [_term(near)]
    return [
        _term({line["key"]: line["values"] for line in allowed.get("matchLabelExpressions", ())})
        for allowed in storage_class.get("allowedTopologies", ())
    ]


def _term(allowed: dict[str, list[str]]) -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]}


# ---- the admission plugin DefaultStorageClass


DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def default_storage_class(classes: Iterable[JsonObject]) -> str:
    """The class for claims that name none: the newest of those marked as default, then the first by name; or empty."""
    ordered = sorted((c["metadata"] for c in classes), key=lambda meta: meta.get("name", ""))
    marked = [meta for meta in ordered if (meta.get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
    newest = max(marked, key=lambda meta: meta.get("creationTimestamp") or "", default=None)
    return newest["name"] if newest else ""


GROUP_CLAIMS_GATE = "DRAWorkloadResourceClaims"
"""The gate with which pod groups have claims of their own."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation that names the entry of spec.resourceClaims that a claim was created for."""
_LONGEST_STEM = 57
"""A name has at most 63 characters, of which the server adds a hyphen and five random ones."""


def volume_claim_for(pod: JsonObject, volume: JsonObject) -> JsonObject:
    """The claim of a generic ephemeral volume, from the template in the pod. The pod owns the claim, which is deleted
    with it. Its name is fixed: the kubelet and the scheduler look for `<pod>-<volume>`."""
    template = volume["ephemeral"].get("volumeClaimTemplate") or {}
    metadata = {
        **_given(template),
        "name": f"{pod['metadata']['name']}-{volume['name']}",
        "ownerReferences": [owner_reference(POD, pod)],
    }
    return {"metadata": metadata, "spec": template.get("spec", {})}


def templates_waited_for(holder: JsonObject) -> dict[str, str]:
    """Entries of a pod or a group that lack a claim, as {name of the entry: name of its template}."""
    entries = holder.get("spec", {}).get("resourceClaims")
    if not entries:
        return {}
    made = {status["name"] for status in holder.get("status", {}).get("resourceClaimStatuses", ())}
    templates = ((entry.get("name", ""), entry.get("resourceClaimTemplateName")) for entry in entries)
    return {name: template for name, template in templates if template and name not in made}


def group_name(pod: JsonObject) -> str:
    """The PodGroup that the pod is in; empty: none."""
    name: str = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""
    return name


def is_claim_of(group: JsonObject | None, pod: JsonObject, entry: str) -> bool:
    """Whether an entry of the pod is one of its group: name and source are the same."""
    wanted = next((_source(each) for each in pod["spec"].get("resourceClaims", ()) if each["name"] == entry), None)
    return group is not None and wanted in [_source(each) for each in group.get("spec", {}).get("resourceClaims", ())]


def _source(entry: JsonObject) -> tuple[str, str | None, str | None]:
    return entry.get("name", ""), entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")


def device_claim_for(holder: JsonObject, entry: str, template: JsonObject, kind: KindSpec = POD) -> JsonObject:
    """The claim for an entry of a pod or a group, from a ResourceClaimTemplate. The server completes its name, and the
    controller records that name in status.resourceClaimStatuses of the holder."""
    given = _given(template["spec"])
    metadata = {
        "generateName": _stem(holder["metadata"]["name"], entry),
        "labels": given.get("labels", {}),
        "annotations": {**given.get("annotations", {}), POD_CLAIM_NAME: entry},
        "ownerReferences": [owner_reference(kind, holder, is_waited_for=False)],
    }
    return {"metadata": metadata, "spec": template["spec"].get("spec", {})}


def _stem(pod: str, entry: str) -> str:
    """The generateName. Long names are both cut in proportion to their lengths, so that both stay recognisable."""
    stem = f"{pod}-{entry}-"
    if len(stem) <= _LONGEST_STEM:
        return stem
    pod_part, entry_part = (name[: len(name) * _LONGEST_STEM // len(stem)] for name in (pod, entry))
    return f"{pod_part}-{entry_part}"


def _given(template: JsonObject) -> JsonObject:
    """The labels and annotations of a template: the only metadata that an object takes from it."""
    held = template.get("metadata") or {}
    return {key: dict(held[key]) for key in ("labels", "annotations") if held.get(key)}


def owning_pod(claim: JsonObject) -> tuple[str, str] | None:
    """Name and uid of the pod that a claim was created for; None if a user created it, so that no controller deletes it."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == "Pod" and owner.get("apiVersion", "v1") == "v1":
            return owner["name"], owner.get("uid", "")
    return None


def is_group_user(user: JsonObject) -> bool:
    """Whether an entry of reservedFor is a PodGroup."""
    return user.get("apiGroup") == POD_GROUP.group and user.get("resource") == POD_GROUP.plural


def with_users(status: JsonObject, users: Sequence[JsonObject]) -> JsonObject:
    """The status of a claim for devices with these users left in reservedFor. Without any, the devices become free."""
    left = {name: value for name, value in status.items() if name != "reservedFor"}
    if users:
        return {**left, "reservedFor": list(users)}
    return {name: value for name, value in left.items() if name not in ("allocation", "devices")}
