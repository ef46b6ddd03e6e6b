"""What `mooring run` takes from the clientConnection of its configuration: limits of its clients, and the form of binds."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.app.run import RunSettings
from mooring.cli.commands import run as command
from mooring.drivers.live_service import ClientLimits


def limits_of(connection: dict[str, Any] | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ClientLimits:
    """The limits with this clientConnection in --config; None: without --config."""
    seen: list[RunSettings] = []

    async def take(settings: RunSettings, *_: object) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(command, "_run", take)
    kubeconfig, config = folder / "kubeconfig", folder / "config.yaml"
    kubeconfig.write_text(
        json.dumps(
            {
                "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "k"}}],
                "current-context": "c",
            }
        )
    )
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump({**kind, "clientConnection": connection}))
    configured = [] if connection is None else [f"--config={config}"]
    said = CliRunner().invoke(command.run, [f"--kubeconfig={kubeconfig}", "--secure-port=0", *configured])
    assert said.exit_code == 0, said.output
    return seen[0].limits


def test_binds_are_in_protobuf_unless_the_configuration_has_another_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upstream's default of contentType is protobuf."""
    configured: list[dict[str, Any] | None] = [None, {"qps": 5}, {"contentType": "application/json"}]
    types = [limits_of(each, tmp_path, monkeypatch).content_type for each in configured]
    assert types == ["application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/json"]


def test_requests_are_limited_where_the_configuration_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured: list[dict[str, Any] | None] = [None, {"qps": 5, "burst": 7}]
    found = [limits_of(each, tmp_path, monkeypatch) for each in configured]
    assert [(limits.qps, limits.burst) for limits in found] == [(-1.0, 100), (5.0, 7)]
