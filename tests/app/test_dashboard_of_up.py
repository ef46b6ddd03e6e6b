"""The dashboard of `mooring up`: its link opens it, and what it does goes through the cluster's API."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from mooring.app import cluster_doings
from mooring.app.cluster_doings import read_change
from mooring.app.dashboards import DashboardPlan, DashboardPortError, SchedulerSource
from mooring.app.up import EmbeddedService, ServiceSettings, serving
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.dashboard.interfaces import AskedChange, Refused
from mooring.drivers.self_checks import SelfCheckSettings
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.embedded.seeding import seed
from mooring.kit.clock import SteadyClock

LABELS = {"app": "web"}


def a_deployment(replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}},
        },
    }


BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "all", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": LABELS}},
}


@dataclass
class Browser:
    service: EmbeddedService
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        base, _, token = self.service.dashboard.partition("#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with self.session.request(method, f"{base}api/{path}", headers=headers, **more) as reply:
            return reply.status, await reply.json()

    async def do(self, *changes: tuple[str, str]) -> Any:
        asked = [{"change": change, "value": value} for change, value in changes]
        return await self.ask("POST", "do", json={"changes": asked})

    async def until_placed(self, count: int) -> None:
        async with asyncio.timeout(20):
            while (await self.ask("GET", "pods?state=bound"))[1]["total"] != count:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def browsing(*items: Any, is_plain: bool = True, checks_s: float | None = None) -> AsyncIterator[Browser]:
    faults: list[str] = []
    source = SchedulerSource("up", SteadyClock())
    settings = EmbeddedSettings(observer=source.counting(EmbeddedSettings().observer), tell=source.telling())
    if checks_s is not None:
        settings.self_check = SelfCheckSettings(checks_s)

    def report(text: str, fault: Exception | None) -> None:
        faults.append(f"{text}: {fault!r}")

    cluster = EmbeddedCluster(settings, report=report)
    source.show(cluster.scheduler, cluster.checks)
    assert not seed(cluster.api, [*missing_nodes(3, ()), *items])
    plan = ServiceSettings(is_plain=is_plain, dashboard=DashboardPlan(source))
    async with serving(cluster, plan, report) as service, aiohttp.ClientSession() as session:
        yield Browser(service, session)
    assert faults == []


def browse(test: Callable[[Browser], Awaitable[None]], *items: Any, **settings: Any) -> None:
    async def run() -> None:
        async with browsing(*items, **settings) as browser:
            await test(browser)

    asyncio.run(run())


def test_the_link_has_the_token_of_the_cluster() -> None:
    async def test(browser: Browser) -> None:
        assert browser.service.dashboard.startswith("http://127.0.0.1:")
        token = browser.service.dashboard.partition("/dashboard/#token=")[2]
        assert token in browser.service.own_kubeconfig.read_text()
        status, session = await browser.ask("GET", "session")
        assert (status, session["program"], session["canDo"], session["readOnly"]) == (200, "up", True, False)

    browse(test, is_plain=False)


def test_a_cluster_without_a_token_has_a_dashboard_with_one() -> None:
    async def test(browser: Browser) -> None:
        base, _, token = browser.service.dashboard.partition("#token=")
        assert len(token) >= 40
        async with browser.session.get(f"{base}api/session") as reply:
            assert reply.status == 401

    browse(test)


def test_pods_have_stories_and_are_counted() -> None:
    async def test(browser: Browser) -> None:
        await browser.until_placed(3)
        _, listed = await browser.ask("GET", "pods?state=bound")
        _, pod = await browser.ask("GET", f"pods/default/{listed['pods'][0]['name']}")
        assert [line["what"] for line in pod["timeline"]] == ["queued", "popped", "placed", "bound"]
        async with asyncio.timeout(10):
            while sum(sample["bound"] for sample in (await browser.ask("GET", "history"))[1]["flow"]) < 3:
                await asyncio.sleep(0.1)

    browse(test, a_deployment(3))


def test_changes_are_made_in_order() -> None:
    async def test(browser: Browser) -> None:
        await browser.until_placed(2)
        status, answer = await browser.do(
            ("add-nodes", "2=node-0001"), ("scale", "deployment/default/web=5"), ("drain", "node-0001")
        )
        assert (status, answer["failed"]) == (200, [])
        assert answer["done"][:4] == [
            "node-0004 added",
            "node-0005 added",
            "Deployment default/web scaled to 5",
            "node-0001 cordoned",
        ]
        assert answer["done"][-1] == "node-0001 drained"
        await browser.until_placed(5)
        _, node = await browser.ask("GET", "nodes/node-0001")
        assert (node["unschedulable"], node["total"]) == (True, 0)
        _, answer = await browser.do(("uncordon", "node-0001"), ("drain", "node-0005"), ("remove-nodes", "node-0005"))
        assert (answer["done"][0], answer["done"][-1]) == ("node-0001 uncordoned", "node-0005 removed")
        assert (await browser.do(("delete", "Deployment/web")))[1] == {
            "done": ["Deployment default/web deleted"],
            "failed": [],
        }
        await browser.until_placed(0)

    browse(test, a_deployment(2))


def test_a_drain_respects_budgets_and_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_doings, "MAX_SECONDS", 1.0)

    async def test(browser: Browser) -> None:
        await browser.until_placed(3)
        _, answer = await browser.do(("drain", "kubernetes.io/os=linux"), ("uncordon", "node-0001"))
        assert answer["done"][0].endswith(" cordoned")
        assert any(
            "Cannot evict pod as it would violate the pod's disruption budget" in line for line in answer["done"]
        )
        assert answer["failed"] == [
            "drain kubernetes.io/os=linux: not done after 1 seconds; what was done stays done",
            "uncordon node-0001: not tried",
        ]
        await browser.until_placed(3)

    browse(test, a_deployment(3), BUDGET)


def test_the_api_decides_what_is_possible() -> None:
    async def test(browser: Browser) -> None:
        _, answer = await browser.do(("cordon", "nobody"))
        assert answer == {"done": [], "failed": ['cordon nobody: nodes "nobody" not found']}
        _, answer = await browser.do(("delete", "Node/../pods"))
        assert answer["done"] == []

    browse(test)


@pytest.mark.parametrize(
    ("change", "value", "text"),
    [
        ("apply", "/etc/passwd", "apply: cannot be carried out here; possible are drain, cordon, "),
        ("config", "x", "config: cannot be carried out here"),
        ("add-nodes", "many=node-0001", "add-nodes many=node-0001: "),
        ("add-nodes", "99999999=node-0001", "must be a whole number from 0 to 10000"),
        ("scale", "Deployment/web", "must be KIND/[NAMESPACE/]NAME=N"),
        ("scale", "Nonsense/web=3", "no kind"),
        ("delete", "web", "must be KIND/NAME or KIND/NAMESPACE/NAME"),
        ("delete", "a/b/c/d", "must be KIND/NAME or KIND/NAMESPACE/NAME"),
    ],
)
def test_changes_that_cannot_be_read_are_refused(change: str, value: str, text: str) -> None:
    with pytest.raises(Refused) as refused:
        read_change(AskedChange(change, value))
    assert refused.value.status == 422
    assert text in refused.value.message


def test_nothing_is_done_if_one_change_cannot_be_read() -> None:
    async def test(browser: Browser) -> None:
        status, _ = await browser.do(("cordon", "node-0001"), ("apply", "x"))
        assert status == 422
        assert (await browser.ask("GET", "nodes/node-0001"))[1]["unschedulable"] is False
        assert (await browser.do())[0] == 422
        assert (await browser.do(*[("cordon", "node-0001")] * 51))[0] == 422

    browse(test)


def test_self_checks_are_shown() -> None:
    async def test(browser: Browser) -> None:
        async with asyncio.timeout(20):
            while True:
                _, history = await browser.ask("GET", "history")
                if history["flow"] and (history["flow"][-1]["selfCheck"] or {}).get("runs"):
                    break
                await asyncio.sleep(0.1)
        shown = history["flow"][-1]["selfCheck"]
        assert (shown["differences"], shown["last"][-1]) == (0, "Z")

    browse(test, checks_s=0.2)


def test_a_port_that_is_taken() -> None:
    async def run(port: int | None) -> None:
        cluster = EmbeddedCluster()
        source = SchedulerSource("up", SteadyClock())
        source.show(cluster.scheduler)
        settings = ServiceSettings(is_plain=True, dashboard=DashboardPlan(source, port))
        async with serving(cluster, settings, lambda text, fault: None) as service:
            assert service.dashboard

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DashboardPortError, match=f"port {port} is not available for the dashboard"):
            asyncio.run(run(port))
    asyncio.run(run(None))
