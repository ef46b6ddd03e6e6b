"""Cures by asking for less: the largest request of a resource with which the pod fits."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from mooring.answers.explain.cure import GIVE_UP_ALL, LOWER_REQUEST, Patient, PodChange, Relaxation, largest
from mooring.answers.trial.counterfactual import with_spec
from mooring.model.pod import Pod
from mooring.model.pod_spec import ALWAYS, Container, ResourceRequirements
from mooring.model.quantity import parse_or, show_amount
from mooring.model.requests import to_units

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


class LowerRequests(Relaxation):
    """Requests of resources."""

    def relax(self, pod: Pod) -> Pod | None:
        """Every request as small as it can be."""
        least = {name: min(amount, step_of(name, amount)) for name, amount in pod.shape.request.items() if amount}
        return with_requests(pod, least) if least else None

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """One resource alone, for each that suffices; else all together."""
        wanted = {name: amount for name, amount in pod.shape.request.items() if amount}
        is_found = False
        for name in wanted:
            most = self._most(patient, pod, name)
            if most is not None:
                is_found = True
                yield _change(wanted, {name: most})
        if not is_found and len(wanted) > 1:
            lowered = self._together(patient, pod, wanted)
            if lowered:
                yield _change(wanted, lowered)

    def _most(self, patient: Patient, pod: Pod, name: str) -> int | None:
        """The largest request of a resource, in whole steps, with which the pod gets a node; None if none helps."""
        amount = pod.shape.request[name]
        step = step_of(name, amount)

        def fits(steps: int) -> bool:
            form = with_requests(pod, {name: steps * step})
            return form is not None and patient.node_for(form) is not None

        steps = _largest(fits, -(-amount // step) - 1)
        return None if steps is None else steps * step

    def _together(self, patient: Patient, pod: Pod, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Shrink all requests by the same share as little as possible; then give back to each what can be given back."""

        def scaled(thousandths: int) -> dict[str, int]:
            parts = {name: (amount * thousandths // 1000, step_of(name, amount)) for name, amount in wanted.items()}
            return {name: max(part // step, 1) * step for name, (part, step) in parts.items()}

        def fits(lowered: Mapping[str, int]) -> bool:
            form = with_requests(pod, lowered)
            return form is not None and patient.node_for(form) is not None

        best = _largest(lambda thousandths: fits(scaled(thousandths)), 999)
        if best is None:
            return None
        lowered = scaled(best)
        for name, amount in wanted.items():
            step = step_of(name, amount)
            if fits({**lowered, name: amount}):
                lowered[name] = amount
                continue
            more = _largest(lambda steps, name=name, step=step: fits({**lowered, name: steps * step}), amount // step)  # type: ignore[misc]
            lowered[name] = lowered[name] if more is None else more * step
        return {name: amount for name, amount in lowered.items() if amount != wanted[name]}


def _largest(fits: Callable[[int], bool], highest: int) -> int | None:
    """The largest number from 1 to `highest` that fits, where smaller ones fit as well; None if 1 does not."""
    if highest < 1 or not fits(1):
        return None
    return largest(fits, 1, highest + 1)


def _change(wanted: Mapping[str, int], lowered: Mapping[str, int]) -> PodChange:
    texts = [
        f"the {name} request from {show_amount(name, wanted[name])} to {written(name, amount)}"
        for name, amount in lowered.items()
    ]
    shares = [(wanted[name] - amount) / wanted[name] for name, amount in lowered.items()]

    def apply(pod: Pod) -> Pod:
        form = with_requests(pod, lowered)
        assert form is not None, "the same pod was changed in the same way before"
        return form

    return PodChange("lower-request", f"lower {' and '.join(texts)}", LOWER_REQUEST + GIVE_UP_ALL * max(shares), apply)


# ---- pods with other requests


def with_requests(pod: Pod, amounts: Mapping[str, int]) -> Pod | None:
    """The pod with these amounts requested in all; None if its containers cannot be changed so that just this comes out."""
    form = pod
    for name, amount in amounts.items():
        form = _with_request(form, name, amount)
    asked = form.shape.request
    return form if all(asked.get(name, 0) == amount for name, amount in amounts.items()) else None


def _with_request(pod: Pod, name: str, amount: int) -> Pod:
    """Take what is too much from the containers, the largest request first; init containers get at most the amount."""
    level = pod.spec.resources
    if level is not None and name in (level.requests or {}):
        return with_spec(pod, resources=_lowered(level, name, amount))
    sidecars = [each for each in pod.spec.init_containers or () if each.restart_policy == ALWAYS]
    started = with_spec(pod, init_containers=sidecars)
    surplus = started.shape.request.get(name, 0) - amount  # init containers that end may ask for more than all others
    containers = list(pod.spec.containers)
    asked = [_asked(container, name) for container in containers]
    for i in sorted(range(len(containers)), key=lambda i: -asked[i]):
        taken = min(surplus, asked[i])
        if taken > 0:
            containers[i] = _container(containers[i], name, asked[i] - taken)
            surplus -= taken
    init = pod.spec.init_containers
    if init is not None:
        init = [each if _asked(each, name) <= amount else _container(each, name, amount) for each in init]
    return with_spec(pod, containers=containers, init_containers=init)


def _asked(container: Container, name: str) -> int:
    requests = (container.resources.requests if container.resources is not None else None) or {}
    return to_units({name: parse_or(requests[name], 0)})[name] if name in requests else 0


def _container(container: Container, name: str, amount: int) -> Container:
    level = container.resources or ResourceRequirements()
    return msgspec.structs.replace(container, resources=_lowered(level, name, amount))


def _lowered(level: ResourceRequirements, name: str, amount: int) -> ResourceRequirements:
    """With another request; the limit of an extended resource must equal it."""
    text = written(name, amount)
    limits = level.limits
    if limits and name in limits and (is_extended(name) or name.startswith("hugepages-")):
        limits = {**limits, name: text}
    return ResourceRequirements(requests={**(level.requests or {}), name: text}, limits=limits)


def is_extended(name: str) -> bool:
    return "/" in name
