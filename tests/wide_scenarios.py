"""Scenarios in JSON that combine everything in few objects: resizes, sidecars and overhead in one pod, selectors that are
missing, empty or negative, overlapping budgets, several profiles, and plugins that are switched off point by point."""

from random import Random
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE = "kubernetes.io/hostname", "zone"
EXTENDED = "example.com/thing"
CPU = ["0", "100m", "0.3", "1", "150m", "2", "2e-1", "250.5m", "1250u"]
MEMORY = ["0", "1Gi", "512Mi", "2e8", "1.5Gi", "100M"]
DISABLED_AT = {
    "preFilter": (
        *("NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding"),
        *("VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    ),
    "filter": (
        *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
        *("InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
    ),
    "postFilter": ("DefaultPreemption", "DynamicResources"),
    "preScore": (
        *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread"),
        *("InterPodAffinity", "NodeResourcesBalancedAllocation"),
    ),
    "score": (
        *("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"),
        *("NodeResourcesBalancedAllocation", "ImageLocality", "VolumeBinding", "DynamicResources"),
    ),
    "reserve": ("VolumeBinding", "DynamicResources"),
    "preBind": ("VolumeBinding", "DynamicResources"),
    "preEnqueue": ("SchedulingGates", "DefaultPreemption", "DynamicResources"),
}
SCHEDULERS = ("default-scheduler", "second")


class Drawing:
    """Draws objects with one source of chance."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.one_of = self._random.choice
        self.times = self._random.randint

    def is_so(self, percent: int) -> bool:
        return self._random.random() * 100 < percent

    def some(self, values: Any, most: int) -> list[Any]:
        return self._random.sample(list(values), self.times(0, min(most, len(values))))

    # ---- selectors and labels

    def labels(self) -> dict[str, str]:
        return {key: self.one_of(["web", "db", "1", "5"]) for key in self.some(("app", "tier", "team"), 3)}

    def rule(self, keys: Any = ("app", "tier", "team"), values: Any = ("web", "db", "1", "5")) -> Json:
        operator = self.one_of(["In", "NotIn", "Exists", "DoesNotExist"])
        rule = {"key": self.one_of(keys), "operator": operator}
        return rule if operator[-2:] != "In" else rule | {"values": self.some(values, 2) or [values[0]]}

    def selector(self) -> Json | None:
        """Missing, empty, or with rules of which most exclude."""
        if self.is_so(15):
            return None
        rules = [self.rule() for _ in range(self.times(0, 2))]
        return ({"matchLabels": self.labels()} if self.is_so(30) else {}) | (
            {"matchExpressions": rules} if rules else {}
        )

    # ---- nodes

    def node(self, number: int) -> Json:
        labels = {HOST: self.one_of([f"n{number}", "same"]), ZONE: self.one_of("ab"), "rank": str(self.times(0, 4))}
        amounts = {"cpu": self.one_of(["2", "4", "8", "1500m"]), "memory": self.one_of(["4Gi", "16G", "32Gi", "50P"])}
        amounts |= {"pods": self.one_of(["110", "110", "110", "3", "1"])} | ({EXTENDED: "2"} if self.is_so(40) else {})
        taints = [
            {
                "key": key,
                "value": self.one_of(["", "x"]),
                "effect": self.one_of(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
            }
            for key in (self.some(("spot", "gpu"), 1) if self.is_so(40) else ())
        ]
        names = [*self.some(("i:1", "i@sha256:aa", "data:latest"), 2)]
        return {
            "kind": "Node",
            "metadata": {
                "name": f"n{number}",
                "labels": {key: value for key, value in labels.items() if self.is_so(85)},
            },
            "spec": {"unschedulable": self.is_so(4), "taints": taints},
            "status": {"allocatable": amounts, "images": [{"names": [name], "sizeBytes": 10**9} for name in names]},
        }

    # ---- pods

    def amounts(self) -> Json:
        found = {name: self.one_of(values) for name, values in (("cpu", CPU), ("memory", MEMORY)) if self.is_so(50)}
        if self.is_so(2):
            found["memory"] = "100P"
        return found | ({EXTENDED: "1"} if self.is_so(4) else {})

    def container(self, name: str) -> Json:
        image = self.one_of(["i:1", "i@sha256:aa", "other"])
        found: Json = {"name": name, "image": image, "resources": {"requests": self.amounts()}}
        if self.is_so(15):
            port = {"containerPort": 80, "hostPort": self.one_of([80, 81]), "protocol": self.one_of(["TCP", "UDP"])}
            found["ports"] = [port | ({"hostIP": self.one_of(["0.0.0.0", "10.0.0.1"])} if self.is_so(50) else {})]
        return found

    def resized(self, name: str) -> Json:
        """A status of a container in one of its forms: nothing, resources in force, allocated ones, or both."""
        status: Json = {"name": name}
        if self.is_so(60):
            status["resources"] = {"requests": self.amounts()} if self.is_so(80) else {}
        return status | ({"allocatedResources": self.amounts()} if self.is_so(50) else {})

    def status(self, spec: Json) -> Json:
        """The status of a running pod, with any form of a resize and any form of a start time."""
        status: Json = {"phase": "Running"}
        if self.is_so(60):
            status["startTime"] = f"2026-01-0{self.times(1, 3)}T00:00:00Z"
        for field, containers in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            if self.is_so(35):
                status[field] = [self.resized(each["name"]) for each in spec.get(containers, ()) if self.is_so(80)]
        if self.is_so(25):
            kind, reason = self.one_of(
                [("PodResizePending", "Infeasible"), ("PodResizePending", "Deferred"), ("Ready", "")]
            )
            status["conditions"] = [{"type": kind, "status": "True", "reason": reason}]
        if self.is_so(20):
            status |= {"resources": {"requests": self.amounts()}, "allocatedResources": self.amounts()}
        return status

    def spec(self) -> Json:
        spec: Json = {
            "schedulerName": self.one_of(SCHEDULERS),
            "priority": self.times(0, 3),
            "containers": [self.container(f"c{i}") for i in range(self.times(1, 2))],
        }
        if self.is_so(40):
            spec["initContainers"] = [
                self.container(f"i{i}") | ({"restartPolicy": "Always"} if self.is_so(50) else {})
                for i in range(self.times(1, 2))
            ]
        if self.is_so(15):
            spec["overhead"] = self.amounts()
        if self.is_so(15):
            spec["resources"] = {"requests": self.amounts()}
        if self.is_so(10):
            spec["preemptionPolicy"] = "Never"
        if self.is_so(15):
            spec["volumes"] = [{"name": "data", "image": {"reference": self.one_of(["data", "i@sha256:aa"])}}]
        if self.is_so(30):
            spec["tolerations"] = [self.toleration() for _ in range(self.times(1, 2))]
        if self.is_so(30):
            spec["topologySpreadConstraints"] = [self.constraint() for _ in range(self.times(1, 2))]
        if self.is_so(8):
            spec["nodeSelector"] = {ZONE: self.one_of("ab")}
        return spec | {"affinity": self.affinity()}

    def toleration(self) -> Json:
        found: Json = {"operator": self.one_of(["Exists", "Equal"]), "key": self.one_of(["spot", "gpu"])}
        found |= {"value": self.one_of(["", "x"])} if found["operator"] == "Equal" else {}
        found |= {"effect": self.one_of(["NoSchedule", "NoExecute"])} if self.is_so(50) else {}
        return {"operator": "Exists"} if self.is_so(15) else found

    def constraint(self) -> Json:
        found: Json = {
            "maxSkew": self.times(1, 2),
            "topologyKey": self.one_of([HOST, ZONE]),
            "whenUnsatisfiable": self.one_of(["DoNotSchedule", "ScheduleAnyway"]),
        }
        selector = self.selector()
        found |= {"labelSelector": selector} if selector is not None else {}
        if found["whenUnsatisfiable"] == "DoNotSchedule" and self.is_so(30):
            found["minDomains"] = self.times(1, 3)
        found |= {"nodeTaintsPolicy": self.one_of(["Honor", "Ignore"])} if self.is_so(30) else {}
        found |= {"nodeAffinityPolicy": self.one_of(["Honor", "Ignore"])} if self.is_so(30) else {}
        return found | ({"matchLabelKeys": ["app"]} if self.is_so(20) and selector is not None else {})

    def affinity(self) -> Json:
        found: Json = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.is_so(20):
                found[kind] = {REQUIRED: [self.term() for _ in range(self.times(1, 2))]}
            if self.is_so(15):
                weighted = {"weight": self.times(1, 100), "podAffinityTerm": self.term()}
                found.setdefault(kind, {})[PREFERRED] = [weighted]
        if self.is_so(15):
            found["nodeAffinity"] = {
                REQUIRED: {"nodeSelectorTerms": [self.node_term() for _ in range(self.times(1, 2))]}
            }
        return found

    def term(self) -> Json:
        term: Json = {"topologyKey": self.one_of([HOST, ZONE])}
        selector = self.selector()
        term |= {"labelSelector": selector} if selector is not None else {}
        if self.is_so(25):
            # No negative ones: after they are resolved upstream tries them on empty labels once more.
            term["namespaceSelector"] = self.one_of([{}, {"matchLabels": {"team": "a"}}])
        return term | ({"namespaces": ["other"]} if self.is_so(20) else {})

    def node_term(self) -> Json:
        rules = [self.rule((ZONE, "rank", HOST), ("a", "b", "1", "same")) for _ in range(self.times(0, 2))]
        if self.is_so(20):
            rules.append({"key": "rank", "operator": self.one_of(["Gt", "Lt"]), "values": ["2"]})
        named = [
            {
                "key": "metadata.name",
                "operator": self.one_of(["In", "In", "NotIn"]),
                "values": [self.one_of(["n0", "n1"])],
            }
            for _ in range(self.times(0, 2) if self.is_so(30) else 0)
        ]
        return {"matchExpressions": rules, "matchFields": named}

    def pod(self, name: str, node: str = "") -> Json:
        spec = self.spec()
        metadata: Json = {
            "name": name,
            "namespace": self.one_of(["default", "other"]),
            "uid": name,
            "labels": self.labels(),
        }
        if node and self.is_so(8):
            metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
        placed = {"nodeName": node, "priority": self.times(0, 2)} if node else {}
        return {"kind": "Pod", "metadata": metadata, "spec": spec | placed, "status": self.status(spec) if node else {}}

    def budget(self, number: int) -> Json:
        selector = self.selector()
        spec = {"selector": selector} if selector is not None else {}
        metadata = {"name": f"b{number}", "namespace": self.one_of(["default", "other"])}
        status = {"disruptionsAllowed": self.times(0, 2)}
        return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status}

    # ---- profiles

    def configuration(self, off: tuple[str, str] | None) -> Json:
        """Two profiles. The first has everything on but perhaps one plugin at one point; the second has some more off."""
        disabled: list[dict[str, list[str]]] = [{}, {}]
        if off is not None:
            disabled[0].setdefault(off[0], []).append(off[1])
        for _ in range(self.times(0, 2)):
            point = self.one_of(list(DISABLED_AT))
            disabled[1].setdefault(point, []).append(self.one_of(DISABLED_AT[point]))
        profiles = [
            {
                "schedulerName": name,
                "percentageOfNodesToScore": self.one_of([0, 10, 50, 100]),
                "plugins": {
                    point: {"disabled": [{"name": each} for each in dict.fromkeys(names)]}
                    for point, names in here.items()
                },
            }
            for name, here in zip(SCHEDULERS, disabled, strict=True)
        ]
        api = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return api | {"profiles": profiles}


def a_scenario(seed: int, nodes: int, running: int, pending: int, off: tuple[str, str] | None) -> Json:
    """All objects of a cluster, and the pods to attempt, in turn and once more."""
    draw = Drawing(seed)
    listed = [draw.node(number) for number in range(nodes)]
    placed = [draw.pod(f"r{number}", f"n{draw.times(0, nodes - 1)}") for number in range(running)]
    waiting = [draw.pod(f"p{number}") for number in range(pending)]
    spaces = [
        {"kind": "Namespace", "metadata": {"name": name, "labels": {"team": "a"}}}
        for name in draw.some(("default", "other"), 2)
    ]
    budgets = [draw.budget(number) for number in range(draw.times(0, 3))]
    keys = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in waiting]
    objects = [*spaces, *listed, *budgets, *placed, *waiting]
    return {"name": f"wide-{seed}", "config": draw.configuration(off), "objects": objects, "pods": keys * 2}


POINTS = [(point, plugin) for point, plugins in DISABLED_AT.items() for plugin in plugins]
SCENARIOS = st.builds(
    a_scenario,
    st.integers(0, 1 << 48),
    st.integers(1, 5),
    st.integers(0, 8),
    st.integers(1, 3),
    st.none() | st.none() | st.sampled_from(POINTS),
)
