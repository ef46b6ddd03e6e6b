"""The Helm chart, rendered by Helm itself: every combination of values gives right objects, and wrong values are refused."""

import itertools
import json
import subprocess
from typing import Any

import pytest
import yaml

from deploying import DEPLOY, Item, check_config, flags_of, grants, items_of, refusals_of, the
from how_many import IS_SOAK
from programs import HELM, needs
from running_cluster import a_process

CHART = DEPLOY / "helm" / "mooring"
PATIENCE_S = 60
pytestmark = [pytest.mark.slow, needs(HELM)]


def helm(*arguments: str, values: Any = None, environment: Any = None) -> "subprocess.CompletedProcess[str]":
    given = ["--values", "-"] if values is not None else []
    text = json.dumps(values) if values is not None else None
    return subprocess.run(
        [HELM.required(), *arguments, *given],
        input=text,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def rendered(values: Any = None) -> list[Item]:
    done = helm("template", "sched", str(CHART), "--namespace", "team", values=values or {})
    assert done.returncode == 0, done.stderr
    return items_of(done.stdout)


def pod_spec(items: list[Item]) -> Item:
    spec: Item = the(items, "Deployment")["spec"]["template"]["spec"]
    return spec


def test_the_chart_passes_the_linter() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


PARTS: dict[str, list[Any]] = {
    "plugins": [
        {},
        {"files": {"colour.py": "a: b\n# 'x'\n", "shape.py": "pass"}},
        {"volume": {"configMap": {"name": "mine"}}, "paths": ["dir/colour.py"]},
    ],
    "profile": [{}, {"percentageOfNodesToScore": 50, "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}],
    "observed": [
        {},
        {"service": {"enabled": False}},
        {
            "serviceMonitor": {"enabled": True, "labels": {"release": "p"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "p"}},
            "grafanaDashboard": {"enabled": True},
            "service": {"annotations": {"a": "b"}},
        },
    ],
    "placed": [
        {},
        {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "sched"}}}
                    ]
                }
            },
            "imagePullSecrets": [{"name": "registry"}],
            "podAnnotations": {"note": "1"},
            "podLabels": {"team": "a"},
            "podDisruptionBudget": {"enabled": False},
            "priorityClassName": "",
        },
    ],
    "run": [
        {},
        {
            "record": {
                "enabled": True,
                "volume": {"persistentVolumeClaim": {"claimName": "recordings"}},
                "maxSize": "5Gi",
            },
            "selfCheck": {"interval": "10m", "repair": True},
            "env": [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}],
        },
        {"featureGates": {"GenericWorkload": True, "A": False}, "extraArgs": ["--kube-api-qps=20"], "verbosity": 5},
    ],
}


def a_combination(chosen: tuple[Any, ...]) -> Item:
    parts: dict[str, Item] = dict(zip(PARTS, chosen, strict=True))
    values: Item = {"plugins": parts["plugins"], "profile": parts["profile"]}
    return values | parts["observed"] | parts["placed"] | parts["run"]


@pytest.mark.parametrize("plugins", range(3), ids=["no plugins", "plugin files", "a volume of plugins"])
def test_all_combinations_of_values_give_objects_that_an_api_server_takes(plugins: int) -> None:
    """Each combination of the other parts meets one kind of plugins; with `make soak` it meets all three."""
    combinations = itertools.product(PARTS["plugins"][plugins : plugins + 1], *list(PARTS.values())[1:])
    for chosen in (each for at, each in enumerate(combinations) if IS_SOAK or (at + at // 3 + plugins) % 3 == 0):
        values = a_combination(chosen)
        items = rendered(values)
        assert refusals_of(items) == [], values
        flags = flags_of(pod_spec(items)["containers"][0])
        assert flags["verbosity"] == values.get("verbosity", 2)
        check_config(the(items, "ConfigMap", "sched")["data"]["config.yaml"])


def test_without_values_there_are_two_instances_with_a_lease_of_their_own() -> None:
    items = rendered()
    kinds = sorted(item["kind"] for item in items)
    assert kinds == sorted(
        ["ServiceAccount", "ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Role"]
        + ["ClusterRole", "ClusterRoleBinding"]
        + ["RoleBinding"] * 2
    )
    assert grants(items, "sched") == {"team-sched", "extension-apiserver-authentication-reader", "sched-lease"}
    config = check_config(the(items, "ConfigMap")["data"]["config.yaml"])
    assert (config.leader_election.resource_namespace, config.leader_election.resource_name) == ("team", "sched")
    assert [profile.scheduler_name for profile in config.profiles] == ["mooring"]
    assert the(items, "Deployment")["spec"]["replicas"] == 2
    rules = the(items, "Role")["rules"]
    assert rules[1]["resourceNames"] == ["sched"]
    assert the(items, "Service")["spec"]["ports"] == [{"name": "https", "port": 10259, "targetPort": "https"}]


def test_plugin_files_are_mounted_and_loaded() -> None:
    source = "# 'quotes', {{ braces }}\nx = 1\n"
    items = rendered({"plugins": {"files": {"b.py": source, "a.py": "y = 2"}}})
    assert the(items, "ConfigMap", "sched-plugins")["data"] == {"a.py": "y = 2", "b.py": source}
    spec = pod_spec(items)
    container = spec["containers"][0]
    assert flags_of(container)["plugins"] == ("/etc/mooring-plugins/a.py", "/etc/mooring-plugins/b.py")
    assert {"name": "plugins", "configMap": {"name": "sched-plugins"}} in spec["volumes"]
    assert {"name": "plugins", "mountPath": "/etc/mooring-plugins", "readOnly": True} in container["volumeMounts"]


def test_gates_and_more_flags_reach_the_scheduler() -> None:
    values = {
        "featureGates": {"B": False, "A": True},
        "extraArgs": ["--kube-api-qps=20"],
        "image": {"repository": "r/m", "tag": "t"},
    }
    container = pod_spec(rendered(values))["containers"][0]
    flags = flags_of(container)
    assert (flags["feature_gates"], flags["kube_api_qps"]) == ("A=true,B=false", 20.0)
    assert container["image"] == "r/m:t"


def test_recordings_go_to_a_volume_that_the_user_of_the_pods_can_write() -> None:
    for volume, mounted in (({}, {"emptyDir": {}}), ({"hostPath": {"path": "/r"}}, {"hostPath": {"path": "/r"}})):
        spec = pod_spec(rendered({"record": {"enabled": True, "volume": volume, "maxAge": "24h", "interval": "5m"}}))
        container = spec["containers"][0]
        assert {"name": "recording", **mounted} in spec["volumes"]
        assert {"name": "recording", "mountPath": "/var/lib/mooring"} in container["volumeMounts"]
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsUser"]
        flags = flags_of(container)
        assert (str(flags["record"]), flags["record_max_size"]) == ("/var/lib/mooring", 1 << 30)
        assert (flags["record_max_age"].seconds, flags["record_interval"].seconds) == (86400, 300)
    assert "--record" not in str(pod_spec(rendered()))


def test_self_checks_and_the_environment_reach_the_scheduler() -> None:
    secret = {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": {"name": "otel", "key": "headers"}}}
    values = {"selfCheck": {"interval": "10m", "repair": True}, "env": [{"name": "A", "value": "b"}, secret]}
    container = pod_spec(rendered(values))["containers"][0]
    flags = flags_of(container)
    assert (flags["self_check"].seconds, flags["self_check_repair"]) == (600, True)
    assert container["env"] == values["env"]


def test_the_dashboard_comes_with_a_role_for_those_who_look_at_it() -> None:
    items = rendered({"dashboard": {"enabled": True}})
    assert flags_of(pod_spec(items)["containers"][0])["dashboard"]
    assert the(items, "ClusterRole", "team-sched-dashboard")["rules"] == [
        {"nonResourceURLs": ["/dashboard/api/*"], "verbs": ["get", "post"]}
    ]
    assert "--dashboard" not in pod_spec(rendered())["containers"][0]["args"]


def test_two_releases_of_one_name_share_nothing() -> None:
    def names(namespace: str) -> set[tuple[str, str, str]]:
        done = helm("template", "sched", str(CHART), "--namespace", namespace)
        about = [(item["kind"], item["metadata"]) for item in items_of(done.stdout)]
        return {(kind, metadata.get("namespace", ""), metadata["name"]) for kind, metadata in about}

    assert not names("one") & names("two")


def test_a_configuration_of_ones_own_is_used_as_it_is() -> None:
    own = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 3\n"
    written = the(rendered({"config": own}), "ConfigMap")["data"]["config.yaml"]
    assert yaml.safe_load(written) == yaml.safe_load(own)


def test_a_change_of_the_configuration_or_of_a_plugin_starts_the_pods_again() -> None:
    def checksum(values: Item) -> str:
        annotations = the(rendered(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    usual = checksum({})
    assert checksum({"replicas": 3}) == usual
    assert checksum({"profile": {"percentageOfNodesToScore": 5}}) != usual
    assert checksum({"plugins": {"files": {"a.py": "1"}}}) != checksum({"plugins": {"files": {"a.py": "2"}}})


def test_prometheus_asks_with_its_token_over_https() -> None:
    monitor = the(rendered({"serviceMonitor": {"enabled": True}}), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["path"], endpoint["port"]) == ("https", "/metrics", "https")
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"


WRONG = {
    "an unknown value": ({"replica": 2}, "replica"),
    "a negative number of replicas": ({"replicas": -1}, "replicas"),
    "replicas in letters": ({"replicas": "two"}, "replicas"),
    "no name": ({"schedulerName": ""}, "schedulerName"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "a secret without a name": ({"imagePullSecrets": ["registry"]}, "imagePullSecrets"),
    "a gate that is no boolean": ({"featureGates": {"A": "true"}}, "featureGates"),
    "an argument that is no flag": ({"extraArgs": ["kube-api-qps=2"]}, "extraArgs"),
    "a plugin that is no Python file": ({"plugins": {"files": {"a.txt": "x"}}}, "plugins"),
    "a plugin file outside of the volume": ({"plugins": {"volume": {"emptyDir": {}}, "paths": ["/etc/x.py"]}}, "plugins"),
    "a name in the profile": ({"profile": {"schedulerName": "x"}}, "profile"),
    "a port that is none": ({"service": {"port": 70000}}, "port"),
    "an interval that is none": ({"serviceMonitor": {"interval": "often"}}, "interval"),
    "a share above all": ({"podDisruptionBudget": {"maxUnavailable": "101%"}}, "maxUnavailable"),
    "a label that selects the pods": ({"podLabels": {"app": "x"}}, "podLabels"),
    "verbosity beyond the last": ({"verbosity": 11}, "verbosity"),
    "files and a volume": ({"plugins": {"files": {"a.py": "x"}, "volume": {"emptyDir": {}}, "paths": ["a.py"]}}, "exclude"),
    "a volume without names": ({"plugins": {"volume": {"emptyDir": {}}}}, "plugins.volume needs plugins.paths"),
    "names without a volume": ({"plugins": {"paths": ["a.py"]}}, "plugins.paths names files of plugins.volume"),
    "an unknown name below": ({"record": {"enable": True}}, "enable"),
    "a variable without a name": ({"env": [{"value": "x"}]}, "env"),
    "a number as a variable": ({"env": [{"name": "A", "value": 1}]}, "env"),
    "a check that is no time": ({"selfCheck": {"interval": "10 minutes"}}, "interval"),
    "a repair without checks": ({"selfCheck": {"repair": True}}, "selfCheck.repair needs selfCheck.interval"),
    "two volumes for one recording": ({"record": {"volume": {"emptyDir": {}, "hostPath": {"path": "/"}}}}, "volume"),
    "a size in words": ({"record": {"maxSize": "large"}}, "maxSize"),
    "a dashboard that is yes": ({"dashboard": {"enabled": "yes"}}, "dashboard"),
    "a request that is none": ({"resources": {"requests": {"cpu": "many"}}}, "resources"),
    "an unknown effect": ({"tolerations": [{"effect": "Never"}]}, "tolerations"),
    "an unknown affinity": ({"affinity": {"podAffinities": {}}}, "affinity"),
    "a monitor without a service": (
        {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}},
        "serviceMonitor.enabled needs service.enabled",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "told"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_refused_by_name(values: Item, told: str) -> None:
    done = helm("template", "sched", str(CHART), values=values)
    assert done.returncode != 0
    assert told in done.stderr


def test_helm_installs_the_chart_on_a_cluster_and_says_what_to_do_next() -> None:
    with a_process("--nodes", "1") as cluster:
        arguments = ["install", "sched", str(CHART), "--namespace", "team", "--create-namespace"]
        done = helm(*arguments, values={}, environment=cluster.environment)
        assert done.returncode == 0, done.stderr
        notes = done.stdout.partition("NOTES:")[2]
        assert "    schedulerName: mooring\n" in notes
        assert "kubectl --namespace team get lease sched\n" in notes
        assert "https://sched.team.svc:10259/metrics" in notes
        cluster.wait("/apis/apps/v1/namespaces/team/deployments/sched", lambda found: found["spec"]["replicas"] == 2)
        own = {"config": "kind: KubeSchedulerConfiguration\n", "service": {"enabled": False}}
        done = helm("upgrade", "sched", str(CHART), "--namespace", "team", values=own, environment=cluster.environment)
        assert done.returncode == 0, done.stderr
        notes = done.stdout.partition("NOTES:")[2]
        assert "Its lease has to be team/sched." in notes and "metrics" not in notes
        assert cluster.ask("GET", "/api/v1/namespaces/team/services/sched").code == 404


def test_alerts_and_the_dashboard_are_those_of_the_files() -> None:
    items = rendered({"prometheusRule": {"enabled": True}, "grafanaDashboard": {"enabled": True}})
    files = CHART / "files"
    assert the(items, "PrometheusRule")["spec"] == yaml.safe_load((files / "rules.yaml").read_text())
    boards = [item for item in items if item["metadata"]["name"] == "sched-grafana-dashboard"]
    assert boards[0]["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert boards[0]["data"] == {"mooring.json": (files / "dashboard.json").read_text()}
    assert not [item for item in rendered() if item["kind"] == "PrometheusRule"]
