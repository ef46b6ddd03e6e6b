"""Kubeconfig: files merged as kubectl merges them, every fault told with its file and field, no secret in any text."""

import asyncio
import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jumping_clock import JUMPS_S, JumpingClock
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import (
    V1,
    V1BETA1,
    CredentialsError,
    ExecCredentials,
    ExecPlugin,
    Grant,
    Identity,
    KeyPair,
    RereadFile,
)
from mooring.apiclient.kubeconfig.editing import Login, write_kubeconfig
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import (
    Surroundings,
    find_connection,
    in_cluster,
    is_in_cluster,
)
from mooring.kit.clock import NS_PER_S, VirtualClock

SECRET = "s3cr3t-t0ken"
SERVER = "https://one.example:6443"


def a_kubeconfig(
    cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "one", **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    } | more


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def read(tmp_path: Path, content: Any) -> ConnectionSettings:
    return find_connection(written(tmp_path / "config", content))


def granted(access: ConnectionSettings) -> Grant:
    return asyncio.run(access.credentials.grant())


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Written


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config"
    write_kubeconfig(path, Login(SERVER, b"the CA", SECRET, "prod", "web"))
    access = find_connection(path)
    assert (access.server, access.authority_pem, access.namespace) == (SERVER, b"the CA", "web")
    assert granted(access).authorization == f"Bearer {SECRET}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["config"]


def test_an_open_file_becomes_private_and_a_link_stays_one(tmp_path: Path) -> None:
    real = written(tmp_path / "real", "old")
    real.chmod(0o644)
    (tmp_path / "link").symlink_to(real)
    write_kubeconfig(tmp_path / "link", Login(SERVER))
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert find_connection(real).server == SERVER


# Found and merged


def around(**environment: str) -> Surroundings:
    return Surroundings(environment)


def test_the_first_file_of_the_list_wins_entry_by_entry(tmp_path: Path) -> None:
    shared = {"name": "both", "user": {"username": "second", "password": "p"}}
    first = written(
        tmp_path / "a", a_kubeconfig(name="one") | {"users": [{"name": "both", "user": {"token": "first"}}]}
    )
    contexts = [{"name": "mixed", "context": {"cluster": "two", "user": "both"}}]
    second = written(tmp_path / "b", a_kubeconfig(name="two") | {"users": [shared], "contexts": contexts})
    environment = around(
        KUBECONFIG=os.pathsep.join(["", str(tmp_path / "missing"), str(first), str(second), str(first)])
    )
    access = find_connection(context="mixed", around=environment)
    assert access.server == "https://two.example:6443"
    assert granted(access).authorization == "Bearer first"


def test_the_first_current_context_counts(tmp_path: Path) -> None:
    first = written(tmp_path / "a", {"users": None})
    second, third = (written(tmp_path / name, a_kubeconfig(name=name)) for name in ("b", "c"))
    access = find_connection(around=around(KUBECONFIG=f"{first}{os.pathsep}{second}{os.pathsep}{third}"))
    assert access.server == "https://b.example:6443"


def test_the_order_of_places(tmp_path: Path) -> None:
    home = written(tmp_path / ".kube" / "config", a_kubeconfig(name="home"))
    listed = written(tmp_path / "listed", a_kubeconfig(name="listed"))
    given = written(tmp_path / "given", a_kubeconfig(name="given"))
    at_home, with_list = around(HOME=str(tmp_path)), around(HOME=str(tmp_path), KUBECONFIG=str(listed))
    assert home.exists()
    assert find_connection(around=at_home).server == "https://home.example:6443"
    assert find_connection(around=with_list).server == "https://listed.example:6443"
    assert find_connection(given, around=with_list).server == "https://given.example:6443"


def test_nothing_is_found(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as told:
        find_connection(around=around(HOME=str(tmp_path)))
    assert str(told.value) == (
        "kubeconfig: none is given, neither $KUBECONFIG nor ~/.kube/config is a file that exists, and this is not a pod"
    )


def test_relative_paths_start_at_their_file(tmp_path: Path) -> None:
    for name, content in {"ca": "CA", "cert": "C", "key": "K", "token": "T\n"}.items():
        written(tmp_path / "keys" / name, content)
    user = {"client-certificate": "keys/cert", "client-key": "keys/key", "tokenFile": "keys/token"}
    access = read(tmp_path, a_kubeconfig({"certificate-authority": "keys/ca"}, user))
    assert access.authority_pem == b"CA"
    assert granted(access) == Grant("Bearer T", KeyPair(b"C", b"K"))


def test_all_of_a_cluster_is_read(tmp_path: Path) -> None:
    cluster = {"server": "https://h/prefix/", "tls-server-name": "n", "proxy-url": "http://u:p@proxy:1"}
    access = read(tmp_path, a_kubeconfig(cluster | {"certificate-authority-data": encoded("CA")}))
    assert (access.server, access.server_name, access.proxy_url) == ("https://h/prefix", "n", "http://u:p@proxy:1")
    assert access.authority_pem == b"CA"
    assert not access.skips_verification
    assert read(tmp_path, a_kubeconfig({"insecure-skip-tls-verify": True})).skips_verification
    assert read(tmp_path, a_kubeconfig({"server": "localhost:8080"})).server == "http://localhost:8080"


USERS: dict[str, tuple[dict[str, Any], str]] = {
    "nobody": ({}, ""),
    "a token": ({"token": SECRET}, f"Bearer {SECRET}"),
    "a password": ({"username": "u", "password": "p:w"}, "Basic dTpwOnc="),
    "data before a file": (
        {"client-certificate-data": encoded("C"), "client-key-data": encoded("K"), "token": "t"},
        "Bearer t",
    ),
}


@pytest.mark.parametrize(("user", "expected"), USERS.values(), ids=USERS.keys())
def test_users(user: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert granted(read(tmp_path, a_kubeconfig(user=user))).authorization == expected


def test_acting_as_another_user(tmp_path: Path) -> None:
    user = {"as": "jo", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": {"why": ["x"]}}
    assert read(tmp_path, a_kubeconfig(user=user)).impersonation == (
        ("Impersonate-User", "jo"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-why", "x"),
    )


def test_a_day_is_a_name(tmp_path: Path) -> None:
    text = yaml.safe_dump(a_kubeconfig(name="DAY")).replace("DAY", "2026-01-02")
    assert read(tmp_path, text).server == "https://2026-01-02.example:6443"


EXEC = {"command": "login", "apiVersion": V1, "interactiveMode": "Never"}
AN_ENTRY = {"name": "one", "cluster": {}}
FAULTS: dict[str, tuple[Any, str]] = {
    "not YAML": (f"users:\n- token: '{SECRET}", "is not valid YAML at line 2, column 23"),
    "a list": ("[1]", "Expected `object`, got `array`"),
    "another kind": (
        {"kind": "Pod", "apiVersion": "v1"},
        "kind: is not a kubeconfig, which has kind Config and apiVersion v1",
    ),
    "empty": ("", "current-context: is not set (there are none)"),
    "no current context": (
        a_kubeconfig() | {"current-context": ""},
        "current-context: is not set (there are: one)",
    ),
    "a context that is not there": (
        a_kubeconfig() | {"current-context": "x"},
        "current-context: no context is named 'x' (there are: one)",
    ),
    "a context without a cluster": (
        a_kubeconfig() | {"contexts": [{"name": "one", "context": {}}]},
        "contexts[one].context.cluster: is not set",
    ),
    "a user that is not there": (
        a_kubeconfig() | {"users": []},
        "contexts[one].context.user: no user is named 'one' (there are none)",
    ),
    "two of one name": (a_kubeconfig(clusters=[AN_ENTRY, AN_ENTRY]), "clusters: two entries are named 'one'"),
    "a number for a text": (
        a_kubeconfig(user={"token": 12345}),
        "users[0].user.token: Expected `str`, got `int`",
    ),
    "broken base64": (
        a_kubeconfig({"certificate-authority-data": SECRET}),
        "clusters[0].cluster.certificate-authority-data: Invalid base64 encoded string",
    ),
    "no server": (a_kubeconfig({"server": ""}), "clusters[one].cluster.server: is not set"),
    "no URL": (a_kubeconfig({"server": "https://"}), "clusters[one].cluster.server: is not a URL"),
    "a strange scheme": (
        a_kubeconfig({"server": "ftp://x"}),
        "clusters[one].cluster.server: has the scheme 'ftp', and only http and https are supported",
    ),
    "a password in the URL": (
        a_kubeconfig({"server": f"https://me:{SECRET}@host"}),
        "clusters[one].cluster.server: must not hold a user name and password; write them under users",
    ),
    "a SOCKS proxy": (
        a_kubeconfig({"proxy-url": f"socks5://me:{SECRET}@proxy"}),
        "clusters[one].cluster.proxy-url: has the scheme 'socks5', and only http and https are supported",
    ),
    "an authority that is not asked": (
        a_kubeconfig({"insecure-skip-tls-verify": True, "certificate-authority-data": encoded("CA")}),
        "clusters[one].cluster.insecure-skip-tls-verify: cannot be true with a certificate authority, "
        "which would have no effect",
    ),
    "an auth provider": (
        a_kubeconfig(user={"auth-provider": {"name": "gcp", "config": {"access-token": SECRET}}}),
        "users[one].user.auth-provider: 'gcp' was removed in Kubernetes 1.26; "
        "use an exec plugin (kubelogin, gke-gcloud-auth-plugin)",
    ),
    "two ways to log in": (
        a_kubeconfig(user={"token": SECRET, "username": "u", "password": SECRET}),
        "users[one].user: has more than one way to log in: token, username",
    ),
    "half a certificate": (
        a_kubeconfig(user={"client-certificate-data": encoded("C")}),
        "users[one].user.client-key: neither client-key nor client-key-data is set, but its counterpart is",
    ),
    "groups of nobody": (
        a_kubeconfig(user={"as-groups": ["g"]}),
        "users[one].user.as: is not set, but as-uid, as-groups or as-user-extra is",
    ),
    "exec without a command": (
        a_kubeconfig(user={"exec": EXEC | {"command": ""}}),
        "users[one].user.exec.command: is not set",
    ),
    "exec of another version": (
        a_kubeconfig(user={"exec": EXEC | {"apiVersion": "v7"}}),
        "users[one].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or "
        "client.authentication.k8s.io/v1beta1, not 'v7'",
    ),
    "exec that is silent about terminals": (
        a_kubeconfig(user={"exec": EXEC | {"interactiveMode": ""}}),
        "users[one].user.exec.interactiveMode: is not set, and v1 requires it: Never, IfAvailable or Always",
    ),
    "exec that needs a terminal": (
        a_kubeconfig(user={"exec": EXEC | {"interactiveMode": "Always"}}),
        "users[one].user.exec.interactiveMode: is Always, but a scheduler has no terminal",
    ),
}


@pytest.mark.parametrize(("content", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_name_file_and_field_and_no_secret(content: Any, expected: str, tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as told:
        read(tmp_path, content)
    assert str(told.value) == f"{tmp_path / 'config'}: {expected}"
    assert SECRET not in repr(told.value)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="no-such-ca cannot be read: No such file or directory"):
        read(tmp_path, a_kubeconfig({"certificate-authority": "no-such-ca"}))
    place = f"{tmp_path}/config: users[one].user.tokenFile: {tmp_path}/gone cannot be read: No such file or directory"
    with pytest.raises(CredentialsError) as told:
        read(tmp_path, a_kubeconfig(user={"tokenFile": "gone"}))
    assert str(told.value) == place
    with pytest.raises(KubeconfigError, match="nowhere: there is no such file"):
        find_connection(tmp_path / "nowhere")


def test_no_secret_shows_in_a_repr(tmp_path: Path) -> None:
    access = read(tmp_path, a_kubeconfig({"proxy-url": f"http://u:{SECRET}@p:1"}, {"token": SECRET}))
    plugin = ExecPlugin("here", "login", ("--token", SECRET), {"TOKEN": SECRET})
    shown = [access, access.credentials, granted(access), plugin, Login(SERVER, b"", SECRET)]
    assert SECRET not in repr(shown)


# Files that are rotated


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    clock = VirtualClock(1_000 * NS_PER_S)
    path = written(tmp_path / "token", "old")
    identity = Identity(RereadFile(path, clock=clock))
    assert asyncio.run(identity.grant()).authorization == "Bearer old"
    written(path, "new")
    clock.advance_ns(59 * NS_PER_S)
    assert asyncio.run(identity.grant()).authorization == "Bearer old"
    clock.advance_ns(NS_PER_S)
    assert asyncio.run(identity.grant()).authorization == "Bearer new"


def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = written(tmp_path / "token", "old")
    identity = Identity(RereadFile(path, clock=VirtualClock()))
    refused = asyncio.run(identity.grant())
    assert not identity.reject(refused)
    written(path, "new")
    assert identity.reject(refused)
    assert asyncio.run(identity.grant()).authorization == "Bearer new"


def test_while_a_file_is_away_its_last_content_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "token", "old")
    file = RereadFile(path, clock=VirtualClock())
    assert file.content() == b"old"
    path.unlink()
    file.forget()
    assert file.content() == b"old"
    written(path, " \n")
    file.forget()
    assert file.content() == b"old"


# In a pod


def a_mount(tmp_path: Path) -> Path:
    for name in ("token", "ca.crt", "namespace"):
        written(tmp_path / name, f"the {name}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_uses_its_service_account(host: str, server: str, tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    assert not is_in_cluster(environment, tmp_path)
    mounted = a_mount(tmp_path)
    assert is_in_cluster(environment, mounted)
    access = in_cluster(environment, mounted)
    assert (access.server, access.authority_pem, access.namespace) == (server, b"the ca.crt\n", "the namespace")
    assert granted(access).authorization == "Bearer the token"


def test_outside_a_pod_there_is_no_service_account(tmp_path: Path) -> None:
    assert not is_in_cluster({}, a_mount(tmp_path))
    with pytest.raises(CredentialsError, match="this is not a pod"):
        in_cluster({}, tmp_path)


# Exec plugins


def a_plugin(tmp_path: Path, script: str) -> str:
    """A program that runs this script in Python; it counts its runs in `runs`."""
    path = tmp_path / "login"
    count = f"open({str(tmp_path / 'runs')!r}, 'a').write('.')"
    path.write_text(f"#!{sys.executable} -S\nimport json, os, sys\n{count}\n{script}\n")
    path.chmod(0o700)
    return str(path)


def answer(version: str = V1, kind: str = "ExecCredential", **status: Any) -> str:
    return f"print(json.dumps({ ({'kind': kind, 'apiVersion': version, 'status': status})!r}))"


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


def credentials_of(
    tmp_path: Path, script: str, clock: VirtualClock | None = None, wall: JumpingClock | None = None, **more: Any
) -> ExecCredentials:
    return ExecCredentials(ExecPlugin("config: exec", a_plugin(tmp_path, script), **more), clock, wall or clock)


def test_a_plugin_is_run_once_until_its_token_ends(tmp_path: Path) -> None:
    clock = VirtualClock(0)
    credentials = credentials_of(tmp_path, answer(token=SECRET, expirationTimestamp="1970-01-01T01:00:00Z"), clock)

    async def run() -> None:
        grants = await asyncio.gather(*(credentials.grant() for _ in range(5)))
        assert {grant.authorization for grant in grants} == {f"Bearer {SECRET}"}
        assert runs(tmp_path) == 1
        clock.advance_ns(3600 * NS_PER_S - 1)
        await credentials.grant()
        assert runs(tmp_path) == 1
        clock.advance_ns(1)
        await credentials.grant()
        assert runs(tmp_path) == 2

    asyncio.run(run())


@pytest.mark.parametrize("jump_s", JUMPS_S)
def test_a_token_ends_when_it_would_without_a_jump_of_the_clock(jump_s: int, tmp_path: Path) -> None:
    clock = VirtualClock(0)
    wall = JumpingClock(clock)
    script = answer(token=SECRET, expirationTimestamp="1970-01-01T01:00:00Z")
    credentials = credentials_of(tmp_path, script, clock, wall)

    async def run() -> None:
        await credentials.grant()
        wall.jump(jump_s)
        clock.advance_ns(3600 * NS_PER_S - 1)
        await credentials.grant()
        assert runs(tmp_path) == 1
        clock.advance_ns(1)
        await credentials.grant()
        assert runs(tmp_path) == 2

    asyncio.run(run())


def test_on_a_machine_whose_clock_is_ahead_not_every_request_runs_the_plugin(tmp_path: Path) -> None:
    clock = VirtualClock(7200 * NS_PER_S)
    credentials = credentials_of(tmp_path, answer(token=SECRET, expirationTimestamp="1970-01-01T01:00:00"), clock)

    async def run() -> None:
        for seconds in (0, 9, 1):
            clock.advance_ns(seconds * NS_PER_S)
            await credentials.grant()
            assert runs(tmp_path) == (2 if seconds == 1 else 1)

    asyncio.run(run())


def test_a_refused_grant_makes_the_plugin_run_again_but_an_older_one_does_not(tmp_path: Path) -> None:
    script = f"n = len(open({str(tmp_path / 'runs')!r}).read())\n" + answer(token="t-").replace("'t-'", "f't-{n}'")
    credentials = credentials_of(tmp_path, script)

    async def run() -> None:
        first = await credentials.grant()
        assert credentials.reject(first)
        second = await credentials.grant()
        assert second.authorization == "Bearer t-2"
        credentials.reject(first)
        assert await credentials.grant() == second

    asyncio.run(run())


def test_a_kubeconfig_tells_its_plugin_what_it_asks_for(tmp_path: Path) -> None:
    script = "told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n" + (
        f"json.dump([told, sys.argv[1:], os.environ['X']], open({str(tmp_path / 'told')!r}, 'w'))\n"
    )
    a_plugin(tmp_path, script + answer(V1BETA1, clientCertificateData="C", clientKeyData="K"))
    settings = {
        "command": "./login",
        "args": ["--for", "me"],
        "env": [{"name": "X", "value": "y"}],
        "apiVersion": V1BETA1,
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"certificate-authority-data": encoded("CA"), "extensions": [extension]}
    access = read(tmp_path, a_kubeconfig(cluster, {"exec": settings}))
    assert granted(access) == Grant("", KeyPair(b"C", b"K"))
    told, arguments, variable = json.loads((tmp_path / "told").read_text())
    assert (arguments, variable) == (["--for", "me"], "y")
    spec = {"server": SERVER, "certificate-authority-data": encoded("CA"), "config": {"audience": "a"}}
    assert told == {"kind": "ExecCredential", "apiVersion": V1BETA1, "spec": {"interactive": False, "cluster": spec}}


PLUGIN_FAULTS: dict[str, tuple[str, str]] = {
    "fails": ("sys.exit('log in first')", "failed with exit code 1; its error output: log in first"),
    "prints no JSON": (
        f"print('{SECRET}')",
        "did not print an ExecCredential: JSON is malformed: invalid character (byte 0)",
    ),
    "prints another kind": (answer(kind="Pod"), "did not print an ExecCredential: its output has another kind"),
    "prints another version": (
        answer(V1BETA1, token=SECRET),
        f"printed another version than {V1}, which the kubeconfig asks for",
    ),
    "prints nothing of use": (answer(), "printed neither a token nor a client certificate"),
    "prints half a certificate": (
        answer(clientKeyData=SECRET),
        "printed only one of clientCertificateData and clientKeyData",
    ),
    "prints a strange time": (
        answer(token=SECRET, expirationTimestamp="soon"),
        "printed an expirationTimestamp that is not an RFC 3339 time",
    ),
    "prints without end": ("while True: print('x' * 65536)", "printed more than 1048576 bytes"),
}


@pytest.mark.parametrize(("script", "expected"), PLUGIN_FAULTS.values(), ids=PLUGIN_FAULTS.keys())
def test_a_plugin_that(script: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as told:
        asyncio.run(credentials_of(tmp_path, script).grant())
    assert str(told.value) == f"config: exec: the credential plugin {str(tmp_path / 'login')!r} {expected}"


def test_a_plugin_that_hangs_is_ended(tmp_path: Path) -> None:
    script = "import time\ntime.sleep(600)"
    with pytest.raises(CredentialsError, match="did not end within 0.05 s"):
        asyncio.run(credentials_of(tmp_path, script, time_limit_s=0.05).grant())


def test_a_plugin_that_is_missing_comes_with_its_hint() -> None:
    plugin = ExecPlugin("config: exec", "no-such-login", install_hint="Get it at https://example.org/login.")
    with pytest.raises(CredentialsError) as told:
        asyncio.run(ExecCredentials(plugin).grant())
    assert str(told.value) == (
        "config: exec: the credential plugin 'no-such-login' is not installed\n\nGet it at https://example.org/login."
    )
