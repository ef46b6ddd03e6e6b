"""Which scheduler extenders are asked about a pod, and in which order."""

from collections.abc import Callable, Iterable

import msgspec

from mooring.framework.config.types import Extender
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container


class InterestedExtenders(msgspec.Struct, frozen=True):
    """The extenders that are interested in one pod, in the order in which they are asked."""

    extenders: tuple[Extender, ...]
    report: Callable[[str], None] = lambda text: None
    """Receives a line about an ignorable extender that failed."""
    tell: Callable[[str], None] = lambda text: None
    """Receives lines for the story of the pod."""

    @property
    def reviews_victims(self) -> bool:
        """Whether one of them takes part in the choice of victims (preemptVerb)."""
        return any(extender.preempt_verb for extender in self.extenders)

    def skip(self, text: str, extender: Extender, fault: object) -> None:
        """Report that an ignorable extender failed and is passed over."""
        self.report(f"{text}: extender {extender.shown_url}: {fault}")


def in_asking_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Parity: ignorable extenders come after the others, otherwise the order is that of the configuration."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def interested_in(extenders: Iterable[Extender], pod: Pod) -> tuple[Extender, ...]:
    """The extenders that take part in attempts for this pod, in their order."""
    return tuple(extender for extender in extenders if is_interested(extender, pod))


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Whether a container requests or limits a resource that the extender manages. An extender that manages none
    takes part for all pods."""
    managed = {resource.name for resource in extender.managed_resources}
    if not managed:
        return True
    containers = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    return any(not managed.isdisjoint(_named(container)) for container in containers)


def _named(container: Container) -> set[str]:
    """The resources that a container requests or limits."""
    resources = container.resources
    return set() if resources is None else {*(resources.requests or ()), *(resources.limits or ())}
