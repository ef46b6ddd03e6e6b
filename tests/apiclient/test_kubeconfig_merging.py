"""A context in a kubeconfig of the user's: it comes and goes, and all else stays as it was."""

import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.apiclient.kubeconfig.editing import Login, add_context, remove_context
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import find_connection

OTHERS = """\
apiVersion: v1
kind: Config
current-context: prod
preferences: {}
clusters:
- name: prod
  cluster:
    server: https://prod.example:6443
    certificate-authority-data: dGhlIENB
contexts:
- name: prod
  context: {cluster: prod, user: admin, namespace: shop}
- name: 2024-01-02
  context:
    cluster: prod
    user: admin
    extensions:
    - name: minikube.sigs.k8s.io
      extension: {version: 1.30, mode: 0755, on: yes}
users:
- name: admin
  user:
    token: secret
"""
"""With texts that YAML takes for a number, a date and a truth value."""


@contextmanager
def a_server() -> Iterator[str]:
    """A URL at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


def gone() -> str:
    with a_server() as url:
        return url


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(OTHERS)
    return path


def written(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def contexts(path: Path) -> list[str]:
    return [str(entry["name"]) for entry in written(path)["contexts"] or ()]


def test_the_context_is_the_current_one_and_works(config: Path) -> None:
    with a_server() as url:
        assert add_context(config, Login(url, b"CA", "secret"), "id") == "mooring"
        assert written(config)["current-context"] == "mooring"
        access = find_connection(config)
        assert (access.server, access.authority_pem) == (url, b"CA")
        assert find_connection(config, context="prod").server == "https://prod.example:6443"


def test_everything_else_stays_as_it_is_written(config: Path) -> None:
    with a_server() as url:
        name = add_context(config, Login(url, b"CA", "secret"), "id")
        text = config.read_text()
        for line in ("- name: 2024-01-02", "extension: {version: 1.30, mode: 0755, on: yes}"):
            assert line in text
        remove_context(config, name, "id")
    assert config.read_text() == OTHERS


def test_a_json_file_stays_json(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text('{"kind": "Config", "contexts": null, "users": [{"name": "u", "user": {"token": "1"}}]}')
    with a_server() as url:
        name = add_context(path, Login(url, token="secret"), "id")
        assert find_connection(path).server == url
        remove_context(path, name, "id")
    assert written(path)["users"] == [{"name": "u", "user": {"token": "1"}}]


def test_the_context_that_the_user_chose_meanwhile_stays(config: Path) -> None:
    with a_server() as url:
        name = add_context(config, Login(url), "id")
        config.write_text(config.read_text().replace("current-context: mooring", "current-context: 2024-01-02"))
        remove_context(config, name, "id")
    assert str(written(config)["current-context"]) == "2024-01-02"
    assert contexts(config) == ["prod", "2024-01-02"]


@pytest.mark.parametrize("first", [0, 1], ids=["the first ends first", "the second ends first"])
def test_two_clusters_share_a_file(first: int, config: Path) -> None:
    with a_server() as one, a_server() as two:
        names = [add_context(config, Login(one), "id-1"), add_context(config, Login(two), "id-2")]
        assert names == ["mooring", "mooring-2"]
        assert find_connection(config).server == two
        assert find_connection(config, "mooring").server == one
        remove_context(config, names[first], f"id-{first + 1}")
        assert find_connection(config).server == (two, one)[first]
        remove_context(config, names[1 - first], f"id-{2 - first}")
    assert written(config)["current-context"] == "prod"
    assert contexts(config) == ["prod", "2024-01-02"]


def test_many_at_the_same_moment(config: Path) -> None:
    with a_server() as url:
        names: list[str] = []

        def one(number: int) -> None:
            port = int(url.rpartition(":")[2])
            name = add_context(config, Login(f"https://127.0.0.{number}:{port}"), f"id-{number}")
            names.append(name)
            remove_context(config, name, f"id-{number}")

        threads = [threading.Thread(target=one, args=(number,)) for number in range(2, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(names) == 8
    assert contexts(config) == ["prod", "2024-01-02"] and written(config)["current-context"] == "prod"
    assert [path.name for path in config.parent.iterdir()] == ["config"]


def test_what_a_killed_cluster_left_is_replaced(config: Path) -> None:
    add_context(config, Login(gone(), token="old"), "killed")
    with a_server() as url:
        assert add_context(config, Login(url, token="new"), "id") == "mooring"
        assert contexts(config) == ["prod", "2024-01-02", "mooring"]
        assert [user["user"]["token"] for user in written(config)["users"][1:]] == ["new"]
        remove_context(config, "mooring", "id")
    assert written(config)["current-context"] == "prod"


def test_a_killed_cluster_at_the_same_address_is_replaced(config: Path) -> None:
    with a_server() as url:
        add_context(config, Login(url), "killed")
        assert add_context(config, Login(url), "id") == "mooring"
        remove_context(config, "mooring", "killed")  # it comes to its end late: the context is no longer its own
        assert find_connection(config).server == url


def test_all_that_killed_clusters_left_goes(config: Path) -> None:
    with a_server() as one, a_server() as two:
        add_context(config, Login(one), "killed-1")
        add_context(config, Login(two), "killed-2")
    with a_server() as url:
        assert add_context(config, Login(url), "id") == "mooring"
        assert contexts(config) == ["prod", "2024-01-02", "mooring"]
        remove_context(config, "mooring", "id")
    assert written(config)["current-context"] == "prod"


@pytest.mark.parametrize("section", ["clusters", "users", "contexts"])
def test_an_entry_of_the_same_name_that_is_not_ours_stays(section: str, config: Path) -> None:
    text = OTHERS.replace(f"{section}:\n", f"{section}:\n- name: mooring\n  {section[:-1]}: {{}}\n")
    config.write_text(text)
    with a_server() as url:
        assert add_context(config, Login(url), "id") == "mooring-2"
        remove_context(config, "mooring-2", "id")
    assert written(config) == yaml.safe_load(text)


def test_a_new_file_is_private_and_goes_again(tmp_path: Path) -> None:
    path = tmp_path / "made" / "config"
    with a_server() as url:
        name = add_context(path, Login(url), "id")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        remove_context(path, name, "id", removes_empty=True)
    assert not path.exists()


def test_a_new_file_that_someone_else_wrote_to_stays(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with a_server() as one, a_server() as two:
        add_context(path, Login(one), "id-1")
        add_context(path, Login(two), "id-2")
        remove_context(path, "mooring", "id-1", removes_empty=True)
        assert find_connection(path).server == two
        remove_context(path, "mooring-2", "id-2")
    assert written(path)["contexts"] == [] and written(path)["current-context"] == ""


def test_an_open_file_becomes_private(config: Path) -> None:
    config.chmod(0o644)
    with a_server() as url:
        add_context(config, Login(url, token="secret"), "id")
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def test_a_link_stays_one(config: Path) -> None:
    link = config.parent / "link"
    link.symlink_to(config)
    with a_server() as url:
        name = add_context(link, Login(url), "id")
        assert link.is_symlink() and name in contexts(config)
        remove_context(link, name, "id", removes_empty=True)
    assert link.is_symlink() and contexts(config) == ["prod", "2024-01-02"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not valid YAML at line"),
        ("- a list", "Expected `object`"),
        ("kind: Pod\napiVersion: v1\n", "is not a kubeconfig"),
        ("contexts: {}\n", "contexts: Expected `array`"),
        ("kind: Config\n---\nkind: Config\n", "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_left_alone(text: str, said: str, config: Path) -> None:
    config.write_text(text)
    with pytest.raises(KubeconfigError, match=said):
        add_context(config, Login("https://127.0.0.1:1"), "id")
    assert config.read_text() == text
    assert [path.name for path in config.parent.iterdir()] == ["config"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be read: Is a directory"):
        add_context(tmp_path, Login("https://127.0.0.1:1"), "id")
    with pytest.raises(KubeconfigError, match="cannot be changed"):
        add_context(Path("/proc/nowhere/config"), Login("https://127.0.0.1:1"), "id")


def test_the_lock_of_another_program_is_respected(config: Path) -> None:
    lock = config.with_name("config.lock")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    with pytest.raises(KubeconfigError, match="another program is changing the file"):
        add_context(config, Login("https://127.0.0.1:1"), "id", patience_s=0)
    assert config.read_text() == OTHERS and lock.exists()
