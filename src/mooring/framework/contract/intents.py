"""Intents: what the scheduler wants done in the world. A driver carries them out and reports the outcome as inputs
(scheduler/inputs.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from mooring.framework.config.types import Extender
from mooring.model.meta import Condition, KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup

# Hot: each bound pod is one Bind and one Record, and each preemption several of the others. As frozen dataclasses two of
# them took 2.2 µs to make, as structs 0.3. They are in no reference cycle, so the garbage collector need not know of them.


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Bind the pod to the node, then report BindAnswered."""

    pod: Pod
    node_name: str


class PatchStatus(msgspec.Struct, frozen=True, gc=False):
    """Set a condition in the pod's status (None: leave the conditions), and its nominated node (None: leave it,
    empty: clear it). No answer is awaited: the watch shows the result."""

    pod: Pod
    condition: Condition | None = None
    nominated_node_name: str | None = None


class Evict(msgspec.Struct, frozen=True, gc=False):
    """Set the condition DisruptionTarget on a victim of preemption, delete it, then report EvictionAnswered."""

    victim: Pod
    preemptor: Pod
    condition: Condition


class Record(msgspec.Struct, frozen=True, gc=False):
    """Record a Kubernetes event about the pod."""

    pod: Pod
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str
    related: AnyPodGroup | None = None
    """The group for which the pod is preempted."""


@dataclass(frozen=True, slots=True)
class Write:
    """Create, change or delete an object, then report WriteAnswered with the token.

    PATCH is a JSON merge patch, or a strategic one if `form` says so; a resourceVersion in it is a precondition, as it
    is for PUT. An empty PATCH reads the object. Mooring decodes only a part of most objects, so a PUT loses the rest:
    use PATCH, unless all of the object is known. A POST without a name has a `generateName` in its body.
    """

    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    kind: type[KubeObject]
    name: str
    namespace: str = ""
    body: KubeObject | dict[str, Any] | None = None
    subresource: str = ""
    token: int = 0
    """Set by the scheduler, so that the answer finds the code that waits for it; 0: no code does."""
    form: Literal["merge", "strategic"] = "merge"
    late: "Callable[[KubeObject | WriteFault | None], None] | None" = field(default=None, compare=False)
    """Called with the answer if the code that asked for the write was stopped before it came."""
    pod_id: str = ""
    """The pod whose PreBind waits for it; empty: it is for no pod. Set by the scheduler."""


def at_version(item: KubeObject, **metadata: object) -> dict[str, object]:
    """Metadata of a patch that is meant for this version of the object only: a concurrent change makes the API server
    reject it. Empty values are left out."""
    given = {name: value for name, value in metadata.items() if value}
    version = item.metadata.resource_version
    return {**given, "resourceVersion": version} if version else given


class WriteFault(msgspec.Struct, frozen=True):
    """Why a Write was not carried out: the server's words, and the HTTP status (0 where there was none)."""

    message: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Call a scheduler extender, then report CallAnswered with the token.

    The body is plain data for JSON, in which pods and nodes are the objects as Mooring decodes them. A driver that has
    the objects as the API server sent them puts those in instead: extenders must see every field.
    """

    extender: Extender
    verb: str
    body: dict[str, Any]
    token: int = 0
    """Set by the scheduler, as for Write."""
    pod_id: str = ""
    """The pod that is to be scheduled."""
    binds: bool = False
    """Whether the call changes the cluster (bindVerb). All others are questions."""

    @property
    def url(self) -> str:
        return f"{self.extender.url_prefix.rstrip('/')}/{self.verb}"

    @property
    def shown_url(self) -> str:
        """The URL for messages, without passwords and tokens."""
        return f"{self.extender.shown_url.rstrip('/')}/{self.verb}"


class CallFault(msgspec.Struct, frozen=True):
    """Why an extender gave no usable answer, in upstream's words."""

    message: str


CallReply = bytes | CallFault
"""The body of an answer with status 200, or why there is none."""

Intent = Bind | PatchStatus | Evict | Record | Write | Call
