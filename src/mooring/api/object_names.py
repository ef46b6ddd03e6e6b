"""Names of objects as users write them: `[KIND/][NAMESPACE/]NAME`, with KIND in all forms that kubectl takes and prints.

`kubectl get -o name` prints `pod/cart-0` and `deployment.apps/cart`; users also write `po/cart-0`, `deploy/cart`.
A namespace may have the name of a kind: then the kind wins, and `pod/NAMESPACE/NAME` names the pod.
"""

from collections.abc import Iterable

from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import KINDS, WORKLOADS
from mooring.api.kinds.nodes import NODE
from mooring.api.kinds.pods import POD


def split_kind(written: str, kinds: Iterable[KindSpec]) -> tuple[KindSpec | None, str]:
    """The kind of `KIND/[NAMESPACE/]NAME`, if it is one of `kinds`, and the rest; None and all of it for any other text."""
    kind, _, rest = written.partition("/")
    found = next((spec for spec in kinds if spec.is_called(kind)), None) if rest else None
    return (None, written) if found is None else (found, rest)


def pod_name(written: str) -> str:
    """`[NAMESPACE/]NAME` of a pod that may be written with its kind: `pod/cart-0`, `po/shop/cart-0`."""
    return split_kind(written, (POD,))[1]


def other_kind(written: str) -> str:
    """For the end of a message that there is no such pod: that the text names an object of another kind; empty if not."""
    kind, _ = split_kind(written, (*WORKLOADS.values(), *KINDS.values()))
    return f"; it names a {kind.kind}: name a pod" if kind is not None and kind is not POD else ""


def node_name(written: str) -> str:
    """The name of a node that may be written with its kind: `node/n-1`, `no/n-1`."""
    return split_kind(written, (NODE,))[1]
