"""Validation of pods: what the API server rejects, as far as it affects where a pod goes."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from mooring.api import api_errors as errors
from mooring.api.validation import field_rules as rules
from mooring.api.validation.claim_rules import check_claim_spec
from mooring.api.validation.field_rules import amount, one_of, unique
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems, at_key, show
from mooring.model import pod_spec
from mooring.model.meta import MAX_INT32
from mooring.model.pod import Pod, shared_spec_of
from mooring.model.quantity import NANO
from mooring.model.requests import Accounting, are_readable, effective_requests
from mooring.model.shape import ANY_IP

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
DO_NOT_SCHEDULE = "DoNotSchedule"
HIGHEST_PRIORITY = 2_000_001_000
"""The value of system-node-critical."""
# Words of the server for numbers out of range.
_PORT, _WEIGHT, _POSITIVE = (
    "must be between 1 and 65535, inclusive",
    "must be in the range 1-100",
    "must be greater than zero",
)


_KEPT_SOUND = 4096
"""How many sound specs are remembered. Pods of a DaemonSet have specs of their own."""
_encode = msgspec.json.Encoder().encode
_sound: set[bytes] = set()
"""Digests of specs without a problem, encoded without the name of the node: a spec may be a megabyte."""


def check_pod(pod: Pod) -> Problems:
    """Yield the problems of a pod.

    Hot: the pods of one template have equal specs but for the node, so each spec is checked once. For a dump of 200,000
    pods of 200 templates, checks were 11 of 28 s of reading under a profiler.
    """
    shared = shared_spec_of(pod)
    if shared is not None and shared.is_sound:
        return
    key = _template_key(pod.spec)
    problems = [] if key in _sound else [*check_pod_spec("spec", pod.spec), *_pod_resources(pod)]
    if key is not None and not problems:
        if len(_sound) >= _KEPT_SOUND:
            _sound.clear()
        _sound.add(key)
        if shared is not None:
            shared.is_sound = True
    yield from problems


def _template_key(spec: pod_spec.PodSpec) -> bytes | None:
    """A key that specs share if they differ in the node alone. None where the node counts, and for a spec that JSON cannot
    hold: integers beyond 64 bits, texts that are not Unicode."""
    if spec.scheduling_gates:
        return None
    try:
        return blake2b(_encode(msgspec.structs.replace(spec, node_name="")), digest_size=16).digest()
    except (OverflowError, ValueError):
        return None


def check_pod_spec(path: str, spec: pod_spec.PodSpec) -> Problems:
    """The spec of a pod, also of one that a template describes; `path` is where it is."""
    yield from _containers(path, spec)
    yield from _placement(path, spec)
    yield from _gates(path, spec)
    yield from one_of(f"{path}.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)
    yield from rules.in_range(f"{path}.priority", spec.priority, -MAX_INT32 - 1, HIGHEST_PRIORITY)
    yield from rules.quantities(f"{path}.overhead", spec.overhead)
    yield from _volumes(f"{path}.volumes", spec.volumes or ())
    yield from resource_claims(f"{path}.resourceClaims", spec.resource_claims or ())


def _placement(path: str, spec: pod_spec.PodSpec) -> Problems:
    yield from rules.labels(f"{path}.nodeSelector", spec.node_selector)
    yield from rules.pod_tolerations(f"{path}.tolerations", spec.tolerations)
    if spec.affinity is not None:
        yield from _affinity(f"{path}.affinity", spec.affinity)
    yield from _spread(f"{path}.topologySpreadConstraints", spec.topology_spread_constraints or ())


def _containers(path: str, spec: pod_spec.PodSpec) -> Problems:
    """Names are unique over containers and init containers together."""
    yield from rules.required(f"{path}.containers", spec.containers, "one container or more")
    placed = [(f"{path}.containers[{i}]", container) for i, container in enumerate(spec.containers)]
    placed += [(f"{path}.initContainers[{i}]", container) for i, container in enumerate(spec.init_containers or ())]
    for place, container in placed:
        yield from _container(place, container, spec.host_network)
    names = ((f"{place}.name", container.name) for place, container in placed if container.name)
    yield from unique(names, "container name")
    yield from _host_ports(path, spec)


def _container(path: str, container: pod_spec.Container, host_network: bool) -> Problems:
    yield from rules.short_name(f"{path}.name", container.name)
    yield from rules.resources(f"{path}.resources", container.resources)
    yield from one_of(f"{path}.restartPolicy", container.restart_policy, ("Always", "OnFailure", "Never"))
    for i, rule in enumerate(container.restart_policy_rules or ()):
        place = f"{path}.restartPolicyRules[{i}].action"
        yield from one_of(place, rule.action, ("Restart", "RestartAllContainers"))
    for i, port in enumerate(container.ports or ()):
        yield from _port(f"{path}.ports[{i}]", port, host_network)


def _port(path: str, port: pod_spec.ContainerPort, host_network: bool) -> Problems:
    yield from rules.in_range(f"{path}.containerPort", port.container_port, 1, 65535, _PORT)
    yield from rules.in_range(f"{path}.hostPort", port.host_port, 0, 65535, _PORT)
    yield from one_of(f"{path}.protocol", port.protocol, ("SCTP", "TCP", "UDP"))
    if host_network and port.host_port not in (0, port.container_port):
        allowed = f"{port.container_port}, the container port, because hostNetwork is set"
        told = "must match `containerPort` when `hostNetwork` is true"
        yield Problem(f"{path}.hostPort", show(port.host_port), allowed, told=told)


def _host_ports(path: str, spec: pod_spec.PodSpec) -> Problems:
    """A pod cannot use a port of its node twice."""
    places = []
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports or ()):
            if port.host_port > 0:
                taken = (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
                places.append((f"{path}.containers[{i}].ports[{j}].hostPort", taken))
    yield from unique(places, "host port", _port_twice)


def _port_twice(path: str, taken: tuple[str, str, int]) -> errors.Cause:
    address, protocol, port = taken
    return errors.field_duplicate(path, f"{protocol}/{'' if address == ANY_IP else address}/{port}")


def _pod_resources(pod: Pod) -> Problems:
    """`spec.resources`: only some resources are allowed, and requests must cover the sum over the containers."""
    whole = pod.spec.resources
    if whole is None:
        return
    yield from rules.resources("spec.resources", whole)
    for part, group in (("requests", whole.requests), ("limits", whole.limits)):
        for name in group or ():
            if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
                yield Problem(at_key(f"spec.resources.{part}", name), show(name), "cpu, memory or hugepages-<size>")
    bare = pod_spec.PodSpec(containers=pod.spec.containers, init_containers=pod.spec.init_containers)
    if not are_readable(bare):
        return  # The rules for containers report the quantity that is not readable.
    inside = effective_requests(Pod(spec=bare), Accounting(pod_level=False))
    for name, text in (whole.requests or {}).items():
        asked, needed = amount(text), inside.get(name, 0)
        if asked is not None and asked < needed:
            allowed = f"at least what the containers ask for together: {needed / NANO:g}"
            yield Problem(at_key("spec.resources.requests", name), show(text), allowed)


def _affinity(path: str, affinity: pod_spec.Affinity) -> Problems:
    if affinity.node_affinity is not None:
        yield from _node_affinity(f"{path}.nodeAffinity", affinity.node_affinity)
    if affinity.pod_affinity is not None:
        yield from _pod_affinity(f"{path}.podAffinity", affinity.pod_affinity)
    if affinity.pod_anti_affinity is not None:
        yield from _pod_affinity(f"{path}.podAntiAffinity", affinity.pod_anti_affinity)


def _node_affinity(path: str, affinity: pod_spec.NodeAffinitySpec) -> Problems:
    if affinity.required is not None:
        yield from rules.node_selector(f"{path}.{pod_spec.REQUIRED_TERMS}", affinity.required)
    for i, term in enumerate(affinity.preferred or ()):
        place = f"{path}.{pod_spec.PREFERRED_TERMS}[{i}]"
        yield from rules.in_range(f"{place}.weight", term.weight, 1, 100, _WEIGHT)
        yield from rules.node_term(f"{place}.preference", term.preference)


def _pod_affinity(path: str, affinity: pod_spec.PodAffinity) -> Problems:
    for i, term in enumerate(affinity.required or ()):
        yield from _pod_term(f"{path}.{pod_spec.REQUIRED_TERMS}[{i}]", term)
    for i, weighted in enumerate(affinity.preferred or ()):
        place = f"{path}.{pod_spec.PREFERRED_TERMS}[{i}]"
        yield from rules.in_range(f"{place}.weight", weighted.weight, 1, 100, _WEIGHT)
        yield from _pod_term(f"{place}.podAffinityTerm", weighted.pod_affinity_term)


def _pod_term(path: str, term: pod_spec.PodAffinityTerm) -> Problems:
    """matchLabelKeys and mismatchLabelKeys need a selector that they are merged into, and must not share a key."""
    yield from rules.label_key(f"{path}.topologyKey", term.topology_key)
    yield from rules.label_selector(f"{path}.labelSelector", term.label_selector)
    yield from rules.label_selector(f"{path}.namespaceSelector", term.namespace_selector)
    for i, name in enumerate(term.namespaces or ()):
        yield from rules.short_name(f"{path}.namespaces[{i}]", name)
    keys = {"matchLabelKeys": term.match_label_keys, "mismatchLabelKeys": term.mismatch_label_keys}
    for written, group in keys.items():
        yield from _label_keys(f"{path}.{written}", group or (), term.label_selector is not None)
    shared = set(term.match_label_keys or ()) & set(term.mismatch_label_keys or ())
    for key in sorted(shared):
        yield Problem(f"{path}.mismatchLabelKeys", show(key), "a key that is not in matchLabelKeys as well")


def _label_keys(path: str, keys: Iterable[str], has_selector: bool) -> Problems:
    """Parity: of matchLabelKeys without a selector, the server reports the list."""
    for i, key in enumerate(keys):
        yield from rules.label_key(f"{path}[{i}]", key)
        if not has_selector:
            is_first = not i and path.endswith(".matchLabelKeys")
            told = errors.field_forbidden(path, "must not be specified when labelSelector is not set")
            nothing = "nothing, because labelSelector is not set"
            yield Problem(f"{path}[{i}]", show(key), nothing, told=told if is_first else "")


def _spread(path: str, constraints: Iterable[pod_spec.TopologySpreadConstraint]) -> Problems:
    places = []
    for i, constraint in enumerate(constraints):
        yield from _constraint(f"{path}[{i}]", constraint)
        places.append((f"{path}[{i}]", (constraint.topology_key, constraint.when_unsatisfiable)))
    yield from unique(places, "topologyKey with one whenUnsatisfiable")


def _constraint(path: str, constraint: pod_spec.TopologySpreadConstraint) -> Problems:
    """minDomains is for DoNotSchedule only: with ScheduleAnyway it would have no meaning."""
    yield from rules.in_range(f"{path}.maxSkew", constraint.max_skew, 1, told=_POSITIVE)
    yield from rules.label_key(f"{path}.topologyKey", constraint.topology_key)
    actions = (DO_NOT_SCHEDULE, "ScheduleAnyway")
    yield from rules.required(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, ", ".join(actions))
    yield from one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, actions)
    yield from rules.in_range(f"{path}.minDomains", constraint.min_domains, 1, told=_POSITIVE)
    if constraint.min_domains is not None and constraint.when_unsatisfiable != DO_NOT_SCHEDULE:
        allowed = "nothing unless whenUnsatisfiable is DoNotSchedule"
        told = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
        yield Problem(f"{path}.minDomains", show(constraint.min_domains), allowed, told=told)
    yield from one_of(f"{path}.nodeAffinityPolicy", constraint.node_affinity_policy, ("Honor", "Ignore"))
    yield from one_of(f"{path}.nodeTaintsPolicy", constraint.node_taints_policy, ("Honor", "Ignore"))
    yield from rules.label_selector(f"{path}.labelSelector", constraint.label_selector)
    has_selector = constraint.label_selector is not None
    yield from _label_keys(f"{path}.matchLabelKeys", constraint.match_label_keys or (), has_selector)


def _gates(path: str, spec: pod_spec.PodSpec) -> Problems:
    """A pod with gates cannot be on a node already."""
    gates = spec.scheduling_gates or []
    for i, gate in enumerate(gates):
        yield from rules.label_key(f"{path}.schedulingGates[{i}].name", gate.name)
    places = ((f"{path}.schedulingGates[{i}].name", gate.name) for i, gate in enumerate(gates))
    yield from unique(places, "gate", lambda place, name: errors.field_duplicate(place.removesuffix(".name"), name))
    if gates and spec.node_name:
        told = errors.field_forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
        allowed = "nothing, because the pod has scheduling gates"
        yield Problem(f"{path}.nodeName", show(spec.node_name), allowed, told=told)


def _volumes(path: str, volumes: Iterable[pod_spec.Volume]) -> Problems:
    """Yield the problems of the volumes of a pod: names must be unique, a claim must be named, and the template of an
    ephemeral claim must be valid."""
    places = []
    for i, volume in enumerate(volumes):
        yield from rules.short_name(f"{path}[{i}].name", volume.name)
        places.append((f"{path}[{i}].name", volume.name))
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            yield from rules.required(f"{path}[{i}].persistentVolumeClaim.claimName", name, "the name of a claim")
        if volume.ephemeral is not None:
            claim = (volume.ephemeral.volume_claim_template or pod_spec.ClaimTemplate()).spec
            yield from check_claim_spec(f"{path}[{i}].ephemeral.volumeClaimTemplate.spec", claim)
    yield from unique(places, "volume name")


def resource_claims(path: str, claims: Sequence[pod_spec.PodResourceClaim]) -> Problems:
    """The claims of a pod or a group. An entry names a claim or a template, not both."""
    for i, claim in enumerate(claims):
        yield from rules.short_name(f"{path}[{i}].name", claim.name)
        sources = [name for name in (claim.resource_claim_name, claim.resource_claim_template_name) if name]
        if len(sources) != 1:
            found = "both" if sources else NOTHING_THERE
            yield Problem(
                f"{path}[{i}]", found, "exactly one of resourceClaimName and resourceClaimTemplateName must be set"
            )
    yield from unique(((f"{path}[{i}].name", claim.name) for i, claim in enumerate(claims)), "claim name")
