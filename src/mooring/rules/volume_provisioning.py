"""Volumes made to measure for a claim, as its storage class says. Pure: objects go in, a manifest comes out."""

from mooring.model.json_objects import JsonObject

NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
LOCAL = "mooring.dev/local"
"""The class parameter that ties volumes to the very node, not only to its zone."""

_HOSTNAME = "kubernetes.io/hostname"
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def can_provision(provisioner: str) -> bool:
    """Whether a class with this provisioner can have volumes made."""
    return provisioner not in ("", NO_PROVISIONER)


def volume_name(claim: JsonObject) -> str:
    """After the uid; a claim of a simulation may have none."""
    meta = claim["metadata"]
    return f"pvc-{meta.get('uid') or '{namespace}-{name}'.format(**meta)}"


def provisioned(claim: JsonObject, storage_class: JsonObject, node: JsonObject | None) -> JsonObject:
    """The volume for the claim. `node` is where its first consumer will run; None: nobody has said."""
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
    """Where the volume can be used: near the chosen node, or wherever the class allows; no terms: everywhere."""
    labels = node["metadata"].get("labels", {}) if node is not None else {}
    if storage_class.get("parameters", {}).get(LOCAL) == "true" and _HOSTNAME in labels:
        return [_term({_HOSTNAME: [labels[_HOSTNAME]]})]
    if near := {key: [labels[key]] for key in _TOPOLOGY if key in labels}:
        return [_term(near)]
    return [
        _term({line["key"]: line["values"] for line in allowed.get("matchLabelExpressions", ())})
        for allowed in storage_class.get("allowedTopologies", ())
    ]


def _term(allowed: dict[str, list[str]]) -> JsonObject:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]}
