"""A reader of cures: it does to plain manifests what the printed sentence of a cure says, as a person would.

It knows English and the Kubernetes API, and nothing of the search: neither its edits nor any code of the project.
"""

import copy
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

Written = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
CORDON = "node.kubernetes.io/unschedulable"
SUFFIXES = {"m": Fraction(1, 1000), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30)}


class Misleading(AssertionError):
    """The sentence speaks of something that the manifests do not have."""


class Manifests:
    """The objects of a cluster, while a sentence is carried out."""

    def __init__(self, objects: list[Written], pod: str) -> None:
        self.objects: list[Written] = copy.deepcopy(objects)
        self.pod = self.find("Pod", pod)

    def find(self, kind: str, name: str) -> Written:
        for item in self.objects:
            meta = item["metadata"]
            if item["kind"] == kind and name in (meta["name"], f"{meta.get('namespace', 'default')}/{meta['name']}"):
                return item
        raise Misleading(f"there is no {kind} {name}")

    @property
    def spec(self) -> Written:
        found: Written = self.pod["spec"]
        return found


def carried_out(sentence: str, objects: list[Written], pod: str) -> list[Written]:
    """The manifests after everything that the sentence says."""
    cluster = Manifests(objects, pod)
    for part in sentence.split(", and "):
        for pattern, do in RULES:
            match = re.fullmatch(pattern, part)
            if match:
                do(cluster, *match.groups())
                break
        else:
            raise Misleading(f"nobody understands: {part}")
    return cluster.objects


def amount(text: str) -> Fraction:
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    assert match, text
    return Fraction(match[1]) * (SUFFIXES[match[2]] if match[2] else 1)


def _taken(listed: list[Any], is_meant: Callable[[Any], bool], what: str) -> list[Any]:
    """The list without what is meant; there must be something that is."""
    left = [each for each in listed if not is_meant(each)]
    if len(left) == len(listed):
        raise Misleading(f"there is no {what}")
    return left


def _without(listed: list[Any], **fields: str) -> list[Any]:
    """The list without the items that have these fields; a field that an item lacks is empty."""
    return _taken(listed, lambda item: all(item.get(name, "") == value for name, value in fields.items()), str(fields))


# ---- the pod


def ungate(cluster: Manifests, names: str) -> None:
    for name in names.split(", "):
        cluster.spec["schedulingGates"] = _without(cluster.spec["schedulingGates"], name=name)


def change_scheduler(cluster: Manifests, new: str, old: str) -> None:
    assert cluster.spec.get("schedulerName", "default-scheduler") == old
    cluster.spec["schedulerName"] = new


def lower(cluster: Manifests, parts: str) -> None:
    pattern = (
        r"the (\S+) request( and limit)? of (?:(container|init container) (\S+)|the pod as a whole)(?: of (\S+/\S+))?"
        r" from (\S+) to (\S+)"
    )
    assert " and ".join(match[0] for match in re.finditer(pattern, parts)) == parts, parts
    for resource, limit, kind, name, other, before, after in re.findall(pattern, parts):
        spec = cluster.find("Pod", other)["spec"] if other else cluster.spec
        listed = spec.get({"container": "containers", "init container": "initContainers"}.get(kind, ""), [spec])
        (holder,) = [each for each in listed if not name or each["name"] == name]
        resources = holder["resources"]
        if amount(resources["requests"][resource]) != amount(before):
            raise Misleading(f"{name} requests {resources['requests'][resource]}, not {before}")
        resources["requests"][resource] = after
        if limit:
            resources["limits"][resource] = after


def drop_request(cluster: Manifests, resource: str, limit: str | None, whose: str) -> None:
    for each in whose.split(" and "):
        kind, _, name = each.rpartition(" ")
        listed = cluster.spec[{"container": "containers", "init container": "initContainers"}[kind]]
        (holder,) = [one for one in listed if one["name"] == name]
        for level in ("requests", "limits") if limit else ("requests",):
            del holder["resources"][level][resource]


def taints_in(text: str) -> Iterator[Written]:
    for each in text.split(" and "):
        rest, _, effect = each.rpartition(":")
        key, _, value = rest.partition("=")
        yield {"key": key, "effect": effect, **({"value": value} if value else {})}


def tolerate(cluster: Manifests, taints: str) -> None:
    for taint in taints_in(taints):
        operator = {"operator": "Equal"} if "value" in taint else {"operator": "Exists"}
        cluster.spec.setdefault("tolerations", []).append({**taint, **operator})


def select(cluster: Manifests, key: str, value: str, old_key: str, old: str) -> None:
    assert key == old_key and cluster.spec["nodeSelector"][key] == old
    cluster.spec["nodeSelector"][key] = value


def drop_selector(cluster: Manifests, key: str, value: str) -> None:
    assert cluster.spec["nodeSelector"].pop(key) == value


def drop_whole(cluster: Manifests, what: str) -> None:
    for each in what.split(" and "):
        if each == "the node selector":
            assert cluster.spec.pop("nodeSelector")
        else:
            assert each == "the required node affinity"
            assert cluster.spec["affinity"]["nodeAffinity"].pop(REQUIRED)


def shown(line: Written) -> str:
    values = f" [{', '.join(line['values'])}]" if line.get("values") else ""
    return f"{line['key']} {line['operator']}{values}"


def drop_line(cluster: Manifests, line: str, term: str | None) -> None:
    """Drop a line of the affinity. Without a term the sentence means all terms, and there had better be just one."""
    affinity = cluster.spec["affinity"]["nodeAffinity"]
    terms = affinity[REQUIRED]["nodeSelectorTerms"]
    meant = (
        terms if term is None else [each for each in terms if " and ".join(map(shown, _all_lines(each))) == term][:1]
    )
    if not any(line in map(shown, _all_lines(each)) for each in meant):
        raise Misleading(f"the affinity has no line {line}")
    for each in meant:
        for field in ("matchExpressions", "matchFields"):
            each[field] = [one for one in each.get(field, ()) if shown(one) != line]
    left = [each for each in terms if _all_lines(each)]
    affinity[REQUIRED]["nodeSelectorTerms"] = left
    if not left:
        del affinity[REQUIRED]


def _all_lines(term: Written) -> list[Written]:
    return [*term.get("matchExpressions", ()), *term.get("matchFields", ())]


def drop_relation(cluster: Manifests, kind: str, key: str, selector: str) -> None:
    side = cluster.spec["affinity"]["podAffinity" if kind == "affinity" else "podAntiAffinity"]

    def is_meant(term: Written) -> bool:
        wanted = term.get("labelSelector")
        lines = [f"{k}={v}" for k, v in (wanted or {}).get("matchLabels", {}).items()]
        lines += map(shown, (wanted or {}).get("matchExpressions", ()))
        told = "no pods" if wanted is None else ", ".join(lines) or "all pods"
        return term["topologyKey"] == key and told == selector

    side[REQUIRED] = _taken(side[REQUIRED], is_meant, f"{kind} over {key}")


def drop_relations(cluster: Manifests) -> None:
    for side in ("podAffinity", "podAntiAffinity"):
        cluster.spec["affinity"].get(side, {}).pop(REQUIRED, None)


def _hard_spread(cluster: Manifests, key: str) -> Written:
    (found,) = [
        each
        for each in cluster.spec["topologySpreadConstraints"]
        if each["topologyKey"] == key and each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    constraint: Written = found
    return constraint


def raise_skew(cluster: Manifests, key: str, old: str, new: str) -> None:
    constraint = _hard_spread(cluster, key)
    assert constraint["maxSkew"] == int(old)
    constraint["maxSkew"] = int(new)


def prefer_spread(cluster: Manifests, key: str, more: str | None) -> None:
    constraint = _hard_spread(cluster, key)
    constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    if more:
        del constraint["minDomains"]


def prefer_all_spreads(cluster: Manifests) -> None:
    for each in cluster.spec["topologySpreadConstraints"]:
        each["whenUnsatisfiable"] = "ScheduleAnyway"


def drop_spread(cluster: Manifests, key: str) -> None:
    cluster.spec["topologySpreadConstraints"].remove(_hard_spread(cluster, key))


def drop_ports(cluster: Manifests, network: str | None, ports: str) -> None:
    """Without the words about the network of the node the pod stays there, and every port is one of the node."""
    if network:
        assert cluster.spec.pop("hostNetwork")
    numbers = {int(port) for port in ports.split(", ")}
    for container in (*cluster.spec["containers"], *cluster.spec.get("initContainers", ())):
        for port in container.get("ports", ()):
            if port.get("hostPort") in numbers:
                del port["hostPort"]


def raise_priority(
    cluster: Manifests, raised: str | None, _: str | None, new: str | None, allowed: str | None, known: str | None
) -> None:
    """Use the class that the sentence names; otherwise a new one, which the pod shows by its priority alone."""
    assert raised or allowed
    spec = cluster.spec
    if known and known.startswith("PriorityClass"):
        name, value = re.fullmatch(r"PriorityClass (\S+) has (-?\d+)", known).groups()  # type: ignore[union-attr]
        assert cluster.find("PriorityClass", name)["value"] == int(value)
        for field in ("priority", "preemptionPolicy"):
            spec.pop(field, None)
        spec["priorityClassName"] = name
        return
    old_class = spec.pop("priorityClassName", "")
    if old_class:
        item = cluster.find("PriorityClass", old_class)
        spec["priority"] = item["value"]
        spec["preemptionPolicy"] = item.get("preemptionPolicy", "PreemptLowerPriority")
    if new:
        spec["priority"] = int(new)
    if allowed:
        assert spec["preemptionPolicy"] == "Never"
        spec["preemptionPolicy"] = "PreemptLowerPriority"


# ---- nodes


def uncordon(cluster: Manifests, name: str) -> None:
    spec = cluster.find("Node", name)["spec"]
    assert spec.pop("unschedulable")
    spec["taints"] = [taint for taint in spec.get("taints", ()) if taint["key"] != CORDON]


def mend(cluster: Manifests, name: str, keys: str) -> None:
    spec = cluster.find("Node", name)["spec"]
    for key in keys.split(", "):
        spec["taints"] = _without(spec["taints"], key=key)


def untaint(cluster: Manifests, taints: str, name: str) -> None:
    spec = cluster.find("Node", name)["spec"]
    for gone in taints_in(taints):
        spec["taints"] = _without(spec["taints"], **{"value": "", **gone})


def label(cluster: Manifests, name: str, labels: str) -> None:
    own = cluster.find("Node", name)["metadata"]["labels"]
    for each in labels.split(" and "):
        new, _, old = each.partition(" instead of ")
        key, _, value = new.partition("=")
        assert own.get(key) == (old.partition("=")[2] or None)
        own[key] = value


def more_pods(cluster: Manifests, name: str, new: str, old: str) -> None:
    status = cluster.find("Node", name)["status"]
    assert amount(status["allocatable"]["pods"]) == int(old)
    status["allocatable"]["pods"] = status["capacity"]["pods"] = new


def add_like(cluster: Manifests, name: str, _: str) -> None:
    model = copy.deepcopy(cluster.find("Node", name))
    new = f"{name}-another"
    model["metadata"] = {"name": new, "labels": {**model["metadata"]["labels"], HOSTNAME: new}}
    taints = [taint for taint in model["spec"].get("taints", ()) if not taint["key"].startswith("node.kubernetes.io/")]
    model["spec"] = {"taints": taints}
    cluster.objects.append(model)


def add_described(cluster: Manifests, named: str | None, amounts: str, labels: str | None) -> None:
    name = named or "bought"
    room = dict(each.split(" ") for each in amounts.split(", "))
    own = dict(each.split("=") for each in labels.split(", ")) if labels else {}
    metadata = {"name": name, "labels": {HOSTNAME: name, **own}}
    status = {"allocatable": room, "capacity": dict(room)}
    cluster.objects.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})


# ---- other pods, volumes


def move(cluster: Manifests, moves: str) -> None:
    for each in moves.split(" and "):
        name, old, new = re.fullmatch(r"move (\S+) from (\S+) to (\S+)", each).groups()  # type: ignore[union-attr]
        spec = cluster.find("Pod", name)["spec"]
        assert spec["nodeName"] == old and cluster.find("Node", new)
        spec["nodeName"] = new


def remove(cluster: Manifests, removals: str) -> None:
    for each in removals.split(" and remove "):
        names, _, node = each.rpartition(" from ")
        for name in names.split(" and "):
            pod = cluster.find("Pod", name)
            if pod["spec"]["nodeName"] != node:
                raise Misleading(f"{name} is not on {node}")
            cluster.objects.remove(pod)


def wait(cluster: Manifests, names: str) -> None:
    for name in names.split(" and "):
        pod = cluster.find("Pod", name)
        if "deletionTimestamp" not in pod["metadata"]:
            raise Misleading(f"{name} does not end")
        cluster.objects.remove(pod)


def create_volumes(cluster: Manifests, created: str) -> None:
    claim_pattern = r"create the PersistentVolumeClaim (\S+) \((\S+)\) with a volume"
    again_pattern = (
        r"create the PersistentVolumeClaim (\S+) \((\S+?)(?:, class (\S+))?\) again, "
        r"with (?:a volume|another volume without the data of (\S+))"
    )
    volume_pattern = r"create a volume for the PersistentVolumeClaim (\S+) \((\S+?)(?:, class (\S+))?\)"
    for each in re.split(" and (?=create )", created):
        if match := re.fullmatch(again_pattern, each):
            claim = cluster.find("PersistentVolumeClaim", match[1])
            old = claim["spec"]["volumeName"]
            is_there = any(
                one["kind"] == "PersistentVolume" and one["metadata"]["name"] == old for one in cluster.objects
            )
            if (match[4] == old) is not is_there:
                raise Misleading(f"the volume of {match[1]} is {old}")
            _bind(cluster, claim, match[2], match[3])
            continue
        if match := re.fullmatch(claim_pattern, each):
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": match[2]}}}
            namespace, _, name = match[1].partition("/")
            metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
            cluster.objects.append(claim)
            _bind(cluster, claim, match[2], None)
            continue
        match = re.fullmatch(volume_pattern, each)
        assert match, each
        _bind(cluster, cluster.find("PersistentVolumeClaim", match[1]), match[2], match[3])


def _bind(cluster: Manifests, claim: Written, size: str, storage_class: str | None) -> None:
    """Do what the controller of volumes does with a new volume that suits a claim."""
    name, meta = f"volume-{claim['metadata']['name']}", claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
    reference |= {key: meta[key] for key in ("name", "namespace", "uid")}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "claimRef": reference}
    if storage_class:
        spec["storageClassName"] = storage_class
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    cluster.objects.append({**volume, "status": {"phase": "Bound"}})
    claim["spec"]["volumeName"] = name
    meta.setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
    claim["status"] = {"phase": "Bound"}


RULES: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"remove the scheduling gate (.+)", ungate),
    (r"use schedulerName (\S+) instead of (\S+)", change_scheduler),
    (r"lower (.+)", lower),
    (r"drop the (\S+) request( and limit)? of ((?:init )?container .+)", drop_request),
    (r"tolerate the taint (.+)", tolerate),
    (r"select (\S+)=(\S+) instead of (\S+)=(\S+)", select),
    (r"drop the node selector (\S+)=(\S+)", drop_selector),
    (r"drop the whole of (.+)", drop_whole),
    (r"drop the required node affinity (.+?)(?: of the term \((.+)\))?", drop_line),
    (r"drop the required pod (affinity|anti-affinity) over (\S+) \((.+)\)", drop_relation),
    (r"drop all required pod affinity and anti-affinity", drop_relations),
    (r"raise maxSkew over (\S+) from (\d+) to (\d+)", raise_skew),
    (
        r"make the spread over (\S+) a preference \(whenUnsatisfiable: ScheduleAnyway(, without minDomains)?\)",
        prefer_spread,
    ),
    (r"make all spread constraints ScheduleAnyway", prefer_all_spreads),
    (r"drop the spread over (\S+) \(whenUnsatisfiable: DoNotSchedule\)", drop_spread),
    (r"do without (hostNetwork and )?hostPort (.+)", drop_ports),
    (
        r"(raise the priority from (-?\d+) to (-?\d+))?(?: and )?"
        r"(let it preempt \(preemptionPolicy: PreemptLowerPriority instead of Never\))?"
        r"(?: \(((?:PriorityClass|needs) .+)\))?",
        raise_priority,
    ),
    (r"uncordon node (\S+)", uncordon),
    (r"mend node (\S+), which has the taint (.+)", mend),
    (r"remove the taint (.+) from node (\S+)", untaint),
    (r"label node (\S+) with (.+)", label),
    (r"let node (\S+) run (\d+) pods? instead of (\d+)", more_pods),
    (r"add a node like (\S+) \((.+)\)", add_like),
    (r"add a node without taints(?: named (\S+))? that has at least (.+?)(?: and the labels (.+))?", add_described),
    (r"(move .+)", move),
    (r"remove (.+ from \S+)", remove),
    (r"wait until (.+) ha(?:s|ve) ended", wait),
    (r"(create .+)", create_volumes),
)
"""The sentences that a person understands, and what the person does."""
