"""Node groups of cluster-autoscaler: a number of nodes from its flags, and a node as the template of each group.

The flag `--nodes=MIN:MAX:NAME` stands in the command of its Deployment. The template is a Node of the file, or of the
cluster, whose name, label or annotation has the name of the group: clouds label nodes in this way, and the kwok provider of
cluster-autoscaler annotates them. A Node of the file that no flag names is a group of its own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.inputs.offers.instance_types import DEFAULT_PODS, OfferedNode, offer_name

KWOK_GROUP = "cluster-autoscaler.kwok.nodegroup/name"
"""The annotation with which the kwok provider of cluster-autoscaler says to which group a node belongs."""
KWOK_MOST = "cluster-autoscaler.kwok.nodegroup/max-count"
"""The annotation of a template with which it says how many nodes the group may have."""
_FLAG = re.compile(r"--nodes[= ](\S+)")
_SIZES = re.compile(r"(\d{1,6}):(\d{1,6}):(\S+)")
_OWN_LABELS = ("kubernetes.io/hostname",)


@dataclass(frozen=True, slots=True)
class AutoscalerGroup:
    """A group that cluster-autoscaler may let grow."""

    name: str
    most: int
    file: str


def node_groups(written: Mapping[str, Any], file: str, problems: list[Problem]) -> list[AutoscalerGroup]:
    """The groups that the containers of a Deployment or Pod name in their flags."""
    found: list[AutoscalerGroup] = []
    for text in _FLAG.findall("\n".join(_words(written))):
        sizes = _SIZES.fullmatch(text)
        if sizes is None or int(sizes[1]) > int(sizes[2]):
            problems.append(Problem("--nodes", show(text), "MIN:MAX:NAME", file=file))
        else:
            found.append(AutoscalerGroup(sizes[3].rstrip("/").rpartition("/")[2], int(sizes[2]), file))
    return found


def _words(written: Mapping[str, Any]) -> Iterator[str]:
    """The words of the commands of all containers."""
    spec = written.get("spec")
    inside = spec.get("template", {}).get("spec") if isinstance(spec, Mapping) and "template" in spec else spec
    containers = inside.get("containers") if isinstance(inside, Mapping) else None
    for container in containers if isinstance(containers, list) else ():
        for part in ("command", "args"):
            words = container.get(part) if isinstance(container, Mapping) else None
            yield from (str(word) for word in (words if isinstance(words, list) else ()))


def group_offers(
    groups: Sequence[AutoscalerGroup],
    templates: Sequence[tuple[str, Mapping[str, Any]]],
    nodes: Sequence[Mapping[str, Any]],
    problems: list[Problem],
) -> Iterator[OfferedNode]:
    """A node for each group. `templates` are the Nodes of files, with the file; `nodes` those of the cluster."""
    named = {group.name for group in groups}
    for group in groups:
        found = next((each for each in templates if belongs_to(each[1], group.name)), None)
        here = [node for node in nodes if belongs_to(node, group.name)]
        if found is None and not here:
            told = "no node has this name, or a label or an annotation with it: add a Node as a template"
            problems.append(Problem(f"--nodes ({group.name})", told, file=group.file))
            continue
        yield _offer(group.name, found[1] if found else here[0], max(group.most - len(here), 0), group.file)
    for file, template in templates:
        if not any(belongs_to(template, name) for name in named):
            annotations = _map(template, "metadata", "annotations")
            name = str(annotations.get(KWOK_GROUP) or _map(template, "metadata").get("name") or "")
            yield _offer(name, template, _size(annotations, name, nodes), file)


def belongs_to(node: Mapping[str, Any], group: str) -> bool:
    """Whether a node is one of the group."""
    metadata = _map(node, "metadata")
    texts = {
        key: text
        for part in ("labels", "annotations")
        for key, text in _map(metadata, part).items()
        if key not in _OWN_LABELS
    }
    return metadata.get("name") == group or group in texts.values()


def _size(annotations: Mapping[str, Any], group: str, nodes: Iterable[Mapping[str, Any]]) -> int | None:
    """How many more nodes the annotations of a template allow; None: they do not say."""
    written = str(annotations.get(KWOK_MOST, ""))
    return max(int(written) - sum(belongs_to(node, group) for node in nodes), 0) if written.isdecimal() else None


def _offer(name: str, node: Mapping[str, Any], limit: int | None, file: str) -> OfferedNode:
    metadata, status = _map(node, "metadata"), _map(node, "status")
    capacity = _map(status, "capacity") or _map(status, "allocatable")
    allocatable = {"pods": DEFAULT_PODS, **(_map(status, "allocatable") or capacity)}
    taints = _map(node, "spec").get("taints") or []
    return OfferedNode(
        offer_name(name),
        None,
        {key: text for key, text in _map(metadata, "labels").items() if key not in _OWN_LABELS},
        capacity,
        allocatable,
        taints if isinstance(taints, list) else (),
        _map(metadata, "annotations"),
        None,
        limit,
        file,
        f"node group {name}",
    )


def _map(written: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The map at a path; empty if there is none."""
    found: Any = written
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}
