"""What the scheduler wants done in the world. It does none of it itself: a driver does, and reports what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from mooring.framework.config.types import Extender
from mooring.model.meta import Condition, KubeObject
from mooring.model.pod import Pod


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod to the node, then report to `Scheduler.bound`."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a condition into the pod's status (none: leave them), and its nominated node (None: leave it)."""

    pod: Pod
    condition: Condition | None = None
    nominated_node_name: str | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a victim of preemption after marking why, then report to `Scheduler.evicted`."""

    victim: Pod
    preemptor: Pod
    condition: Condition


@dataclass(frozen=True, slots=True)
class Record:
    """Record a Kubernetes event about the pod."""

    pod: Pod
    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class Write:
    """Create, change or delete an object, then report to `Scheduler.written` with the token.

    PATCH is a JSON merge patch, or a strategic one if `form` says so; a resourceVersion in it is a condition, as it is
    for PUT. An empty one reads the object. Mooring reads only a part of most objects, so to PUT one loses the rest:
    patch it, unless all of it is known. A POST without a name has a `generateName` in its body.
    """

    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    kind: type[KubeObject]
    name: str
    namespace: str = ""
    body: KubeObject | dict[str, Any] | None = None
    subresource: str = ""
    token: int = 0
    """Given by the scheduler: which write it is that a driver reports about."""
    form: Literal["merge", "strategic"] = "merge"
    late: "Callable[[KubeObject | WriteFault | None], None] | None" = field(default=None, compare=False)
    """Told the answer where whoever asked for the write was stopped before it came."""


@dataclass(frozen=True, slots=True)
class WriteFault:
    """Why a Write was not carried out: the server's words, and the HTTP status (0 where there was none)."""

    message: str
    code: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Ask a scheduler extender, then report to `Scheduler.replied` with the token.

    The body is plain data for JSON in which pods and nodes stand as far as Mooring reads them: a driver that has the
    whole objects sends those in their place.
    """

    extender: Extender
    verb: str
    body: dict[str, Any]
    token: int = 0
    """Given by the scheduler: which call it is that a driver reports about."""
    binds: bool = False
    """Whether it changes the cluster; otherwise it is a question."""

    @property
    def url(self) -> str:
        return f"{self.extender.url_prefix.rstrip('/')}/{self.verb}"


@dataclass(frozen=True, slots=True)
class CallFault:
    """Why an extender gave no answer that could be read: in upstream's words."""

    message: str


CallReply = bytes | CallFault
"""The body of an answer with status 200, or why there is none."""

Intent = Bind | PatchStatus | Evict | Record | Write | Call
