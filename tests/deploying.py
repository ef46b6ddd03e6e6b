"""What tests of the manifests share: what an API server says to objects, and how `run` reads flags."""

import re
from pathlib import Path
from typing import Any

import click
import yaml

from asking import ask, path_of
from cluster_api import an_api
from mooring.api.kinds import BY_KIND
from mooring.cli.commands.run import run
from mooring.framework import config as configuration

DEPLOY = Path(__file__).parent.parent / "deploy"
Item = dict[str, Any]


def items_of(text: str) -> list[Item]:
    return [item for item in yaml.safe_load_all(text) if item]


def refusals_of(items: list[Item]) -> list[str]:
    """What an API server that takes no unknown, repeated or mistyped field has against objects."""
    api, told = an_api(), []
    for namespace in {item["metadata"].get("namespace", "") for item in items} - {"", "default", "kube-system"}:
        ask(api, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for item in items:
        resource = BY_KIND.get((item["apiVersion"], item["kind"]))
        if resource is None:
            assert item["kind"] in ("ServiceMonitor", "PrometheusRule"), item["kind"]
            continue
        path = path_of(resource, namespace=item["metadata"].get("namespace", "default"))
        reply = ask(api, "POST", path, item, fieldValidation="Strict")
        if reply.code != 201:
            told.append(f"{item['kind']} {item['metadata']['name']}: {reply.body['message']}")
    return told


def the(items: list[Item], kind: str, name: str = "") -> Item:
    (found,) = (item for item in items if item["kind"] == kind and name in ("", item["metadata"]["name"]))
    return found


def flags_of(container: Item) -> dict[str, Any]:
    """The flags as `mooring run` understands them; raises where it does not."""
    command, *arguments = container["args"]
    assert command == "run"
    with click.Context(run), run.make_context("run", [*arguments]) as context:
        return context.params


def check_config(text: str) -> configuration.KubeSchedulerConfiguration:
    """A configuration that `mooring run` loads; raises ConfigError."""
    return configuration.load(text.encode(), "config.yaml")


def grants(items: list[Item], account: str) -> set[str]:
    """The roles that a service account has."""
    bindings = (item for item in items if re.fullmatch("(Cluster)?RoleBinding", item["kind"]))
    return {item["roleRef"]["name"] for item in bindings if any(s["name"] == account for s in item["subjects"])}
