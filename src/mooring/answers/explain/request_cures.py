"""Cures by asking for less: the largest request of a resource with which the pod fits, and less for a pod beside it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mooring.answers.explain.cure import (
    DROP_REQUEST,
    GIVE_UP_ALL,
    LOWER_REQUEST,
    OTHERS_SHARE,
    SHRINK_OTHER,
    CureChange,
    Patient,
    Relaxation,
    largest,
)
from mooring.answers.trial.counterfactual import PlacePod, RemovePod, with_spec
from mooring.cluster.cluster import Cluster
from mooring.model.pod import Pod
from mooring.model.pod_spec import ALWAYS, Container, ResourceRequirements
from mooring.model.quantity import parse_or
from mooring.model.requests import to_units
from mooring.rules.workload_pods import is_daemon

_MEBI = 1 << 20
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


def step_of(resource: str, amount: int) -> int:
    """The step in which a request is lowered: 1m of CPU, 1Mi of what is counted in bytes (1 byte below that), else 1."""
    return _MEBI if resource.startswith(_BYTES) and amount >= _MEBI else 1


def written(resource: str, amount: int) -> str:
    """The amount as a manifest has it, exactly."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource.startswith(_BYTES) and amount and amount % _MEBI == 0:
        return f"{amount // _MEBI}Mi"
    return str(amount)


def enough_of(resource: str, amount: int) -> str:
    """An amount that is enough, in whole steps."""
    step = step_of(resource, amount)
    return written(resource, -(-amount // step) * step)


def overhead_of(pod: Pod, name: str) -> int:
    """The part of a request that the runtime class gives the pod: containers cannot ask for less of it."""
    return _units(pod.spec.overhead or {}, name)


def in_steps(pod: Pod, name: str, amount: int, least: int = 0) -> int:
    """The largest request up to an amount for which containers ask in whole steps, and in so many at least."""
    fixed = overhead_of(pod, name)
    step = step_of(name, pod.shape.request.get(name, 0) - fixed)
    return fixed + max((amount - fixed) // step, least) * step


class LowerRequests(Relaxation):
    """Requests of resources."""

    def relax(self, pod: Pod) -> Pod | None:
        """Every request as small as it can be."""
        least = {name: min(amount, in_steps(pod, name, 0, 1)) for name, amount in pod.shape.request.items() if amount}
        return with_requests(pod, least) if least else None

    def options(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """One resource alone, for each that suffices; else all together."""
        wanted = {name: amount for name, amount in pod.shape.request.items() if amount}
        is_found = False
        for name in wanted:
            most = self._most(patient, pod, name)
            if most is not None:
                is_found = True
                yield from _lower(pod, {name: most})
        if not is_found and len(wanted) > 1:
            lowered = self._together(patient, pod, wanted)
            if lowered:
                yield from _lower(pod, lowered)

    def _most(self, patient: Patient, pod: Pod, name: str) -> int | None:
        """The largest request of a resource, in whole steps, with which the pod gets a node; None if none helps."""
        amount = pod.shape.request[name] - overhead_of(pod, name)

        def fits(steps: int) -> bool:
            form = with_requests(pod, {name: in_steps(pod, name, 0, steps)})
            return form is not None and patient.node_for(form) is not None

        steps = _largest(fits, -(-amount // step_of(name, amount)) - 1)
        return None if steps is None else in_steps(pod, name, 0, steps)

    def _together(self, patient: Patient, pod: Pod, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Shrink all requests by the same share as little as possible; then give back to each what can be given back."""

        def scaled(thousandths: int) -> dict[str, int]:
            return {name: in_steps(pod, name, amount * thousandths // 1000, 1) for name, amount in wanted.items()}

        def fits(lowered: Mapping[str, int]) -> bool:
            form = with_requests(pod, lowered)
            return form is not None and patient.node_for(form) is not None

        best = _largest(lambda thousandths: fits(scaled(thousandths)), 999)
        if best is None:
            return None
        lowered = scaled(best)
        for name, amount in wanted.items():
            if fits({**lowered, name: amount}):
                lowered[name] = amount
                continue
            more = _largest(
                lambda steps, name=name: fits({**lowered, name: in_steps(pod, name, 0, steps)}),  # type: ignore[misc]
                (amount - overhead_of(pod, name)) // step_of(name, amount),
            )
            lowered[name] = lowered[name] if more is None else in_steps(pod, name, 0, more)
        return {name: amount for name, amount in lowered.items() if amount != wanted[name]}


def _largest(fits: Callable[[int], bool], highest: int) -> int | None:
    """The largest number from 1 to `highest` that fits, where smaller ones fit as well; None if 1 does not."""
    if highest < 1 or not fits(1):
        return None
    return largest(fits, 1, highest + 1)


def _lower(pod: Pod, lowered: Mapping[str, int]) -> Iterator[CureChange]:
    """The change after which the pod requests these amounts in all; none if its containers do not allow it."""
    form, wanted = with_requests(pod, lowered), pod.shape.request
    parts = lowered_parts(pod, form) if form is not None else []
    if parts:
        share = max((wanted[name] - amount) / wanted[name] for name, amount in lowered.items())
        text = f"lower {' and '.join(part.text() for part in parts)}"
        yield CureChange(
            "lower-request", text, LOWER_REQUEST + GIVE_UP_ALL * share, lambda pod: _with_parts(pod, parts)
        )


# ---- requests on one node


def lower_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The requests lowered to what a node has left, if it has some of each resource."""
    pod, short = patient.pod, {name: wants - lack for name, (wants, lack) in _short(patient, row).items()}
    lowered = {name: in_steps(pod, name, free) for name, free in short.items() if free > overhead_of(pod, name)}
    if lowered and len(lowered) == len(short):
        yield from _lower(patient.pod, lowered)


def drop_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The requests dropped of resources that no node of the cluster has at all, such as one with a misspelt name."""
    amounts = patient.trials.cluster.nodes.amounts
    for name in _short(patient, row):
        is_somewhere = amounts.allocatable[amounts.resource(name)].any()
        if not is_somewhere and (is_extended(name) or name.startswith("hugepages-")):
            yield from _dropped(patient.pod, name)


def _dropped(pod: Pod, name: str) -> Iterator[CureChange]:
    """The pod without its requests and limits of a resource; none if it has them as a whole or by its runtime class."""
    listed = [("container", pod.spec.containers), ("init container", pod.spec.init_containers or ())]
    asking = [f"{kind} {each.name}" for kind, containers in listed for each in containers if _asked(each, name)]
    form = _without_resource(pod, name)
    if asking and not form.shape.request.get(name, 0):
        is_limited = any(
            name in ((each.resources and each.resources.limits) or {}) for _, own in listed for each in own
        )
        text = f"drop the {name} request{' and limit' * is_limited} of {' and '.join(asking)}"
        yield CureChange("drop-request", text, DROP_REQUEST, lambda pod: _without_resource(pod, name))


def _without_resource(pod: Pod, name: str) -> Pod:
    def without(container: Container) -> Container:
        level = container.resources or ResourceRequirements()
        requests, limits = (
            {k: v for k, v in (own or {}).items() if k != name} for own in (level.requests, level.limits)
        )
        changed = msgspec.structs.replace(level, requests=requests or None, limits=limits or None)
        return msgspec.structs.replace(container, resources=changed)

    init = pod.spec.init_containers
    listed = [without(each) for each in pod.spec.containers]
    return with_spec(pod, containers=listed, init_containers=None if init is None else [without(each) for each in init])


def shrink_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """A pod of the node that requests less, so that the rest is enough: the one that gives up the smallest share."""
    found = []
    lack = {name: missing for name, (_, missing) in _short(patient, row).items()}
    for pod in patient.trials.cluster.nodes.pods_on[row] if lack else ():
        share, change = _shrunk(pod, lack)
        if change is not None:
            found.append((share, pod.key, change))
    yield from (change for _, _, change in sorted(found, key=lambda each: each[:2])[:1])


def _shrunk(pod: Pod, lack: Mapping[str, int]) -> tuple[float, CureChange | None]:
    """The change in which a pod gives up as much as is lacking, and the share of its request that this is."""
    asked = pod.shape.request
    left = {name: asked.get(name, 0) - missing for name, missing in lack.items()}
    if is_daemon(pod) or pod.is_terminating or any(left[name] <= overhead_of(pod, name) for name in left):
        return 0, None
    amounts = {name: in_steps(pod, name, amount) for name, amount in left.items()}
    form = with_requests(pod, amounts)
    if form is None:
        return 0, None
    share = max((asked[name] - amount) / asked[name] for name, amount in amounts.items())
    text = f"lower {' and '.join(part.text(pod.key) for part in lowered_parts(pod, form))}"
    edits = (RemovePod(pod), PlacePod(form))
    return share, CureChange("shrink-pod", text, SHRINK_OTHER + OTHERS_SHARE * share, edits=edits)


def _short(patient: Patient, row: int) -> dict[str, tuple[int, int]]:
    """By resource that is short on a node: how much the pod wants, and how much of that is lacking."""
    amounts = patient.trials.cluster.nodes.amounts
    wanted = {
        name: (wants, wants - amounts.free_on(name, [row])[0]) for name, wants in patient.pod.shape.request.items()
    }
    return {name: (wants, lack) for name, (wants, lack) in wanted.items() if wants and lack > 0}


def shortages(cluster: Cluster, pod: Pod, rows: Sequence[int]) -> list[float]:
    """For each of some nodes how much of what the pod wants is lacking, in shares."""
    total = [0.0] * len(rows)
    for name, wants in pod.shape.request.items():
        for i, free in enumerate(cluster.nodes.amounts.free_on(name, rows) if wants else ()):
            total[i] += max(wants - free, 0) / wants
    return total


# ---- pods with other requests


class LoweredRequest(NamedTuple):
    """One request that is lowered, as a person finds it in the manifest."""

    container: str
    """The name of the container, or of the init container; empty for the request of the pod as a whole."""
    is_init: bool
    resource: str
    before: str
    """The request as the manifest has it."""
    after: int
    has_limit: bool
    """Whether a limit has to follow: that of an extended resource equals the request."""

    def text(self, pod: str = "") -> str:
        """The end of a sentence that begins with "lower"; `pod` is the key of the pod, if it is another one."""
        kind = "init container" if self.is_init else "container"
        whose = f"{kind} {self.container}" if self.container else "the pod as a whole"
        after = written(self.resource, self.after)
        whose = f"{whose} of {pod}" if pod else whose
        return f"the {self.resource} request{' and limit' * self.has_limit} of {whose} from {self.before} to {after}"


def lowered_parts(pod: Pod, form: Pod) -> list[LoweredRequest]:
    """The requests that a form of the pod has lowered: of the pod as a whole, of containers, of init containers."""
    level, changed = pod.spec.resources or ResourceRequirements(), form.spec.resources or ResourceRequirements()
    found = [LoweredRequest("", False, *each) for each in _lowered_in(level, changed)]
    for is_init, before, after in (
        (False, pod.spec.containers, form.spec.containers),
        (True, pod.spec.init_containers or (), form.spec.init_containers or ()),
    ):
        for old, new in zip(before, after, strict=True):
            pair = old.resources or ResourceRequirements(), new.resources or ResourceRequirements()
            found += [LoweredRequest(old.name, is_init, *each) for each in _lowered_in(*pair)]
    return found


def _lowered_in(before: ResourceRequirements, after: ResourceRequirements) -> Iterator[tuple[str, str, int, bool]]:
    for name, text in (after.requests or {}).items():
        if (before.requests or {}).get(name) != text:
            has_limit = (before.limits or {}).get(name) != (after.limits or {}).get(name)
            yield name, str((before.requests or {})[name]), _amount(after, name), has_limit


def _with_parts(pod: Pod, parts: Sequence[LoweredRequest]) -> Pod:
    """The pod with these requests lowered, and nothing else changed."""
    level, containers, init = pod.spec.resources, list(pod.spec.containers), list(pod.spec.init_containers or ())
    for part in parts:
        if not part.container:
            level = _lowered(level or ResourceRequirements(), part.resource, part.after)
            continue
        listed = init if part.is_init else containers
        for i, each in enumerate(listed):
            if each.name == part.container:
                listed[i] = _container(each, part.resource, part.after)
    return with_spec(pod, resources=level, containers=containers, init_containers=init or None)


def with_requests(pod: Pod, amounts: Mapping[str, int]) -> Pod | None:
    """The pod with these amounts requested in all; None if its containers cannot be changed so that just this comes out."""
    form = pod
    for name, amount in amounts.items():
        form = _with_request(form, name, amount)
    asked = form.shape.request
    return form if all(asked.get(name, 0) == amount for name, amount in amounts.items()) else None


def _with_request(pod: Pod, name: str, amount: int) -> Pod:
    """Take what is too much from the containers, and from sidecars if that is more than all containers have; other init
    containers get at most what sidecars that start before them leave of the amount. Overhead stays as it is."""
    level = pod.spec.resources
    room = amount - overhead_of(pod, name)
    if level is not None and name in (level.requests or {}):
        return with_spec(pod, resources=_lowered(level, name, max(room, 0)))
    containers, init = list(pod.spec.containers), list(pod.spec.init_containers or ())
    sidecars = [i for i, each in enumerate(init) if each.restart_policy == ALWAYS]
    asked = {(0, i): amount for i, each in enumerate(containers) if (amount := _asked(each, name))}
    beside_them = {(1, i): amount for i in sidecars if (amount := _asked(init[i], name))}
    surplus = sum((*asked.values(), *beside_them.values())) - room
    if surplus >= sum(asked.values()):
        asked |= beside_them
    for (place, i), amount in _without_surplus(asked, surplus, step_of(name, sum(asked.values()))).items():
        listed = (containers, init)[place]
        listed[i] = _container(listed[i], name, amount)
    beside = 0
    for i, each in enumerate(init):
        if i in sidecars:
            beside += _asked(each, name)
        elif _asked(each, name) > max(room - beside, 0):
            init[i] = _container(each, name, max(room - beside, 0))
    return with_spec(pod, containers=containers, init_containers=init if pod.spec.init_containers is not None else None)


_PlaceInPod = tuple[int, int]
"""0 for containers and 1 for init containers, and the place in that list."""


def _without_surplus(asked: Mapping[_PlaceInPod, int], surplus: int, step: int) -> dict[_PlaceInPod, int]:
    """The amounts that are left of those that give up a surplus: the largest alone, if half of it is enough; otherwise each
    in proportion, in whole steps."""
    total = sum(asked.values())
    if surplus <= 0 or not total:
        return {}
    most = max(asked, key=lambda place: asked[place])
    if surplus >= total:
        return dict.fromkeys(asked, 0)
    if 2 * surplus <= asked[most] or len(asked) == 1:
        return {most: asked[most] - surplus}
    left = {place: amount * (total - surplus) // total // step * step for place, amount in asked.items()}
    left[most] += total - surplus - sum(left.values())
    return {place: amount for place, amount in left.items() if amount != asked[place]}


def _asked(container: Container, name: str) -> int:
    return _amount(container.resources or ResourceRequirements(), name)


def _amount(level: ResourceRequirements, name: str) -> int:
    return _units(level.requests or {}, name)


def _units(listed: Mapping[str, object], name: str) -> int:
    return to_units({name: parse_or(listed[name], 0)})[name] if name in listed else 0  # type: ignore[arg-type]


def _container(container: Container, name: str, amount: int) -> Container:
    level = container.resources or ResourceRequirements()
    return msgspec.structs.replace(container, resources=_lowered(level, name, amount))


def _lowered(level: ResourceRequirements, name: str, amount: int) -> ResourceRequirements:
    """With another request; the limit of an extended resource must equal it."""
    text = written(name, amount)
    limits = level.limits
    if limits and name in limits and (is_extended(name) or name.startswith("hugepages-")):
        limits = {**limits, name: text}
    requests = {**(level.requests or {}), name: text}
    return msgspec.structs.replace(level, requests=requests, limits=limits)


def is_extended(name: str) -> bool:
    return "/" in name
