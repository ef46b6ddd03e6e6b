"""Changes to the pod itself. A relaxation is one dimension of what a pod asks for: requests, tolerations and so on.

Each can be given up altogether (`relax`), to see whether it matters, and has options: the smallest ways to give up enough of
it. Options are functions from a pod to a pod, so that options of two relaxations can be put together.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from mooring.answers.explain.cure import Patient
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec


@dataclass(frozen=True, slots=True)
class PodChange:
    """One way to ask for less."""

    kind: str
    text: str
    cost: float
    apply: Callable[[Pod], Pod] = field(repr=False)


class Relaxation(ABC):
    """A dimension of what a pod asks for."""

    @abstractmethod
    def relax(self, pod: Pod) -> Pod | None:
        """The pod without anything of this dimension; None if it has nothing of it."""

    @abstractmethod
    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """Changes after which `pod`, a form of the patient, gets a node; each was tried."""


def with_spec(pod: Pod, **changes: object) -> Pod:
    """The pod with other fields in its spec."""
    spec: PodSpec = msgspec.structs.replace(pod.spec, **changes)
    return Pod(metadata=pod.metadata, spec=spec, status=pod.status)
