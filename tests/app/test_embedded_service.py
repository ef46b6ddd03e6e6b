"""The cluster as a service: its secrets are its own, its kubeconfig stays good, its port is said to be taken."""

import asyncio
import socket
import ssl
import stat
from pathlib import Path

import pytest
import yaml

from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.app.up import EmbeddedService, ServiceSettings, serving
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from running_cluster import Client, a_neighbour


def live(settings: ServiceSettings) -> EmbeddedService:
    """A service that has come and gone."""

    async def run() -> EmbeddedService:
        cluster = EmbeddedCluster(EmbeddedSettings(data_dir=settings.data_dir))
        async with serving(cluster, settings, lambda text, fault: None) as service:
            return service

    return asyncio.run(run())


def test_secrets_are_for_their_owner_and_stay_good_over_a_restart(tmp_path: Path) -> None:
    first = live(ServiceSettings(data_dir=tmp_path))
    assert first.kubeconfig == tmp_path / "kubeconfig"
    before = Client(first.kubeconfig)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077 and not name.endswith(".crt")} == {}
    again = Client(live(ServiceSettings(data_dir=tmp_path)).kubeconfig)
    assert (again.token, again.authority) == (before.token, before.authority)
    assert len(before.token) >= 40


def test_without_a_directory_nothing_stays(tmp_path: Path) -> None:
    service = live(ServiceSettings())
    assert not service.kubeconfig.exists()
    assert not service.kubeconfig.parent.exists()


def test_two_clusters_do_not_share_secrets(tmp_path: Path) -> None:
    clients = [Client(live(ServiceSettings(data_dir=tmp_path / name)).kubeconfig) for name in ("a", "b")]
    assert clients[0].token != clients[1].token
    assert clients[0].authority != clients[1].authority


def test_the_certificate_is_checked(tmp_path: Path) -> None:
    other = Client(live(ServiceSettings(data_dir=tmp_path)).kubeconfig)
    with a_neighbour(nodes=0) as cluster:
        cluster.authority = other.authority
        with pytest.raises(ssl.SSLCertVerificationError):
            cluster.ask("GET", "/readyz")


def test_without_metrics_there_is_no_page_of_them_and_the_path_needs_the_token() -> None:
    with a_neighbour(nodes=0) as cluster:
        assert cluster.ask("GET", "/metrics").code == 404
        cluster.token = "another"
        assert cluster.ask("GET", "/metrics").code == 401


def test_plain_http_needs_no_token_and_is_on_loopback_only(tmp_path: Path) -> None:
    settings = ServiceSettings(is_plain=True, kubeconfig=tmp_path / "kubeconfig")
    with a_neighbour(nodes=1, settings=settings) as cluster:
        assert cluster.server.startswith("http://127.0.0.1:")
        assert cluster.token == ""
        assert cluster.ask("GET", "/api/v1/nodes").code == 200
        written = yaml.safe_load(cluster.kubeconfig.read_text())
    assert "certificate-authority-data" not in written["clusters"][0]["cluster"]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=str(port)):
            live(ServiceSettings(port=port))


def test_a_file_of_the_users_has_a_context_as_long_as_the_cluster_runs(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("kind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {}}]\n")
    with a_neighbour(nodes=1, settings=ServiceSettings(kubeconfig=path)) as cluster:
        assert yaml.safe_load(path.read_text())["current-context"] == "mooring"
        assert cluster.ask("GET", "/api/v1/nodes").code == 200
    assert yaml.safe_load(path.read_text())["current-context"] == "prod"
    assert live(ServiceSettings(kubeconfig=tmp_path / "new")).context == "mooring"
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_no_kubeconfig_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("[")
    with pytest.raises(KubeconfigError):
        live(ServiceSettings(kubeconfig=path, data_dir=tmp_path / "data"))
    assert path.read_text() == "["
    live(ServiceSettings(data_dir=tmp_path / "data"))  # the data directory was given back
