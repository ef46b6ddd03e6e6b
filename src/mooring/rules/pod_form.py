"""Rules of pods that no decision depends on: images, probes, environment, mounts, ports and security.

`api.validation.pod_rules` has the rules that affect where a pod goes, for everything that reads manifests. The rules here are
for what clients write to the API server: a manifest that a real one rejects must not pass on this one. They read JSON,
because the typed pod has few of these fields.
"""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from mooring.api.api_errors import (
    Cause,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_not_found,
    field_required,
    field_unsupported,
)
from mooring.api.json_objects import JsonObject
from mooring.model.meta import MAX_INT32
from mooring.model.names import (
    NameForm,
    dns_label_faults,
    is_extended_resource,
    port_name_faults,
    qualified_name_faults,
    subdomain_faults,
)

Causes = Iterator[Cause]

_SPEC_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_CONTAINER_CHOICES = {
    "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
}
_RESIZE_CHOICES = ("NotRequired", "RestartContainer")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NAMED_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName")
_OWN_FIELDS = {*_NAMED_FIELDS, "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
"""The fields of its pod that a container can have as a variable, beside single labels and annotations."""
_VOLUMES = (
    *("emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi"),
    *("glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc"),
    *("flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk"),
    *("storageos", "projected", "scaleIO", "csi", "ephemeral", "image"),
)
"""The sources of volumes, in the order in which kube-apiserver reads them."""
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SIDECARS_ONLY = "may not be set for init containers without restartPolicy=Always"


def pod_form_faults(path: str, spec: JsonObject) -> Causes:
    """The faults of the spec of a pod, or of the template of one, at `path`, after defaults were set."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(group) or ()):
            yield from _container(f"{path}.{group}[{i}]", container, spec)
    for i, container in enumerate(spec.get("initContainers") or ()):
        if container.get("restartPolicy") != "Always":
            unfit = [field for field in ("lifecycle", *_PROBES) if container.get(field) is not None]
            yield from (field_forbidden(f"{path}.initContainers[{i}].{field}", _SIDECARS_ONLY) for field in unfit)
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(f"{path}.volumes[{i}]", volume)
    yield from _choices(path, spec, _SPEC_CHOICES)
    yield from _whole_pod(path, spec)


def _choices(path: str, item: JsonObject, known: dict[str, tuple[str, ...]]) -> Causes:
    for field, choices in known.items():
        if item.get(field) and item[field] not in choices:
            yield field_unsupported(f"{path}.{field}", item[field], choices)


def _whole_pod(path: str, spec: JsonObject) -> Causes:
    deadline, os = spec.get("activeDeadlineSeconds"), (spec.get("os") or {}).get("name")
    if deadline is not None:
        yield from _between(f"{path}.activeDeadlineSeconds", deadline, 1)
    for field in ("hostname", "subdomain"):
        yield from _named(f"{path}.{field}", spec.get(field), dns_label_faults)
    yield from _named(f"{path}.serviceAccountName", spec.get("serviceAccountName"), subdomain_faults)
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        yield from _named(f"{path}.readinessGates[{i}].conditionType", gate.get("conditionType"), qualified_name_faults)
    if os is not None and os not in ("linux", "windows"):
        yield field_unsupported(f"{path}.os", os, ("linux", "windows"))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield field_invalid(f"{path}.shareProcessNamespace", True, why)
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        if not is_address(alias.get("ip")):
            yield field_invalid(f"{path}.hostAliases[{i}].ip", alias.get("ip") or "", NO_ADDRESS)
    if spec.get("dnsPolicy") == "None":
        yield from _own_dns(f"{path}.dnsConfig", spec.get("dnsConfig"))
    yield from _ids(
        f"{path}.securityContext", spec.get("securityContext") or {}, ("runAsUser", "runAsGroup", "fsGroup")
    )


def _own_dns(path: str, config: JsonObject | None) -> Causes:
    if config is None:
        yield field_required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif not config.get("nameservers"):
        yield field_required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")


def is_address(text: str | None) -> bool:
    try:
        ip_address(text or "")
    except ValueError:
        return False
    return True


# ---- containers


def _container(path: str, container: JsonObject, spec: JsonObject) -> Causes:
    image = container.get("image") or ""
    if not image:
        yield field_required(f"{path}.image")
    elif image != image.strip():
        yield field_invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    yield from _choices(path, container, _CONTAINER_CHOICES)
    yield from _ports(f"{path}.ports", container.get("ports") or ())
    for i, variable in enumerate(container.get("env") or ()):
        yield from _variable(f"{path}.env[{i}]", variable)
    yield from _mounts(f"{path}.volumeMounts", container, spec)
    for field in _PROBES:
        if container.get(field) is not None:
            yield from _probe(f"{path}.{field}", container[field], is_readiness=field == "readinessProbe")
    for moment in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(moment)
        if hook is not None:
            yield from _handler(f"{path}.lifecycle.{moment}", hook)
    yield from _amounts(f"{path}.resources", container.get("resources") or {}, spec)
    for policy in container.get("resizePolicy") or ():
        if policy.get("restartPolicy") not in _RESIZE_CHOICES:
            yield field_unsupported(f"{path}.resizePolicy", policy.get("restartPolicy") or "", _RESIZE_CHOICES)
    yield from _ids(f"{path}.securityContext", container.get("securityContext") or {}, ("runAsUser", "runAsGroup"))


def _ports(path: str, ports: Sequence[JsonObject]) -> Causes:
    seen = set[str]()
    for i, port in enumerate(ports):
        name = port.get("name") or ""
        faults = port_name_faults(name) if name else []
        yield from (field_invalid(f"{path}[{i}].name", name, why) for why in faults)
        if name and not faults and name in seen:
            yield field_duplicate(f"{path}[{i}].name", name)
        seen.add(name)


def _variable(path: str, variable: JsonObject) -> Causes:
    if not variable.get("name"):
        yield field_required(f"{path}.name")
    origin = variable.get("valueFrom")
    if origin is None:
        return
    field = (origin.get("fieldRef") or {}).get("fieldPath")
    if origin.get("fieldRef") is not None and not _is_own_field(field or ""):
        place = f"{path}.valueFrom.fieldRef.fieldPath"
        why = f"error converting fieldPath: field label not supported: {field}"
        yield field_invalid(place, field, why) if field else field_required(place)
    for reference in ("configMapKeyRef", "secretKeyRef"):
        held = origin.get(reference)
        if held is not None and not held.get("key"):
            yield field_required(f"{path}.valueFrom.{reference}.key")
    found = [source for source in _SOURCES if origin.get(source) is not None]
    if not found:
        known = f"{', '.join(f'`{source}`' for source in _SOURCES[:-1])} or `{_SOURCES[-1]}`"
        yield field_invalid(f"{path}.valueFrom", "", f"must specify one of: {known}")
    elif variable.get("value"):
        yield field_invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    elif len(found) > 1:
        yield field_invalid(f"{path}.valueFrom", "", "may not have more than one field specified at a time")


def _is_own_field(field: str) -> bool:
    part, bracket, key = field.partition("['")
    return field in _OWN_FIELDS or bool(
        bracket and key.endswith("']") and part in ("metadata.labels", "metadata.annotations")
    )


def _mounts(path: str, container: JsonObject, spec: JsonObject) -> Causes:
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    seen = set[str]()
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        name, place = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield field_required(f"{path}[{i}].name")
        if name not in volumes:
            yield field_not_found(f"{path}[{i}].name", name)
        if not place:
            yield field_required(f"{path}[{i}].mountPath")
        if place in seen:
            yield field_invalid(f"{path}[{i}].mountPath", place, "must be unique")
        seen.add(place)


def _probe(path: str, probe: JsonObject, is_readiness: bool) -> Causes:
    yield from _handler(path, probe)
    yield from not_negative(path, probe, _PROBE_NUMBERS)
    successes = probe.get("successThreshold", 1)
    if not is_readiness and successes not in (0, 1):
        yield field_invalid(f"{path}.successThreshold", successes, "must be 1")


def _handler(path: str, handler: JsonObject) -> Causes:
    found = [kind for kind in _HANDLERS if handler.get(kind) is not None]
    if not found:
        yield field_required(path, "must specify a handler type")
    yield from (field_forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in found[1:])


def _amounts(path: str, resources: JsonObject, spec: JsonObject) -> Causes:
    """Whole devices and huge pages are not overcommitted, and a container that uses huge pages needs other memory too."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name in requests.keys() - limits.keys():
        if is_extended_resource(name) or name.startswith("hugepages-"):
            yield field_required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    asked = requests.keys() | limits.keys()
    if any(name.startswith("hugepages-") for name in asked) and not asked & {"cpu", "memory"}:
        yield field_forbidden(path, "HugePages require cpu or memory")
    known = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    for i, claim in enumerate(resources.get("claims") or ()):
        if not claim.get("name"):
            yield field_required(f"{path}.claims[{i}]")
        elif claim["name"] not in known:
            which = f": {', '.join(sorted(map(str, known)))}" if known else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{which}"
            yield field_not_found(f"{path}.claims[{i}]", claim["name"], why)


def _volume(path: str, volume: JsonObject) -> Causes:
    found = [source for source in _VOLUMES if volume.get(source) is not None]
    yield from (field_forbidden(f"{path}.{source}", "may not specify more than 1 volume type") for source in found[1:])
    for source, field in (("hostPath", "path"), ("secret", "secretName"), ("configMap", "name")):
        if found[:1] == [source] and not volume[source].get(field):
            yield field_required(f"{path}.{source}.{field}")


# ---- rules of single fields


def not_negative(path: str, item: JsonObject, fields: Sequence[str]) -> Causes:
    for field in fields:
        value = item.get(field)
        if isinstance(value, int) and value < 0:
            yield field_invalid(f"{path}.{field}", value, "must be greater than or equal to 0")


def _between(path: str, value: int, least: int) -> Causes:
    if not least <= value <= MAX_INT32:
        yield field_invalid(path, value, f"must be between {least} and {MAX_INT32}, inclusive")


def _ids(path: str, context: JsonObject, fields: Sequence[str]) -> Causes:
    for field in fields:
        if context.get(field) is not None:
            yield from _between(f"{path}.{field}", context[field], 0)


def _named(path: str, text: str | None, rule: NameForm) -> Causes:
    yield from (field_invalid(path, text, why) for why in (rule(text) if text else ()))
