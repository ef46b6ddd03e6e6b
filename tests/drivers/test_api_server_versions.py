"""One scheduler on API servers of v1.33 to v1.37: it reads and writes the versions that are there, waits for nothing that is
not, and follows an upgrade without a restart."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import Reflector, ReflectorOptions
from mooring.apiclient.throttle import Timing
from mooring.drivers.live_service import LiveOptions, LiveScheduler
from mooring.framework import config
from mooring.kit.clock import SteadyClock
from mooring.model.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.model.meta import KubeObject
from mooring.state.scheduler_assembly import build_scheduler
from older_server import (
    CLAIMS,
    CLASSES,
    GROUPS,
    NO_DEVICES,
    RULES,
    SLICES,
    V1_33,
    V1_34,
    V1_36,
    V1_37,
    OlderServer,
    Release,
    an_older_server,
)

DEVICES = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
QUICK = 50
"""Pauses are so much shorter than in service."""
GATES = {"DRADeviceTaintRules": True, "GenericWorkload": True}
RULE = {
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "broken", "effect": "NoSchedule"}},
}


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(within_time())


async def quick_sleep(for_s: float) -> None:
    await asyncio.sleep(for_s / QUICK)


@dataclass
class Stage:
    server: OlderServer
    live: LiveScheduler
    behind: ApiClient
    """A client of the server of v1.37 behind the older one."""
    reports: list[str] = field(default_factory=list)

    def reflector(self, kind: type[KubeObject]) -> Reflector:
        return next(each for each in self.live.reflectors.members if each.kind.struct is kind)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.005)

    async def until_bound(self, *names: str) -> None:
        for name in names:
            async with asyncio.timeout(20):
                while not (await self.behind.get(f"{PODS}/{name}"))["spec"].get("nodeName"):
                    await asyncio.sleep(0.01)

    async def device(self, name: str = "n1", devices: int = 1) -> None:
        """A node with devices."""
        status = {"allocatable": {"pods": "500", "cpu": "500"}}
        await self.behind.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        made = [{"name": f"d{each}", "attributes": {"model": {"string": "x"}}} for each in range(devices)]
        spec = {"driver": "d.example.com", "nodeName": name, "pool": pool, "devices": made}
        await self.behind.post(f"{DEVICES}/resourceslices", {"metadata": {"name": name}, "spec": spec})

    async def device_class(self) -> None:
        await self.behind.post(f"{DEVICES}/deviceclasses", {"metadata": {"name": "c"}, "spec": {}})

    async def pod(self, name: str, claims: bool = False) -> None:
        """A pod, with a claim for one device of the model x, or without any."""
        container: dict[str, Any] = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        spec: dict[str, Any] = {"containers": [container]}
        if claims:
            selector = {"cel": {"expression": 'device.attributes["d.example.com"].model == "x"'}}
            asked = {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [selector]}}
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [asked]}}}
            await self.behind.post(f"{DEVICES}/namespaces/default/resourceclaims", claim)
            spec["resourceClaims"] = [{"name": "x", "resourceClaimName": name}]
        await self.behind.post(PODS, {"metadata": {"name": name}, "spec": spec})


@asynccontextmanager
async def a_stage(
    release: Release, gates: dict[str, bool] | None = None, prepare: Callable[[OlderServer], None] | None = None
) -> AsyncIterator[Stage]:
    gates, reports = GATES if gates is None else gates, []
    async with an_older_server(release, gates) as server:
        if prepare is not None:
            prepare(server)
        scheduler = build_scheduler(config.default(feature_gates=gates), SteadyClock(), gates=gates)
        timing = Timing(lambda: time.monotonic() * QUICK, quick_sleep)
        reflecting = ReflectorOptions(timing, silence_s=1e6, report=lambda text, fault: reports.append(text))
        live = LiveScheduler(scheduler, ConnectionSettings(server.url), options=LiveOptions(reflectors=reflecting))
        async with ApiClient(ConnectionSettings(server.behind_url), "tests/1", -1) as behind, live:
            async with asyncio.timeout(10):
                await live.settle()
            scheduling = asyncio.create_task(live.schedule())
            try:
                yield Stage(server, live, behind, reports)
                assert not scheduling.done()
            finally:
                scheduling.cancel()
                await asyncio.wait((scheduling,))


# ---- which versions are chosen

SERVERS = [
    pytest.param(V1_33, {CLAIMS: "v1beta1", SLICES: "v1beta1", CLASSES: "v1beta1", RULES: "v1alpha3"}, id="v1.33"),
    pytest.param(V1_34, {CLAIMS: "v1", SLICES: "v1", CLASSES: "v1", RULES: ""}, id="v1.34"),
    pytest.param(V1_36, {CLAIMS: "v1", RULES: "v1beta2"}, id="v1.36"),
    pytest.param(V1_37, {CLAIMS: "v1", RULES: "v1"}, id="v1.37"),
    pytest.param(
        Release(V1_33.versions, False), {CLAIMS: "v1beta1", RULES: "v1alpha3"}, id="the old form of discovery"
    ),
    pytest.param(
        Release({**V1_37.versions, CLAIMS: ("v1beta1", "v1beta2")}), {CLAIMS: "v1beta2"}, id="the better beta"
    ),
    pytest.param(NO_DEVICES, {CLAIMS: "", SLICES: "", CLASSES: "", RULES: ""}, id="no devices at all"),
]


@pytest.mark.parametrize(("release", "expected"), SERVERS)
def test_pods_are_bound_with_the_versions_that_are_served(release: Release, expected: dict[str, str]) -> None:
    async def main() -> None:
        async with a_stage(release, {"DRADeviceTaintRules": True}) as stage:
            watched = {
                each.kind.resource: each.spec.version if each.has_synced else ""
                for each in stage.live.reflectors.members
            }
            assert {resource: watched[resource] for resource in expected} == expected
            has_devices = bool(expected[CLAIMS])
            await stage.device_class()
            await stage.device()
            await stage.pod("plain")
            await stage.pod("claiming", claims=True)
            await stage.until_bound("plain", *(["claiming"] if has_devices else []))
            if has_devices:
                claim = await stage.behind.get(f"{DEVICES}/namespaces/default/resourceclaims/claiming")
                (result,) = claim["status"]["allocation"]["devices"]["results"]
                assert (result["driver"], result["device"]) == ("d.example.com", "d0")
                version = expected[CLAIMS]
                path = f"PATCH /apis/resource.k8s.io/{version}/namespaces/default/resourceclaims/claiming"
                assert stage.server.count(path) and not stage.server.count("POST /apis/resource")

    run(main())


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_a_rule_of_any_version_taints_devices(version: str) -> None:
    async def main() -> None:
        async with a_stage(Release({RULES: (version,)})) as stage:
            await stage.behind.post(f"{DEVICES}/devicetaintrules", RULE)
            await stage.until(lambda: bool(stage.reflector(DeviceTaintRule).objects))
            await stage.device_class()
            await stage.device()
            await stage.pod("p", claims=True)
            await asyncio.sleep(0.3)
            assert not (await stage.behind.get(f"{PODS}/p"))["spec"].get("nodeName")
            await stage.behind.delete(f"{DEVICES}/devicetaintrules/r")
            await stage.until_bound("p")

    run(main())


def test_a_claim_for_an_extended_resource_is_created_in_the_served_version() -> None:
    async def main() -> None:
        async with a_stage(V1_33) as stage:
            spec = {"extendedResourceName": "example.com/gpu"}
            await stage.behind.post(f"{DEVICES}/deviceclasses", {"metadata": {"name": "c"}, "spec": spec})
            await stage.device()
            container = {"name": "main", "image": "x", "resources": {"requests": {"example.com/gpu": "1"}}}
            container["resources"]["limits"] = container["resources"]["requests"]  # type: ignore[index]
            await stage.behind.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
            await stage.until_bound("p")
            listed = await stage.behind.get(f"{DEVICES}/namespaces/default/resourceclaims")
            (claim,) = listed["items"]
            (request,) = claim["spec"]["devices"]["requests"]
            assert request["exactly"]["deviceClassName"] == "c", "the server has read what v1beta1 says"
            assert stage.server.count("POST /apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims") == 1

    run(main())


# ---- what is said


def test_what_is_not_served_is_said_once_with_the_versions_that_are() -> None:
    async def main() -> None:
        async with a_stage(V1_36.without(RULES, GROUPS)) as stage:
            first, second = sorted(stage.reports)
            assert first.startswith(
                "Failed to watch devicetaintrules.resource.k8s.io: the server does not serve "
                "devicetaintrules.resource.k8s.io: Mooring reads v1, v1beta2, v1alpha3 (404). Until that changes, the "
                "scheduler continues as if there were none"
            )
            assert "the server does not serve podgroups.scheduling.k8s.io: " in second
            notes = stage.live.reflectors.unwatched()
            assert sorted(note.partition(":")[0] for note in notes) == [
                "the server does not serve devicetaintrules.resource.k8s.io",
                "the server does not serve podgroups.scheduling.k8s.io",
            ]
            asked = stage.server.count("GET /apis")
            await stage.until(lambda: stage.server.count("GET /apis") > asked + 2)
            assert len(stage.reports) == 2, "discovery goes on, and the same is not said again"
            assert stage.server.unchanged > 2, "what is unchanged is not sent again"

    run(main())


def test_without_permission_for_an_optional_kind_pods_are_bound_and_the_missing_rule_is_said() -> None:
    async def main() -> None:
        def prepare(server: OlderServer) -> None:
            server.forbids.add(SLICES)

        async with a_stage(V1_37, {}, prepare) as stage:
            (report,) = stage.reports
            assert report.endswith(
                'Add this rule to the ClusterRole of the scheduler: {apiGroups: ["resource.k8s.io"], '
                'resources: ["resourceslices"], verbs: ["get", "list", "watch"]}'
            )
            note = "resourceslices.resource.k8s.io: the server does not allow get, list and watch"
            assert stage.live.reflectors.unwatched() == [note]
            await stage.device_class()
            await stage.device()
            await stage.pod("plain")
            await stage.pod("claiming", claims=True)
            await stage.until_bound("plain")
            stage.server.forbids.clear()
            await stage.until_bound("claiming")
            assert stage.live.reflectors.unwatched() == [] and len(stage.reports) == 1

    run(main())


@pytest.mark.parametrize("release", [V1_33, V1_37, NO_DEVICES], ids=["v1.33", "v1.37", "no devices"])
def test_where_discovery_is_forbidden_versions_are_tried_one_after_another(release: Release) -> None:
    async def main() -> None:
        def prepare(server: OlderServer) -> None:
            server.hides.update(("/api", "/apis"))

        async with a_stage(release, {"DRADeviceTaintRules": True}, prepare) as stage:
            await stage.device_class()
            await stage.device()
            await stage.pod("plain")
            await stage.pod("claiming", claims=True)
            await stage.until_bound("plain", *([] if release is NO_DEVICES else ["claiming"]))

    run(main())


# ---- upgrades under a running scheduler


def test_kinds_that_appear_are_watched_without_a_restart() -> None:
    async def main() -> None:
        async with a_stage(NO_DEVICES, {"DRADeviceTaintRules": True}) as stage:
            await stage.device_class()
            await stage.device()
            await stage.pod("claiming", claims=True)
            await asyncio.sleep(0.1)
            assert not stage.reflector(ResourceSlice).has_synced
            stage.server.release = V1_37  # no connection breaks: an API group was enabled
            await stage.until_bound("claiming")
            assert stage.live.reflectors.unwatched() == []

    run(main())


def test_kinds_that_disappear_are_forgotten_without_a_loop_of_errors() -> None:
    async def main() -> None:
        async with a_stage(V1_37) as stage:
            await stage.behind.post(f"{DEVICES}/devicetaintrules", RULE)
            rules = stage.reflector(DeviceTaintRule)
            await stage.until(lambda: bool(rules.objects))
            await stage.server.upgrade(V1_37.without(RULES))
            asked = len(stage.server.lines)
            await stage.until(lambda: not rules.objects)
            assert rules.refusal is not None and "the server does not serve devicetaintrules" in str(rules.refusal)
            told = [line for line in stage.server.lines[asked:] if "devicetaintrules" in line]
            assert len(told) <= 2, "the watch is not tried again before discovery shows the kind"
            assert len([report for report in stage.reports if "devicetaintrules" in report]) == 1
            await stage.server.upgrade(V1_37)
            await stage.until(lambda: bool(rules.objects))

    run(main())


@pytest.mark.parametrize(
    ("before", "after"), [(V1_33, V1_37), (V1_37, V1_33), (V1_36, V1_37)], ids=["up", "down", "one release"]
)
def test_an_upgrade_under_load_loses_nothing(before: Release, after: Release) -> None:
    """Pods with claims come all the time. Every pod is bound, no device is allocated twice, and what changed while the
    server was down is seen."""
    count = 60

    async def main() -> None:
        async with a_stage(before) as stage:
            await stage.device_class()
            for node in range(4):
                await stage.device(f"n{node}", count // 4)
            names = [f"p{each}" for each in range(count)]

            async def load() -> None:
                for name in names:
                    await stage.pod(name, claims=True)
                    await asyncio.sleep(0.005)

            loading = asyncio.create_task(load())
            await asyncio.sleep(0.15)
            await stage.server.upgrade(after, down_s=0.1)
            await loading
            await stage.until_bound(*names)
            listed = await stage.behind.get(f"{DEVICES}/namespaces/default/resourceclaims")
            taken = [
                (result["pool"], result["device"])
                for claim in listed["items"]
                for result in claim["status"]["allocation"]["devices"]["results"]
            ]
            assert len(taken) == count == len({*taken})
            await stage.until(lambda: len(stage.reflector(ResourceClaim).objects) == count)
            assert stage.live.scheduler.check() == []
            served = after.versions.get(CLAIMS, ("v1",))[0]
            assert stage.reflector(ResourceClaim).spec.version == served
            assert stage.server.count(f"PATCH /apis/resource.k8s.io/{served}/") > 0

    run(main())


def test_servers_that_contradict_each_other_do_not_stop_the_scheduler() -> None:
    """During a rolling upgrade discovery may come from the new server, and the watch from the old one."""

    async def main() -> None:
        async with a_stage(V1_36) as stage:
            rules = stage.reflector(DeviceTaintRule)
            await stage.behind.post(f"{DEVICES}/devicetaintrules", RULE)
            await stage.until(lambda: bool(rules.objects))
            for _ in range(6):
                await stage.server.upgrade(V1_37)
                await asyncio.sleep(0.02)
                await stage.server.upgrade(V1_36)
                await asyncio.sleep(0.02)
            assert rules.objects, "they are not dropped at once"
            await stage.behind.delete(f"{DEVICES}/devicetaintrules/r")
            await stage.until(lambda: not rules.objects)
            await stage.device()
            await stage.pod("plain")
            await stage.until_bound("plain")

    run(main())
