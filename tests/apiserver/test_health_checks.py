"""`/healthz`, `/livez`, `/readyz` and their checks, as kube-apiserver v1.36.4 answers for those that both have."""

from pathlib import Path

import pytest

from asking import CONFIG_MAPS, ask
from cluster_api import an_api
from full_databases import full_databases
from mooring.apiserver.server.dispatch import CHECKS, STORAGE
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings

READY = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n[+]shutdown ok\n"


@pytest.mark.parametrize("name", CHECKS)
def test_all_is_well_in_short_and_in_full(name: str) -> None:
    api = an_api()
    short, full = ask(api, "GET", f"/{name}"), ask(api, "GET", f"/{name}", verbose="")
    assert (short.code, short.body) == (200, "ok")
    lines = [*(f"[+]{check} ok" for check in CHECKS[name]), f"{name} check passed", ""]
    assert (full.code, full.body.split("\n")) == (200, lines)


def test_checks_are_excluded_by_name() -> None:
    reply = ask(an_api(), "GET", "/readyz", verbose="", exclude="etcd,nosuch,no")
    assert reply.body == (
        READY.replace("etcd ok", "etcd excluded: ok")
        + 'warn: some health checks cannot be excluded: no matches for "no","nosuch"\nreadyz check passed\n'
    )
    assert ask(an_api(), "GET", "/readyz", exclude="nosuch").body == "ok"


def test_what_fails_is_told_in_full_and_its_reason_is_not() -> None:
    api = an_api()
    api.failing |= STORAGE
    reply = ask(api, "GET", "/livez")
    assert (reply.code, reply.body) == (
        500,
        "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\nlivez check failed\n",
    )
    assert ask(api, "GET", "/livez", exclude="etcd").body == "ok"
    assert ask(api, "GET", "/readyz", exclude="etcd").code == 500, "readiness has another that fails"
    assert ask(api, "GET", "/readyz", exclude="etcd,etcd-readiness").code == 200


def test_each_check_has_a_path() -> None:
    api = an_api()
    for name, checks in CHECKS.items():
        assert [ask(api, "GET", f"/{name}/{check}").body for check in checks] == ["ok"] * len(checks)
    api.failing.add("etcd")
    reply = ask(api, "GET", "/readyz/etcd")
    assert (reply.code, reply.body) == (500, "internal server error: reason withheld\n")
    assert ask(api, "GET", "/readyz/ping").code == 200


@pytest.mark.parametrize("path", ["/readyz/nosuch", "/readyz/", "/readyz/etcd/", "/readyzz", "/livez/shutdown"])
def test_there_is_no_such_check(path: str) -> None:
    reply = ask(an_api(), "GET", path)
    assert (reply.code, reply.body) == (404, "404 page not found\n")


def test_a_cluster_that_cannot_write_is_not_ready(tmp_path: Path) -> None:
    told: list[str] = []
    with full_databases() as opened:
        cluster = EmbeddedCluster(EmbeddedSettings(data_dir=tmp_path), report=lambda text, fault: told.append(text))
    assert cluster.api.failing == set()
    opened[0].refuses = {-1}
    for name in ("a", "b"):
        reply = ask(cluster.api, "POST", CONFIG_MAPS, {"metadata": {"name": name}})
        assert (reply.code, reply.body["reason"]) == (500, "InternalError")
        assert "the write is not stored" in reply.body["message"] and "disk is full" in reply.body["message"]
    assert ask(cluster.api, "GET", "/readyz").code == 500
    assert [item["metadata"]["name"] for item in ask(cluster.api, "GET", CONFIG_MAPS).body["items"]] == []
    opened[0].refuses = set()
    assert ask(cluster.api, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}}).code == 201
    assert ask(cluster.api, "GET", "/readyz").body == "ok"
    assert told == [
        f"{tmp_path}/mooring.db cannot be written: database or disk is full. Reads are answered; writes fail until there is "
        "room",
        "the data directory can be written again",
    ]
    cluster.close()
