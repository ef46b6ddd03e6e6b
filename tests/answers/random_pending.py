"""Random small clusters with a pod, `default/wanted`, that is in trouble of many kinds at once."""

from random import Random
from typing import Any

Written = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = "nvidia.com/gpu"
TAINTS = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "gpu", "effect": "NoExecute"},
    {"key": "soft", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
)
CLASSES = {"low": (0, None), "mid": (50, None), "never": (80, "Never"), "high": (200, None)}
CLAIMS = ("unbound", "missing", "lost", "far", "zonal")
CPUS = ("100m", "500m", "1", "1", "2", "2", "3", "4", "9")


class Dice(Random):
    """Random numbers, and how often troubles come: each in every third to every time that it could."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.trouble = self.choice((0.3, 0.3, 0.5, 0.5, 1.0))

    def strikes(self, share: float) -> bool:
        return self.random() < share * self.trouble


def a_cluster(seed: int) -> list[Written]:
    """The objects of one cluster. Every twentieth or so has no nodes."""
    dice = Dice(seed)
    nodes = [_node(dice, f"n{i}") for i in range(dice.choice((0, 1, 1, *range(2, 7), *range(2, 7))))]
    objects = [*nodes, *_classes(), *_claims(), *_bound("lost", None), *_bound("far", "w"), *_bound("zonal", "x")]
    running = [pod for i in range(dice.randint(0, 12)) if (pod := _placed(dice, f"p{i}", nodes)) is not None]
    for node in nodes:
        del node["room"]
    return [*objects, *running, _wanted(dice)]


def _placed(dice: Dice, name: str, nodes: list[Written]) -> Written | None:
    """A pod on one of the nodes, if that has room for it."""
    if not nodes:
        return None
    node = dice.choice(nodes)
    pod = _running(dice, name, node["metadata"]["name"])
    asked = {**pod["spec"]["containers"][0]["resources"]["requests"], "pods": "1"}
    room = node["room"]
    if any(room.get(resource, 0) < _number(amount) for resource, amount in asked.items()):
        return None
    for resource, amount in asked.items():
        room[resource] -= _number(amount)
    return pod


def _number(amount: str) -> float:
    for suffix, factor in (("m", 0.001), ("Mi", 2.0**20), ("Gi", 2.0**30)):
        if amount.endswith(suffix):
            return float(amount.removesuffix(suffix)) * factor
    return float(amount)


def _node(dice: Dice, name: str) -> Written:
    labels = {HOSTNAME: name, "disk": dice.choice(("ssd", "hdd"))}
    if dice.random() < 0.8:
        labels[ZONE] = dice.choice("xyz")
    if dice.strikes(0.3):
        labels["pool"] = dice.choice(("web", "gpu"))
    room = {"cpu": dice.choice(("1", "2", "4", "4", "8")), "memory": dice.choice(("1Gi", "4Gi", "16Gi"))}
    room["pods"] = dice.choice(("1", "2", "3", "110", "110", "110"))
    if dice.strikes(0.2):
        room[GPU] = dice.choice("124")
    spec: Written = {"taints": [each for each in TAINTS if dice.strikes(0.2)]}
    if dice.strikes(0.25):
        spec["unschedulable"] = True
        spec["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    status = {"allocatable": room, "capacity": dict(room)}
    metadata = {"name": name, "labels": labels}
    free = {resource: _number(amount) for resource, amount in room.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": status,
        "room": free,
    }


def _classes() -> list[Written]:
    found = []
    for name, (value, policy) in CLASSES.items():
        item = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        found.append({**item, **({"preemptionPolicy": policy} if policy else {})})
    return found


def _claims() -> list[Written]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}
    metadata = {"name": "unbound", "namespace": "default", "uid": "uid-unbound"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return [claim]


def _bound(name: str, zone: str | None) -> list[Written]:
    """A claim and its volume, which is in a zone; without a zone the volume is no more."""
    (claim,) = _claims()
    claim["metadata"] |= {"name": name, "uid": f"uid-{name}", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim["spec"]["volumeName"] = f"of-{name}"
    claim["status"] = {"phase": "Bound" if zone else "Lost"}
    if zone is None:
        return [claim]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": f"uid-{name}"}
    line = {"key": ZONE, "operator": "In", "values": [zone]}
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": reference,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"of-{name}"}, "spec": spec}
    return [claim, {**volume, "status": {"phase": "Bound"}}]


def _container(dice: Dice, name: str, is_modest: bool = False) -> Written:
    requests = {
        "cpu": dice.choice(CPUS[:3] if is_modest else CPUS),
        "memory": dice.choice(("64Mi", "512Mi", "512Mi", "2Gi", "6Gi")),
    }
    resources: Written = {"requests": requests}
    if dice.strikes(0.08):
        number = dice.choice("1128")
        requests[GPU], resources["limits"] = number, {GPU: number}
    if dice.strikes(0.1):
        resources.setdefault("limits", {})["cpu"] = "10"
    return {"name": name, "image": "registry.example/i:1", "resources": resources}


def _ports(dice: Dice, spec: Written) -> None:
    if dice.strikes(0.25):
        numbers = dice.sample((80, 443, 9090), dice.choice((1, 1, 2)))
        spec["containers"][0]["ports"] = [{"containerPort": each, "hostPort": each} for each in numbers]
        if dice.strikes(0.4):
            spec["hostNetwork"] = True


def _priority(dice: Dice, spec: Written) -> None:
    chosen = dice.random()
    if chosen < 0.4:
        spec["priorityClassName"] = dice.choice([*CLASSES])
    elif chosen < 0.8:
        spec["priority"] = dice.choice((0, 10, 60, 100))
        if dice.strikes(0.3):
            spec["preemptionPolicy"] = "Never"


def _selector(dice: Dice) -> Written:
    app = dice.choice(("web", "db"))
    if dice.strikes(0.3):
        return {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "cache"]}]}
    return {"matchLabels": {"app": app}}


def _relations(dice: Dice, affinity: Written) -> None:
    for side in ("podAffinity", "podAntiAffinity"):
        if dice.strikes(0.2):
            keys = dice.sample((ZONE, HOSTNAME), dice.choice((1, 1, 2)))
            affinity[side] = {REQUIRED: [{"topologyKey": key, "labelSelector": _selector(dice)} for key in keys]}


def _line(dice: Dice) -> Written:
    key, values = dice.choice(
        (("disk", ("ssd", "tape")), ("pool", ("web", "gpu")), (ZONE, ("x", "w")), ("rack", ("1", "2")))
    )
    operator = dice.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    listed = {"values": dice.sample(values, dice.choice((1, 1, 2)))} if operator in ("In", "NotIn") else {}
    return {"key": key, "operator": operator, **listed}


def _selection(dice: Dice, spec: Written) -> None:
    if dice.strikes(0.3):
        picked = (("disk", dice.choice(("ssd", "tape"))), ("pool", "gpu"), ("arch", "arm"))
        spec["nodeSelector"] = dict(dice.sample(picked, dice.choice((1, 1, 2))))
    if dice.strikes(0.35):
        terms = [
            {"matchExpressions": [_line(dice) for _ in range(dice.choice((1, 1, 2, 3)))]}
            for _ in range(dice.choice((1, 2, 3)))
        ]
        if dice.strikes(0.1):
            terms[0]["matchFields"] = [
                {"key": "metadata.name", "operator": "In", "values": [dice.choice(("n0", "gone"))]}
            ]
        spec.setdefault("affinity", {})["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}


def _spreads(dice: Dice, spec: Written) -> None:
    if dice.strikes(0.3):
        found = []
        for key in dice.sample((ZONE, HOSTNAME, "rack"), dice.choice((1, 1, 2))):
            each = {"maxSkew": dice.choice((1, 2)), "topologyKey": key, "labelSelector": _selector(dice)}
            each["whenUnsatisfiable"] = dice.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
            if each["whenUnsatisfiable"] == "DoNotSchedule" and dice.strikes(0.2):
                each["minDomains"] = dice.choice((2, 5))
            found.append(each)
        spec["topologySpreadConstraints"] = found


def _pod(dice: Dice, name: str, spec: Written) -> Written:
    labels = {"app": dice.choice(("web", "db"))}
    metadata: Written = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _running(dice: Dice, name: str, node: str) -> Written:
    spec: Written = {"nodeName": node, "containers": [_container(dice, "main", is_modest=True)]}
    _priority(dice, spec)
    _ports(dice, spec)
    if dice.strikes(0.2):
        _relations(dice, spec.setdefault("affinity", {}))
    pod = _pod(dice, name, spec)
    pod["status"]["phase"] = "Running"
    if dice.strikes(0.1):
        pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    if dice.random() < 0.7:
        owner = {
            "apiVersion": "apps/v1",
            "kind": dice.choice(("ReplicaSet", "ReplicaSet", "DaemonSet")),
            "name": f"of-{name}",
        }
        pod["metadata"]["ownerReferences"] = [{**owner, "uid": f"uid-of-{name}", "controller": True}]
    return pod


def _wanted(dice: Dice) -> Written:
    spec: Written = {"containers": [_container(dice, f"c{i}") for i in range(dice.choice((1, 1, 1, 2, 3)))]}
    if dice.strikes(0.25):
        spec["initContainers"] = [_container(dice, f"i{i}") for i in range(dice.choice((1, 2)))]
        for each in spec["initContainers"]:
            if dice.strikes(0.4):
                each["restartPolicy"] = "Always"
    for add in (_ports, _priority, _selection, _spreads):
        add(dice, spec)
    _relations(dice, spec.setdefault("affinity", {}))
    if dice.strikes(0.2):
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if dice.strikes(0.15):
        spec["schedulingGates"] = [
            {"name": name} for name in ("example.com/quota", "example.com/review")[: dice.choice((1, 2))]
        ]
    if dice.strikes(0.06):
        spec["schedulerName"] = "unknown"
    if dice.strikes(0.2):
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": dice.choice(CLAIMS)}}]
    return _pod(dice, "wanted", spec)
