"""Where `mooring run` asks for reviews of callers: a kubeconfig, the service account of its pod, or nowhere."""

import json
from functools import partial
from pathlib import Path

import pytest

from mooring.apiclient.kubeconfig.loading import in_cluster
from mooring.cli.commands import run as command

FLAG = "--authorization-kubeconfig"


@pytest.fixture
def in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pod whose service account is mounted here, or would be."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(command, "in_cluster", partial(in_cluster, mounted=tmp_path))
    return tmp_path


def test_in_a_pod_without_a_kubeconfig_its_service_account_asks(in_a_pod: Path) -> None:
    (in_a_pod / "token").write_text("secret")
    access = command.delegate(None, FLAG)
    assert access is not None and access.server == "https://10.0.0.1:443"


def test_a_kubeconfig_beats_the_service_account(in_a_pod: Path) -> None:
    (in_a_pod / "token").write_text("secret")
    config = {
        "clusters": [{"name": "k", "cluster": {"server": "https://reviews:6443"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "current-context": "c",
    }
    (in_a_pod / "config").write_text(json.dumps(config))
    access = command.delegate(str(in_a_pod / "config"), FLAG)
    assert access is not None and access.server == "https://reviews:6443"


def test_a_pod_without_a_service_account_asks_nobody_and_says_so(
    in_a_pod: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.delegate(None, FLAG) is None
    assert capsys.readouterr().err == (
        f"Warning: {FLAG} is not set, and the service account of this pod cannot be used: "
        f"service account: {in_a_pod}/token cannot be read: No such file or directory\n"
    )


def test_outside_of_a_pod_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert command.delegate(None, FLAG) is None
    assert capsys.readouterr().err == ""
