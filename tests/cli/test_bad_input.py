"""Every command that asks about a cluster takes the same sources, and refuses bad input in the same way.

The commands are found by their options. A new one needs an entry in ARGUMENTS: what it needs beside a cluster.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import click
import pytest
from command import as_manifest, mooring, write

from build import a_node, a_pod
from mooring.cli.main import main

POD = "POD.json"
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "capacity": (POD,),
    "compare": ("default", "CONFIG.yaml"),
    "dump": ("-o", "-"),
    "explain": ("web",),
    "plan": ("--offer", "OFFER.yaml"),
    "simulate": (),
    "what-if": ("--cordon", "n"),
}
"""By command; names of files stand for files that the tests write."""
OFFER = {"offers": [{"name": "large", "price": 1, "node": as_manifest(a_node("offer"))}]}
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def _options(name: str) -> set[str | None]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return {option.name for option in command.params}


COMMANDS = [
    name
    for name in main.list_commands(click.Context(main))
    if {"sources", "validate"} <= _options(name) and name != "mcp"  # it serves on standard input: test_mcp.py
]

every_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / POD).write_text(json.dumps(as_manifest(a_pod("web", cpu="1"))))
    (tmp_path / "OFFER.yaml").write_text(json.dumps(OFFER))
    (tmp_path / "CONFIG.yaml").write_text(json.dumps(CONFIG))
    write(tmp_path / "cluster.json", a_node("n"), a_pod("web", cpu="1"))
    return tmp_path


def ask(command: str, folder: Path, *arguments: str | Path, stdin: bytes = b"") -> Any:
    own = [folder / each if (folder / each).exists() else each for each in ARGUMENTS[command]]
    return mooring(command, *own, *arguments, stdin=stdin)


def test_every_command_that_asks_about_a_cluster_is_tested() -> None:
    assert {"dump", "explain"} <= {*COMMANDS} <= ARGUMENTS.keys()
    assert all({"sources", "kubeconfig", "context", "feature_gates", "validate"} <= _options(name) for name in COMMANDS)


BAD = """\
apiVersion: v1
kind: Node
metadata: {name: n}
spec:
  taintz: []
  taints: [{key: a, effect: Never}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelectr: {a: b}
  containers:
  - {name: main, image: img, resources: {requests: {cpu: much}}}
  - {name: main, image: img}
"""


@every_command
def test_every_problem_is_told_at_once_with_file_and_line(command: str, folder: Path) -> None:
    (folder / "bad.yaml").write_text(BAD)
    ran = ask(command, folder, "--from", folder / "bad.yaml", "--from", folder / "none.yaml")
    assert (ran.code, ran.out) == (2, "")
    places = [line.removeprefix(f"{folder}/") for line in ran.complaints]
    assert places[0] == "none.yaml: cannot be read: No such file or directory"
    assert sorted(place.split(": ")[0] for place in places[1:]) == [
        "bad.yaml:12",
        "bad.yaml:14",
        "bad.yaml:15",
        "bad.yaml:5",
        "bad.yaml:6",
    ]
    assert "bad.yaml:5: Node n: spec.taintz: unknown field; did you mean taints?" in places
    assert "bad.yaml:12: Pod default/web: spec.nodeSelectr: unknown field; did you mean nodeSelector?" in places


UNKNOWN = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"}, "spec": {"taintz": []}}'


@every_command
@pytest.mark.parametrize("level", ["strict", "warn", "ignore"])
def test_unknown_fields_are_errors_unless_the_user_relaxes_them(command: str, folder: Path, level: str) -> None:
    (folder / "odd.json").write_text(UNKNOWN)
    sources = ("--from", folder / "cluster.json", "--from", folder / "odd.json")
    ran = ask(command, folder, *sources, "--validate", level)
    told = f"{folder}/odd.json:1: Node m: spec.taintz: unknown field; did you mean taints?"
    assert (ran.code == 2) is (level == "strict"), ran.err
    assert (told in ran.complaints) is (level == "strict")
    assert (f"warning: {told}" in ran.complaints) is (level == "warn")


@every_command
def test_a_cluster_comes_from_files_folders_gzip_or_standard_input(command: str, folder: Path) -> None:
    text = (folder / "cluster.json").read_bytes()
    (folder / "inner").mkdir()
    (folder / "inner" / "cluster.json.gz").write_bytes(gzip.compress(text))
    wanted = ask(command, folder, "--from", folder / "cluster.json")
    assert wanted.code in (0, 1), wanted.err
    for source in (folder / "inner", folder / "inner" / "cluster.json.gz", "-"):
        ran = ask(command, folder, "--from", source, stdin=gzip.compress(text))
        assert (ran.code, ran.out) == (wanted.code, wanted.out)


@every_command
def test_a_file_or_a_live_cluster_but_not_both(command: str, folder: Path) -> None:
    for option in ("--kubeconfig", "--context"):
        ran = ask(command, folder, "--from", folder / "cluster.json", option, "x")
        assert (ran.code, ran.out, ran.err) == (
            *(2, ""),
            "--from cannot be used with --kubeconfig or --context; choose a file or a live cluster\n",
        )


@every_command
def test_without_a_file_and_a_kubeconfig_there_is_no_cluster(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    ran = ask(command, folder)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.complaints
    assert line.startswith("no cluster: name a dump, a snapshot or manifests with --from FILE, or a kubeconfig (")


@every_command
def test_an_unknown_context_is_refused_with_the_nearest_name(command: str, folder: Path) -> None:
    config = {"contexts": [{"name": "production", "context": {"cluster": "c"}}], "current-context": "production"}
    (folder / "kubeconfig").write_text(json.dumps(config))
    ran = ask(command, folder, "--kubeconfig", folder / "kubeconfig", "--context", "prodution")
    assert (ran.code, ran.out, ran.err) == (
        *(2, ""),
        f"{folder}/kubeconfig: contexts: no context is named 'prodution'; did you mean production? "
        "(there are: production)\n",
    )


@every_command
def test_a_server_that_is_not_there_is_refused_in_one_line(command: str, folder: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    ran = ask(command, folder, "--kubeconfig", folder / "kubeconfig")
    assert (ran.code, ran.out, len(ran.complaints)) == (2, "", 1)
    assert "cannot connect to 127.0.0.1:1" in ran.err


# ---- further manifests, beside the cluster

FURTHER: dict[str, tuple[str, ...]] = {
    "capacity": ("odd.yaml",),
    "plan": ("--offer", "OFFER.yaml", "--apply", "odd.yaml"),
    "what-if": ("--apply", "odd.yaml"),
}
ODD_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  nodeSelectr: {}
  containers: [{name: main, image: img}]
"""


@pytest.mark.parametrize("command", [name for name in FURTHER if name in COMMANDS])
def test_unknown_fields_of_further_manifests_are_errors_too(command: str, folder: Path) -> None:
    (folder / "odd.yaml").write_text(ODD_POD)
    own = [folder / each if (folder / each).exists() else each for each in FURTHER[command]]
    ran = mooring(command, *own, "--from", folder / "cluster.json")
    told = f"{folder}/odd.yaml:5: Pod default/new: spec.nodeSelectr: unknown field; did you mean nodeSelector?"
    assert (ran.code, ran.out, ran.complaints) == (2, "", [told])
    assert mooring(command, *own, "--from", folder / "cluster.json", "--validate", "ignore").code in (0, 1)


# ---- names that do not exist

UNKNOWN_NAMES: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "explain": [(("wep",), "web"), (("deployment/stor",), "store")],
    "what-if": [
        (("--cordon", "node1"), "node-1"),
        (("--drain", "node1"), "node-1"),
        (("--scale", "Deployment/stor=2"), "store"),
        (("--delete", "Deployment/stor"), "store"),
    ],
}
"""By command: arguments with a name that does not exist, and the one that should be suggested."""
_CASES = [(name, *case) for name, cases in UNKNOWN_NAMES.items() if name in COMMANDS for case in cases]


@pytest.mark.parametrize(("command", "arguments", "meant"), _CASES)
def test_a_name_that_does_not_exist_comes_with_the_nearest(
    command: str, arguments: tuple[str, ...], meant: str, folder: Path
) -> None:
    labels = {"app": "store"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    store = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "store"}, "spec": spec}
    cluster = write(folder / "more.json", a_node("node-1"), a_pod("web", cpu="1"), store)
    ran = mooring(command, *arguments, "--from", cluster)
    assert (ran.code, ran.out, len(ran.complaints)) == (2, "", 1)
    assert "did you mean" in ran.err and meant in ran.err


# ---- commands that start a cluster from manifests


def test_up_refuses_unknown_fields_with_file_and_line(folder: Path) -> None:
    (folder / "bad.yaml").write_text(BAD)
    ran = mooring("up", "--cluster", folder / "bad.yaml")
    assert (ran.code, ran.complaints) == (
        2,
        [
            f"{folder}/bad.yaml:5: Node n: spec.taintz: unknown field; did you mean taints?",
            f"{folder}/bad.yaml:12: Pod default/web: spec.nodeSelectr: unknown field; did you mean nodeSelector?",
        ],
    )


@pytest.mark.parametrize("command", [("up",), ("nodes", "add")], ids=["up", "nodes add"])
def test_a_node_template_with_an_unknown_field_is_refused(command: tuple[str, ...], folder: Path) -> None:
    (folder / "node.yaml").write_text("kind: Node\nspec:\n  taintz: []\n")
    ran = mooring(*command, "--node-template", folder / "node.yaml")
    assert (ran.code, ran.err) == (
        2,
        f"{folder}/node.yaml:3: Node in document 1: spec.taintz: unknown field; did you mean taints?\n",
    )
