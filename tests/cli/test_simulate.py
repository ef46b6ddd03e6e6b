"""`mooring simulate` as users see it: what it prints, its exit codes, and that bad input never ends in a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import as_manifest, enabling, mooring, write, write_config

from build import a_node, a_pod
from mooring.model.pod import Pod
from mooring.model.release import RULES

NODES = (a_node("east", cpu="4"), a_node("west", cpu="2"))

NO_ROOM = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
"""What PostFilter adds for a pod that no node of NODES could ever hold."""

TABLES = f"""\
1 of 2 pending pods placed, 2 nodes
Requested: cpu 16.7%, memory 6.3%.
What limits: Insufficient cpu (1 pod, up to 2 nodes).

Nodes (requested/allocatable)
NODE   PODS    NEW   CPU       MEMORY
east   1/110   1     1/4 25%   1Gi/8Gi 13%
west   0/110   0     0/2 0%    0/8Gi 0%

Pending
PODS   WHICH           RESULT          REASON
1      default/giant   unschedulable   0/2 nodes are available: 2 Insufficient cpu. {NO_ROOM}

Placed
NAMESPACE   POD   NODE
default     web   east
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two nodes, a pod that fits and one that does not."""
    return a_cluster_with(
        tmp_path, a_pod("web", cpu="1", memory="1Gi", image="web"), a_pod("giant", cpu="64", image="giant")
    )


def a_cluster_with(folder: Path, *pods: Pod) -> Path:
    return write(folder / "cluster.json", *NODES, *pods)


def a_plugin(folder: Path, *methods: str, base: str = "PlainPlugin") -> Path:
    """A file with a plugin named Mine; each method is one line of Python."""
    lines = (f"from mooring.plugin import {base}", f"class Mine({base}):", '    name = "Mine"')
    path = folder / "mine.py"
    path.write_text("\n".join((*lines, *(f"    {method}" for method in methods))))
    return path


def with_plugin(folder: Path, cluster: Path, *methods: str, **options: Any) -> Any:
    """The outcome of a simulation with a plugin that is enabled wherever it can be."""
    plugin = a_plugin(folder, *methods, base=options.pop("base", "PlainPlugin"))
    config = write_config(folder / "config.yaml", **(options or enabling("Mine")))
    return mooring("simulate", cluster, "--plugin", plugin, "--config", config)


# ---- What is shown


def test_the_tables_tell_where_pods_go_how_full_nodes_are_and_what_is_pending(cluster: Path) -> None:
    ran = mooring("simulate", cluster)
    assert (ran.code, ran.out, ran.err) == (0, TABLES, "")


def test_wide_adds_the_margin_of_each_decision(cluster: Path) -> None:
    lines = mooring("simulate", cluster, "-o", "wide").out.splitlines()
    begin = lines.index("Placed") + 1
    assert [line.split() for line in lines[begin : begin + 2]] == [
        ["NAMESPACE", "POD", "NODE", "PRIORITY", "SCHEDULER", "FEASIBLE", "SCORE", "NEXT", "BEST"],
        ["default", "web", "east", "0", "default-scheduler", "2", "452", "west", "(433)"],
    ]


def test_json_has_amounts_as_whole_numbers(cluster: Path) -> None:
    ran = mooring("simulate", cluster, "-o", "json")
    answer = json.loads(ran.out)
    best = [{"node": "east", "score": 452}, {"node": "west", "score": 433}]
    web = {"namespace": "default", "name": "web", "result": "scheduled", "node": "east"}
    giant = {"namespace": "default", "name": "giant", "result": "unschedulable"}
    message = f"0/2 nodes are available: 2 Insufficient cpu. {NO_ROOM}"
    assert answer["pods"] == [
        {**web, "attempts": 1, "feasibleNodes": 2, "best": best},
        {**giant, "attempts": 1, "message": message},
    ]
    assert answer["nodes"][0] == {
        "name": "east",
        "pods": 1,
        "newPods": 1,
        "allowedPods": 110,
        "requested": {"cpu": 1000, "memory": 1 << 30, "ephemeral-storage": 0},
        "allocatable": {"cpu": 4000, "memory": 8 << 30, "ephemeral-storage": 0},
    }
    assert (answer["preempted"], answer["notes"], answer["simulatedSeconds"]) == ([], [], 0.002)
    assert "explanation" not in answer and "story" not in answer


def test_long_tables_are_cut_short_unless_wide(tmp_path: Path) -> None:
    pods = [a_pod(f"p-{i:03}", image="i") for i in range(103)]
    cluster = write(tmp_path / "many.json", a_node("n", pods=200), *pods)
    short, wide = mooring("simulate", cluster).out, mooring("simulate", cluster, "-o", "wide").out
    assert "default     p-099   n\n... and 3 more: -o wide shows all\n" in short
    assert "p-102" in wide and "more" not in wide


def test_pods_with_the_same_reason_are_listed_together(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, *(a_pod(f"p-{i}", cpu="9", image="i") for i in range(7)))
    lines = mooring("simulate", cluster).out.splitlines()
    which = "default/p-0, default/p-1, default/p-2, default/p-3, default/p-4 and 2 more"
    message = f"0/2 nodes are available: 2 Insufficient cpu. {NO_ROOM}"
    assert f"7      {which}   unschedulable   {message}" in lines
    wide = mooring("simulate", cluster, "-o", "wide").out.splitlines()
    assert f"default     p-6   unschedulable   1          -              {message}" in wide


def test_pods_that_have_to_leave_are_listed(tmp_path: Path) -> None:
    old = a_pod("old", cpu="3", image="i", nodeName="east", priority=0)
    cluster = a_cluster_with(tmp_path, old, a_pod("urgent", cpu="3", image="i", priority=9))
    ran = mooring("simulate", cluster)
    assert (
        "Preempted\n"
        "NAMESPACE   POD   NODE   FOR\n"
        "default     old   east   default/urgent\n"
    ) in ran.out  # fmt: skip
    assert ran.out.startswith("1 of 1 pending pod placed, 1 preempted, 2 nodes\n")
    preempted = json.loads(mooring("simulate", cluster, "-o", "json").out)["preempted"]
    assert preempted == [{"namespace": "default", "name": "old", "node": "east", "for": "default/urgent"}]
    explained = mooring("simulate", cluster, "--explain", "urgent").out
    assert explained.startswith("default/urgent goes to east\n\nPreempted for it: default/old\n\n")


def test_a_pod_that_is_promised_a_node_is_listed_with_it(tmp_path: Path) -> None:
    leaving = a_pod("old", cpu="3", image="i", nodeName="east", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    cluster = a_cluster_with(tmp_path, leaving, a_pod("urgent", cpu="3", image="i", priority=9))
    ran = mooring("simulate", cluster)
    assert "default/urgent (nominated to east)   unschedulable   0/2 nodes are available: " in ran.out
    (urgent,) = json.loads(mooring("simulate", cluster, "-o", "json").out)["pods"]
    assert urgent["nominatedNode"] == "east"


def test_a_pod_that_waits_on_permit_is_listed_with_the_plugin(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("p", cpu="3", image="i"))
    plugin = a_plugin(
        tmp_path,
        "def permit(self, cycle, node_name): from mooring.plugin import Wait; return Wait(60)",
        base="PermitPlugin",
    )
    config = write_config(tmp_path / "c.yaml", **enabling("Mine"))
    options = ("--plugin", plugin, "--config", config, "--until", "10s")
    ran = mooring("simulate", cluster, *options)
    assert "1      default/p   waiting   has room on east and waits for Mine\n" in ran.out
    assert (
        ran.err
        == "note: stopped after 10s of simulated time and 1 attempt; these pods would be attempted again: default/p\n"
    )
    told = mooring("simulate", cluster, *options, "--explain", "p").out
    assert told.startswith("default/p goes to east, but: has room on east and waits for Mine\n")


def test_an_empty_cluster_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    ran = mooring("simulate", tmp_path / "empty.yaml", "--exit-code")
    assert (ran.code, ran.out) == (0, "no pending pods, 0 nodes\n")


def test_kinds_that_decide_nothing_are_counted_and_named_once(tmp_path: Path) -> None:
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{i}"}} for i in range(3)]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    ran = mooring("simulate", write(tmp_path / "all.json", a_node("n"), *maps, secret))
    assert ran.err == "note: ignored, because decisions do not read these kinds: 3 ConfigMap, 1 Secret\n"
    assert ran.code == 0


# ---- Exit codes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param([], 0, id="0 when the simulation ran, pending pods or not"),
        pytest.param(["--exit-code"], 1, id="1 with --exit-code when a pod is still pending"),
        pytest.param(["--story", "nobody"], 2, id="2 for a story of a pod that is not there"),
        pytest.param(["--until", "soon"], 2, id="2 for a time that is none"),
        pytest.param(["--explain", "nobody"], 2, id="2 for a pod that is not there"),
        pytest.param(["--config", "/nowhere"], 2, id="2 for a configuration that cannot be read"),
        pytest.param(["/nowhere"], 2, id="2 for a file that cannot be read"),
        pytest.param(["-o", "xml"], 2, id="2 for an unknown form"),
    ],
)
def test_exit_code(cluster: Path, arguments: list[str], code: int) -> None:
    assert mooring("simulate", cluster, *arguments).code == code


def test_exit_code_is_0_when_all_pods_are_placed(tmp_path: Path) -> None:
    assert mooring("simulate", a_cluster_with(tmp_path, a_pod("p", image="i")), "--exit-code").code == 0


# ---- Where input comes from


def test_manifests_come_from_standard_input(cluster: Path) -> None:
    assert mooring("simulate", "-", stdin=cluster.read_bytes()).out == TABLES


def test_manifests_come_from_all_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "nodes.json", *NODES)
    write(tmp_path / "below" / "pods.yaml", a_pod("p", image="i"))
    (tmp_path / "README.txt").write_text("not a manifest")
    assert mooring("simulate", tmp_path).out.startswith("1 of 1 pending pod placed, 2 nodes\n")


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    ran = mooring("simulate", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    told = "the folder has no manifest; manifests are *.yaml, *.yml, *.json, and those with .gz at the end"
    assert ran.err == f"{tmp_path}: {told}\n"


def test_a_dump_of_kubectl_with_a_file_of_more_pods(tmp_path: Path) -> None:
    """As `kubectl get nodes,pods -A -o json` writes it: server fields, and pods that run already."""
    server = {"resourceVersion": "9", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": []}
    running = a_pod("running", image="i", cpu="3", nodeName="east", status={"phase": "Running"})
    dumped = [as_manifest(item) for item in (*NODES, running)]
    for i, item in enumerate(dumped):
        item["metadata"] |= server | {"uid": f"u-{i}"}
    dump = write(tmp_path / "dump.json", *dumped)
    more = write(tmp_path / "more.yaml", a_pod("new", image="i", cpu="2"))
    ran = mooring("simulate", dump, more)
    assert ran.out.splitlines()[-3:] == ["Placed", "NAMESPACE   POD   NODE", "default     new   west"]


# ---- Input that cannot be used


def test_each_problem_is_one_line_with_file_line_object_path_value_and_rule(tmp_path: Path) -> None:
    pods = tmp_path / "pods.yaml"
    pods.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: {name: c}}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {pods: -5}}\n"
    )
    ran = mooring("simulate", pods)
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints == [
        f"{pods}:4: Pod default/a: spec.containers: Invalid value: an object: must be a list",
        f"{pods}:9: Node n: status.allocatable.pods: Invalid value: -5: "
        "must be a quantity of zero or more, e.g. 500m, 2 or 1.5Gi",
    ]


def a_misspelt_pod(folder: Path) -> Path:
    pod = as_manifest(a_pod("web", cpu="1", image="web"))
    pod["spec"]["nodeSelectr"] = {"disk": "ssd"}
    return write(folder / "misspelt.json", *NODES, pod)


def test_an_amount_that_hardly_anybody_means_is_a_warning_with_its_line(tmp_path: Path) -> None:
    path = a_cluster_with(tmp_path, a_pod("web", memory="512m", image="web"))
    ran = mooring("simulate", path)
    where = f"{path}:1: Pod default/web: spec.containers[0].resources.requests[memory]"
    assert ran.code == 0
    assert ran.err == f'warning: {where}: fractional byte value "512m" is invalid, must be an integer\n'


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    path = a_misspelt_pod(tmp_path)
    ran = mooring("simulate", path)
    complaint = f"{path}:1: Pod default/web: spec.nodeSelectr: unknown field; did you mean nodeSelector?\n"
    assert (ran.code, ran.out, ran.err) == (2, "", complaint)
    ran = mooring("simulate", path, "--validate=warn")
    assert (ran.code, ran.err) == (0, f"warning: {complaint}")
    assert "1 of 1 pending pod placed" in ran.out
    ran = mooring("simulate", path, "--validate", "ignore")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x00\x01\xfe\xff" * 50, id="a binary file"),
        pytest.param(b"{" * 5000, id="a torn dump"),
        pytest.param(b"[" * 100_000, id="brackets without end"),
        pytest.param(b"- - - - - -\n" * 10, id="a list"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"kind: Pod", id="an object without version"),
        pytest.param(b"kind: [Pod]\napiVersion: 7", id="a kind that is a list"),
        pytest.param(b"a: &a [*a]", id="an alias inside its own anchor"),
    ],
)
def test_text_that_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.yaml").write_bytes(content)
    ran = mooring("simulate", tmp_path / "odd.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints and all(line.startswith(f"{tmp_path / 'odd.yaml'}:") for line in ran.complaints)


def test_amounts_that_no_column_holds_count_as_the_largest(tmp_path: Path) -> None:
    node = a_node("n", cpu="9223372036854775807")
    ran = mooring("simulate", write(tmp_path / "huge.json", node, a_pod("p", cpu="1000", image="i")))
    assert (ran.code, ran.err) == (0, "")
    assert "1 of 1 pending pod placed" in ran.out


def test_a_copied_pod_that_kept_its_uid_is_refused(tmp_path: Path) -> None:
    pods = (a_pod(name, image="i", metadata={"uid": "u"}) for name in ("a", "b"))
    ran = mooring("simulate", a_cluster_with(tmp_path, *pods))
    assert ran.code == 2
    assert len(ran.complaints) == 1 and "Pod default/b: metadata.uid" in ran.err


# ---- Configuration


def test_another_configuration_decides_otherwise(tmp_path: Path, cluster: Path) -> None:
    packed = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    args = {"name": "NodeResourcesFit", "args": {"scoringStrategy": packed}}
    config = write_config(tmp_path / "packed.yaml", profiles=[{"pluginConfig": [args]}])
    assert "default     web   west" in mooring("simulate", cluster, "--config", config).out


def test_the_configuration_of_a_snapshot_is_used_and_said(tmp_path: Path, cluster: Path) -> None:
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}},
    }
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings = {"apiVersion": "mooring.dev/v1", "kind": "SchedulerSettings", "rules": RULES}
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps({**settings, "configuration": {**header, "profiles": [profile]}}))
    ran = mooring("simulate", cluster, snapshot)
    assert "2 of 2 pending pods placed" in ran.out
    assert ran.complaints == [
        f"note: the scheduler configuration and feature gates are those of {snapshot}; --config replaces them"
    ]
    ran = mooring("simulate", cluster, snapshot, "--config", write_config(tmp_path / "config.yaml"))
    assert "1 of 2 pending pods placed" in ran.out
    assert ran.complaints == [f"note: --config replaces the scheduler configuration that {snapshot} has"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "Object 'Kind' is missing in ''", id="an empty file"),
        pytest.param(b"null\n", "Object 'Kind' is missing in 'null '", id="null"),
        pytest.param(b"\xff\xfe\x00", "yaml: invalid leading UTF-8 octet", id="a binary file"),
        pytest.param(
            b"apiVersion: v1\nkind: Pod\n",
            'no kind "Pod" is registered for version "v1" in scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"',
            id="another kind",
        ),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(
    tmp_path: Path, cluster: Path, content: bytes, complaint: str
) -> None:
    (tmp_path / "config.yaml").write_bytes(content)
    ran = mooring("simulate", cluster, "--config", tmp_path / "config.yaml")
    assert (ran.code, ran.out, ran.err) == (2, "", f"{tmp_path / 'config.yaml'}: {complaint}\n")


def test_every_problem_of_a_configuration_has_a_line(tmp_path: Path, cluster: Path) -> None:
    config = write_config(tmp_path / "c.yaml", parallelism=-1, percentageOfNodesToScore=101)
    ran = mooring("simulate", cluster, "--config", config)
    assert ran.code == 2
    assert ran.complaints == [
        f"{config}: parallelism: Invalid value: -1: should be an integer value greater than zero",
        f"{config}: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]


def test_a_plugin_that_nobody_registered_is_refused(tmp_path: Path, cluster: Path) -> None:
    ran = mooring("simulate", cluster, "--config", write_config(tmp_path / "c.yaml", **enabling("Nobody")))
    assert ran.code == 2
    assert ran.err == (
        f"{tmp_path / 'c.yaml'}: initializing profiles: creating profile for scheduler name default-scheduler: "
        'PreFilterPlugin "Nobody" does not exist\n'
    )


def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path, cluster: Path) -> None:
    ran = mooring("simulate", cluster, "--config", tmp_path)
    assert (ran.code, ran.err) == (2, f"{tmp_path}: cannot be read: Is a directory\n")


# ---- Plugins


def test_a_plugin_of_the_users_own_takes_part(tmp_path: Path, cluster: Path) -> None:
    ran = with_plugin(
        tmp_path, cluster, "def filter(self, pod, node): return 'too far' if node.name == 'east' else None"
    )
    assert "default     web   west" in ran.out
    assert "unschedulable   0/2 nodes are available: 2 Insufficient cpu." in ran.out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("def (", "cannot be loaded: SyntaxError: invalid syntax (mine.py, line 1)", id="no Python"),
        pytest.param(
            "1 / 0", "cannot be loaded: ZeroDivisionError: division by zero (mine.py, line 1)", id="code that raises"
        ),
        pytest.param(
            "x = 1", "defines no plugin: a class with a `name` that extends an extension point", id="no plugin"
        ),
    ],
)
def test_a_file_without_a_usable_plugin_is_refused(
    tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch, content: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(content)
    ran = mooring("simulate", cluster, "--plugin", "mine.py")
    assert (ran.code, ran.out, ran.err) == (2, "", f"mine.py: {complaint}\n")


def test_a_plugin_file_that_ends_the_program_is_refused(tmp_path: Path, cluster: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(0)")
    ran = mooring("simulate", cluster, "--plugin", tmp_path / "mine.py")
    assert (ran.code, ran.err) == (2, f"{tmp_path / 'mine.py'}, line 2: SystemExit: 0\n")


def test_two_plugins_of_one_name_are_refused(tmp_path: Path, cluster: Path) -> None:
    plugin = a_plugin(tmp_path, "def score(self, pod, node): return 0")
    ran = mooring("simulate", cluster, "--plugin", plugin, "--plugin", plugin)
    assert (ran.code, ran.err) == (2, f"{plugin}: Mine: a plugin named Mine already exists\n")


def test_arguments_that_a_plugin_refuses_are_told(tmp_path: Path, cluster: Path) -> None:
    ran = with_plugin(
        tmp_path,
        cluster,
        "def __init__(self, args, handle): raise ValueError(f'weight: found {args[\"weight\"]}')",
        "def score(self, pod, node): return 0",
        **enabling("Mine", {"weight": -1}),
    )
    assert ran.code == 2
    assert ran.err.endswith('default-scheduler: initializing plugin "Mine": weight: found -1\n')


def test_a_constructor_that_raises_is_told(tmp_path: Path, cluster: Path) -> None:
    methods = ("def __init__(self, args, handle): self.size = args['size']", "def score(self, pod, node): return 0")
    ran = with_plugin(tmp_path, cluster, *methods)
    assert ran.code == 2
    assert len(ran.complaints) == 1 and "TypeError: 'NoneType' object is not subscriptable (" in ran.err


@pytest.mark.parametrize(
    ("method", "error"),
    [
        pytest.param(
            "filter(self, pod, node): return 1 / 0",
            'running "Mine" filter plugin: ZeroDivisionError: division by zero (PLUGIN, line 4)',
            id="filter",
        ),
        pytest.param(
            "filter(self, pod, node): return True",
            'running "Mine" filter plugin: filter must return a reason or nothing, not True',
            id="filter with a wrong answer",
        ),
        pytest.param(
            "score(self, pod, node): return 1 / 0",
            'running Score plugins: plugin "Mine" failed with: ZeroDivisionError: division by zero (PLUGIN, line 4)',
            id="score",
        ),
        pytest.param(
            "score(self, pod, node): return 101",
            'applying score defaultWeights on Score plugins: plugin "Mine" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
            id="score out of range",
        ),
    ],
)
def test_a_plugin_that_fails_ends_the_attempt_with_its_name(
    tmp_path: Path, cluster: Path, method: str, error: str
) -> None:
    ran = with_plugin(tmp_path, cluster, f"def {method}")
    assert ran.code == 0
    told = " ".join(f"default/web error {error}\n".replace("PLUGIN", str(tmp_path / "mine.py")).split())
    assert told in [" ".join(line.split()[1:]) for line in ran.out.splitlines()]


REJECTS = "def filter(self, pod, node): return 'not today'"


def test_a_plugin_that_the_configuration_does_not_mention_is_enabled_in_all_profiles(
    tmp_path: Path, cluster: Path
) -> None:
    plugin = a_plugin(tmp_path, REJECTS)
    note = "note: plugin Mine is enabled in all profiles, because the configuration does not mention it"
    ran = mooring("simulate", cluster, "--plugin", plugin)
    assert "2 not today" in ran.out
    assert ran.complaints == [note]
    config = write_config(
        tmp_path / "two.yaml", profiles=[{"schedulerName": "a"}, {"schedulerName": "default-scheduler"}]
    )
    assert "2 not today" in mooring("simulate", cluster, "--plugin", plugin, "--config", config).out


def test_a_plugin_that_the_configuration_disables_stays_idle_and_is_noted(tmp_path: Path, cluster: Path) -> None:
    plugin = a_plugin(tmp_path, REJECTS)
    sets = {"multiPoint": {"disabled": [{"name": "Mine"}]}}
    config = write_config(tmp_path / "config.yaml", profiles=[{"plugins": sets}])
    ran = mooring("simulate", cluster, "--plugin", plugin, "--config", config)
    assert "not today" not in ran.out
    assert ran.complaints == ["note: plugin Mine is loaded, but no profile enables it"]


def test_an_order_of_the_queue_is_not_enabled_beside_the_one_there_is(tmp_path: Path, cluster: Path) -> None:
    plugin = a_plugin(tmp_path, "def sort_key(self, pod, queued_at): return 0", base="QueueSortPlugin")
    ran = mooring("simulate", cluster, "--plugin", plugin)
    assert (ran.code, ran.complaints) == (0, ["note: plugin Mine is loaded, but no profile enables it"])


def test_what_a_plugin_prints_does_not_get_into_the_report(tmp_path: Path, cluster: Path) -> None:
    plugin = a_plugin(tmp_path, "def score(self, pod, node): print('scoring', node.name); return 1")
    plugin.write_text("print('loading')\n" + plugin.read_text())
    ran = mooring("simulate", cluster, "--plugin", plugin, "-o", "json")
    assert {pod["name"] for pod in json.loads(ran.out)["pods"]} == {"web", "giant"}
    assert {"loading", "scoring east"} <= set(ran.complaints)


def test_debug_shows_the_traceback_of_a_plugin_once(tmp_path: Path, cluster: Path) -> None:
    plugin = a_plugin(tmp_path, "def filter(self, pod, node): return 1 / 0")
    assert "Traceback" not in mooring("simulate", cluster, "--plugin", plugin).err
    ran = mooring("simulate", cluster, "--plugin", plugin, "--debug")
    assert ran.err.count("Traceback (most recent call last)") == 1
    assert f'File "{plugin}", line 4, in filter' in ran.err


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param("1 / 0", "ZeroDivisionError: division by zero (PLUGIN, line 4)", id="raises"),
        pytest.param("'no'", "AttributeError: 'str' object has no attribute 'message'", id="answers with text"),
    ],
)
def test_a_gate_that_fails_holds_pods_back_and_is_noted(tmp_path: Path, cluster: Path, answer: str, error: str) -> None:
    method = f"def pre_enqueue(self, pod): return {answer}"
    ran = with_plugin(tmp_path, cluster, method, base="PreEnqueuePlugin", **enabling("Mine", point="preEnqueue"))
    assert ran.code == 0
    error = error.replace("PLUGIN", str(tmp_path / "mine.py"))
    assert f"2      default/web, default/giant   gated    {error}\n" in ran.out
    assert ran.complaints == [
        f"note: PreEnqueue of plugin Mine failed on pod default/{name}: {error}" for name in ("web", "giant")
    ]


def test_a_queue_order_that_raises_is_told_and_loses_no_pod(tmp_path: Path, cluster: Path) -> None:
    sets = {"queueSort": {"enabled": [{"name": "Mine"}], "disabled": [{"name": "*"}]}}
    method = "def sort_key(self, pod, queued_at): return 1 / 0"
    ran = with_plugin(tmp_path, cluster, method, base="QueueSortPlugin", profiles=[{"plugins": sets}])
    assert ran.code == 0
    assert "Placed" in ran.out
    assert set(ran.complaints) == {
        f"note: QueueSort of plugin Mine failed on pod default/{name}: "
        f"ZeroDivisionError: division by zero ({tmp_path / 'mine.py'}, line 4)"
        for name in ("web", "giant")
    }


def test_an_answer_that_is_no_column_is_told(tmp_path: Path, cluster: Path) -> None:
    ran = with_plugin(tmp_path, cluster, "def score(self, cycle, rows): return ['much', 'less']", base="ScorePlugin")
    assert "Traceback" not in ran.out + ran.err
    assert (ran.code, len(ran.complaints)) == (2, 1) or "   error   " in ran.out


@pytest.mark.parametrize("form", ["table", "json"])
def test_text_that_cannot_be_encoded_is_escaped(tmp_path: Path, cluster: Path, form: str) -> None:
    plugin = a_plugin(tmp_path, "def filter(self, pod, node): return '\\ud800'")
    config = write_config(tmp_path / "c.yaml", **enabling("Mine"))
    ran = mooring("simulate", cluster, "--plugin", plugin, "--config", config, "-o", form)
    assert ran.code == 0
    assert r"2 \ud800. preemption:" in ran.out


# ---- Explanations


def test_explain_a_pod_that_is_placed_shows_the_scores_of_every_node(cluster: Path) -> None:
    lines = mooring("simulate", cluster, "--explain", "default/web").out.splitlines()
    assert lines[:3] == ["default/web goes to east", "", "Scores (after weights)"]
    assert [line.split()[:3] for line in lines[3:6]] == [
        ["NODE", "TOTAL", "TaintToleration*3"],
        ["east", "452", "300"],
        ["west", "433", "300"],
    ]
    assert lines[-1] == "1 of 2 pending pods placed, 2 nodes"


def test_explain_a_pod_that_is_pending_shows_the_verdict_of_every_node(cluster: Path) -> None:
    ran = mooring("simulate", cluster, "--explain", "giant")
    assert ran.out == (
        "default/giant fits no node: 0/2 nodes are available: 2 Insufficient cpu.\n\n"
        "Why not\n"
        "NODES   PLUGIN             REASON             DETAILS\n"
        "2       NodeResourcesFit   Insufficient cpu   cpu: wants 64, but no node is large enough (largest 4)\n\n"
        "What would place it\n"
        "COST   CHANGE                                                 THEN IT GOES TO\n"
        "77     lower the cpu request of container main from 64 to 3   east\n\n"
        f"{NO_ROOM}\n\n"
        "Rejected\n"
        "NODE   PLUGIN             VERDICT                        REASON\n"
        "east   NodeResourcesFit   UnschedulableAndUnresolvable   Insufficient cpu\n"
        "west   NodeResourcesFit   UnschedulableAndUnresolvable   Insufficient cpu\n\n"
        "1 of 2 pending pods placed, 2 nodes\n"
    )


def test_explain_a_pod_with_one_choice(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("p", cpu="3", image="i"))
    out = mooring("simulate", cluster, "--explain", "p").out
    assert out.startswith(
        "default/p goes to east\n\nThe only feasible node: east. The scheduler took it without scoring.\n"
    )


def test_explain_a_member_of_a_pending_group_tells_of_the_group(tmp_path: Path) -> None:
    pods = [a_pod(f"p{i}", cpu="3", image="i", schedulingGroup={"podGroupName": "gang"}) for i in range(3)]
    gates = ("--feature-gates", "GenericWorkload=true")
    group: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
    }
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    cluster = write(tmp_path / "cluster.json", *NODES, group, *pods)
    out = mooring("simulate", cluster, "--explain", "p0", *gates).out
    assert "default/p0 is scheduled with its group default/gang\ndefault/gang (gang of at least 3) is pending: " in out
    assert "\nWhat would place the group\n" in out


def test_explain_a_pod_that_runs_tells_what_would_be_decided_without_it(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("old", cpu="1", image="i", nodeName="west"))
    ran = mooring("simulate", cluster, "--explain", "old")
    assert ran.out.startswith(
        "default/old goes to east (it is on west now; this is the decision if it were not placed)\n"
    )


def test_explain_a_pod_that_is_gated(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("p", image="i", schedulingGates=[{"name": "example.com/wait"}]))
    ran = mooring("simulate", cluster, "--explain", "p")
    assert ran.out.splitlines()[0] == (
        "default/p was not placed (gated): waiting for scheduling gates: [example.com/wait]"
    )


def test_explain_a_pod_of_another_scheduler(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("p", image="i", schedulerName="mine"))
    ran = mooring("simulate", cluster, "--explain", "p")
    assert ran.out.splitlines()[0] == 'default/p was not placed (ignored): no profile has the scheduler name "mine"'


def test_explain_narrowed_out_nodes(tmp_path: Path) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["east"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    cluster = a_cluster_with(tmp_path, a_pod("p", cpu="9", image="i", affinity=affinity))
    out = mooring("simulate", cluster, "--explain", "p").out
    assert "All other nodes: node(s) didn't satisfy plugin(s) [NodeAffinity]" in out


def test_explain_in_json(cluster: Path) -> None:
    explanation = json.loads(mooring("simulate", cluster, "--explain", "giant", "-o", "json").out)["explanation"]
    answer = explanation.pop("answer")
    assert (answer["kind"], answer["reasons"][0]["nodes"], len(answer["cures"])) == ("Explanation", 2, 1)
    rejected = {"plugin": "NodeResourcesFit", "code": "UnschedulableAndUnresolvable", "reasons": ["Insufficient cpu"]}
    assert explanation == {
        "pod": "default/giant",
        "result": "unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "preemption": NO_ROOM,
        "feasible": [],
        "rejected": {"east": rejected, "west": rejected},
        "scores": {},
        "totals": {},
    }


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        pytest.param(
            "thrid",
            "no pod 'thrid' in the input, which has 3 pods; did you mean default/third?",
            id="a slip of the pen",
        ),
        pytest.param("nobody", "no pod 'nobody' in the input, which has 3 pods", id="unknown"),
        pytest.param("", "no pod '' in the input, which has 3 pods", id="empty"),
        pytest.param("web", "'web' could be any of default/web, other/web: add its namespace", id="ambiguous"),
        pytest.param("done", "pod 'done' has finished: there is nothing to decide about it", id="finished"),
    ],
)
def test_a_pod_that_cannot_be_explained_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    web = (a_pod("web", image="i"), a_pod("web", namespace="other", image="i"))
    done = a_pod("done", image="i", nodeName="east", status={"phase": "Succeeded"})
    cluster = a_cluster_with(tmp_path, *web, a_pod("third", image="i"), done)
    ran = mooring("simulate", cluster, "--explain", name)
    assert (ran.code, ran.out, ran.err) == (2, "", f"{complaint}\n")


def test_explain_on_an_empty_cluster_is_refused() -> None:
    ran = mooring("simulate", "-", "--explain", "p", stdin=b'{"apiVersion": "v1", "kind": "List", "items": []}')
    assert (ran.code, ran.err) == (2, "no pod 'p' in the input, which has 0 pods\n")


def test_several_pods_are_explained_in_one_run(cluster: Path) -> None:
    out = mooring("simulate", cluster, "--explain", "giant", "--explain", "default/web", "--explain", "web").out
    heads = [line for line in out.splitlines() if line.startswith("default/")]
    assert [head.split()[0] for head in heads] == ["default/giant", "default/web"]
    assert "goes to east" in heads[1]
    answer = json.loads(mooring("simulate", cluster, "--explain", "giant", "--explain", "web", "-o", "json").out)
    assert [each["pod"] for each in answer["explanations"]] == ["default/giant", "default/web"]
    assert answer["explanation"] == answer["explanations"][0]


def test_long_explanations_are_cut_short_unless_wide(tmp_path: Path) -> None:
    cluster = write(tmp_path / "c.json", *(a_node(f"n-{i:03}") for i in range(102)), a_pod("p", cpu="9", image="i"))
    arguments = ("simulate", cluster, "--explain", "p")
    assert "... and 2 more: -o wide shows all" in mooring(*arguments).out
    assert "n-101" in mooring(*arguments, "-o", "wide").out


# ---- Stories


def test_a_story_has_times_attempts_and_cycles(cluster: Path) -> None:
    ran = mooring("simulate", cluster, "--story", "giant")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "The story of default/giant\n"
        "00:00:00.000 added to the active queue\n"
        "00:00:00.002 attempt 1 (cycle 2): taken from the queue\n"
        "00:00:00.002 attempt 1 (cycle 2): is not scheduled: 0/2 nodes are available: 2 Insufficient cpu. "
        f"{NO_ROOM}\n"
        "00:00:00.002 attempt 1 (cycle 2): unschedulable, rejected by NodeResourcesFit\n\n"
        "1 of 2 pending pods placed, 2 nodes\n"
    )


def test_a_story_in_json(cluster: Path) -> None:
    story = json.loads(mooring("simulate", cluster, "--story", "web", "-o", "json").out)["story"]
    assert story == [
        {"at": 0.0, "text": "added to the active queue"},
        {"at": 0.001, "text": "taken from the queue", "attempt": 1, "cycle": 1},
        {"at": 0.001, "text": "goes to east, the best of 2 feasible nodes (score 452)", "attempt": 1, "cycle": 1},
        {"at": 0.001, "text": "is bound to east", "attempt": 1, "cycle": 1},
    ]


def test_a_story_and_an_explanation_go_together(cluster: Path) -> None:
    out = mooring("simulate", cluster, "--explain", "web", "--story", "giant").out
    assert out.startswith("default/web goes to east\n\nScores")
    assert "\n\nThe story of default/giant\n" in out
    assert "Nodes, with what is requested" not in out


def test_the_story_of_a_pod_that_runs_may_be_short(tmp_path: Path) -> None:
    old = a_pod("old", cpu="1", image="i", nodeName="west")
    out = mooring("simulate", a_cluster_with(tmp_path, old), "--story", "old").out
    assert out == "The story of default/old\nnothing happened to it\n\nno pending pods, 2 nodes\n"


def test_long_stories_are_cut_short_unless_wide(tmp_path: Path) -> None:
    cluster = a_cluster_with(tmp_path, a_pod("p", cpu="3", image="i"))
    plugin = a_plugin(tmp_path, "def pre_bind(self, cycle, node_name): 1 / 0", base="PreBindPlugin")
    config = write_config(tmp_path / "c.yaml", **enabling("Mine"))
    options = ("simulate", cluster, "--plugin", plugin, "--config", config, "--story", "p")
    lines = mooring(*options).out.splitlines()
    assert len(lines) == 1 + 50 + 1 + 50 + 2
    assert lines[1].startswith("... ") and lines[1].endswith(" earlier moments are left out")
    assert lines[51] == "... 401 more: -o wide shows all"
    assert len(mooring(*options, "-o", "wide").out.splitlines()) == 1 + 1 + 500 + 2


# ---- Help


@pytest.mark.parametrize("command", [(), ("simulate",), ("conform",), ("bench",)], ids=" ".join)
def test_help_has_examples(command: tuple[str, ...]) -> None:
    ran = mooring(*command, "--help")
    assert ran.code == 0
    assert "\n  Examples:\n" in ran.out and " mooring " in ran.out.partition("Examples:")[2]
    assert all(len(line) <= 120 for line in ran.out.splitlines())


def test_yaml_is_the_same_as_json(cluster: Path) -> None:
    as_json, as_yaml = (mooring("simulate", cluster, "-o", form).out for form in ("json", "yaml"))
    answer = json.loads(as_json)
    assert yaml.safe_load(as_yaml) == answer
    assert (answer["apiVersion"], answer["kind"]) == ("answers.mooring.dev/v1", "Simulation")


def test_files_can_be_named_with_from_as_well(cluster: Path, tmp_path: Path) -> None:
    more = write(tmp_path / "more.json", a_pod("late", cpu="1", image="i"))
    assert mooring("simulate", "--from", cluster).out == TABLES
    assert mooring("simulate", more, "--from", cluster).out.startswith("2 of 3 pending pods placed, 2 nodes\n")
