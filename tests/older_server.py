"""API servers of other releases: the embedded API server behind a translator that takes kinds and versions away.

async with an_older_server(V1_33) as server:
    ConnectionSettings(server.url)
    await server.upgrade(V1_37)      # all connections break, and other versions are served from now on

The translator has converters of its own, in the other direction than Mooring's.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from cluster_api import an_api
from mooring.api.api_errors import forbidden
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.http import HttpServer

JsonObject = dict[str, Any]
CLAIMS, TEMPLATES, CLASSES, SLICES, RULES = (
    f"{plural}.resource.k8s.io"
    for plural in ("resourceclaims", "resourceclaimtemplates", "deviceclasses", "resourceslices", "devicetaintrules")
)
GROUPS = "podgroups.scheduling.k8s.io"
_AGGREGATED = "as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class Release:
    """The versions of kinds, by resource; kinds that are not named are served as the embedded server does."""

    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_aggregated: bool = True
    """Whether discovery has one document for all groups."""

    def of(self, kind: KindSpec) -> tuple[str, ...]:
        return self.versions.get(kind.resource, (kind.version,))

    def without(self, *resources: str) -> "Release":
        return Release({**self.versions, **dict.fromkeys(resources, ())}, self.is_aggregated)


def _devices(*versions: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys((CLAIMS, TEMPLATES, CLASSES, SLICES), versions)


V1_33 = Release({**_devices("v1beta1"), RULES: ("v1alpha3",), GROUPS: ()})
V1_34 = Release({**_devices("v1", "v1beta2", "v1beta1"), RULES: (), GROUPS: ()})
V1_36 = Release({**_devices("v1"), RULES: ("v1beta2",), GROUPS: ("v1alpha2",)})
V1_37 = Release()
NO_DEVICES = Release({**_devices(), RULES: (), GROUPS: ()})
"""A server of v1.33 with default gates."""


# ---- the forms of v1beta1


def older(item: Any, version: str) -> Any:
    """An object of v1 as a server shows it under an older version."""
    item = {**item, "apiVersion": f"resource.k8s.io/{version}"} if "apiVersion" in item else item
    spec = item.get("spec")
    if version != "v1beta1" or not isinstance(spec, dict):
        return item
    if isinstance(spec.get("devices"), list):
        devices = [
            {"name": each["name"], "basic": {k: v for k, v in each.items() if k != "name"}} for each in spec["devices"]
        ]
        return {**item, "spec": {**spec, "devices": devices}}
    if isinstance(spec.get("devices"), dict):
        requests = []
        for each in spec["devices"].get("requests", ()):
            rest = {k: v for k, v in each.items() if k != "exactly"}
            requests.append({"deviceClassName": "", **rest, **each.get("exactly", {})})
        return {**item, "spec": {**spec, "devices": {**spec["devices"], "requests": requests}}}
    return item


def newer(item: Any, version: str) -> Any:
    """An object of a client as the embedded server takes it. An exact request in the form of v1 is a fault of the client."""
    if not isinstance(item, dict):
        return item
    if "apiVersion" in item:
        assert item["apiVersion"] == f"resource.k8s.io/{version}", item
        item = {**item, "apiVersion": "resource.k8s.io/v1"}
    devices = item.get("spec", {}).get("devices")
    if version != "v1beta1" or not isinstance(devices, dict):
        return item
    requests = []
    for each in devices["requests"]:
        assert "exactly" not in each, f"v1beta1 has no such field: {each}"
        asked = {k: v for k, v in each.items() if k not in ("name", "firstAvailable")}
        requests.append({k: v for k, v in each.items() if k not in asked} | ({"exactly": asked} if asked else {}))
    return {**item, "spec": {**item["spec"], "devices": {**devices, "requests": requests}}}


# ---- the server


@dataclass
class OlderServer:
    release: Release
    api: ResourceApi
    forbids: set[str] = field(default_factory=set)
    """Resources that nobody may list or watch."""
    hides: set[str] = field(default_factory=set)
    """Paths (`/apis`) that are answered with 403."""
    lines: list[str] = field(default_factory=list)
    """All requests (`GET /path`), in their order."""
    unchanged: int = 0
    """Documents of discovery that a client had already."""
    url: str = ""
    behind_url: str = ""
    session: aiohttp.ClientSession | None = None
    watching: set["asyncio.Task[Any]"] = field(default_factory=set)
    is_down: bool = False

    def count(self, start: str) -> int:
        return sum(line.startswith(start) for line in self.lines)

    async def upgrade(self, release: Release, down_s: float = 0.0) -> None:
        """The server stops, for a while, and another one of this release takes its place."""
        self.is_down, self.release = down_s > 0, release
        for task in [*self.watching]:
            task.cancel()
        await asyncio.sleep(down_s)
        self.is_down = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.lines.append(f"{request.method} {request.path}")
        if self.is_down:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=503)
        parts = request.path.strip("/").split("/")
        if request.path in self.hides:
            return _status(forbidden("", "", "no"))
        if parts[0] in ("api", "apis") and len(parts) <= (2 if parts[0] == "api" else 3):
            return self._discovery(request, parts)
        kind, version = self._target(parts)
        if kind is None:
            return web.Response(status=404, text="404 page not found\n")
        if kind.resource in self.forbids and request.method == "GET":
            return _status(forbidden(kind.plural, "", f'User "u" cannot list resource "{kind.plural}"', kind.group))
        return await self._pass_on(request, kind, version)

    def _target(self, parts: list[str]) -> tuple[KindSpec | None, str]:
        """The kind of a path and the version that it names; no kind if that is not served."""
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        found = [kind for kind in RESOURCES.values() if kind.group == group and kind.plural == rest[0]]
        return next((kind for kind in found if version in self.release.of(kind)), None), version

    # ---- discovery

    def _discovery(self, request: web.BaseRequest, parts: list[str]) -> web.Response:
        core = parts[0] == "api"
        kinds = [kind for kind in RESOURCES.values() if (not kind.group) is core]
        served = [(kind, version) for kind in kinds for version in self.release.of(kind)]
        if len(parts) == (2 if core else 3):
            group, version = ("", parts[1]) if core else (parts[1], parts[2])
            lines = [
                {"name": kind.plural, "kind": kind.kind, "verbs": [*kind.verbs]}
                for kind, named in served
                if (kind.group, named) == (group, version)
            ]
            return _json({"kind": "APIResourceList", "resources": lines}) if lines else web.Response(status=404)
        if self.release.is_aggregated and _AGGREGATED in request.headers.get("Accept", ""):
            return self._aggregated(request, served)
        if core:
            return _json({"kind": "APIVersions", "versions": ["v1"]})
        groups: dict[str, dict[str, None]] = {}
        for kind, version in served:
            groups.setdefault(kind.group, {})[f"{kind.group}/{version}"] = None
        listed = [{"name": name, "versions": [{"groupVersion": v} for v in all_]} for name, all_ in groups.items()]
        return _json({"kind": "APIGroupList", "groups": listed})

    def _aggregated(self, request: web.BaseRequest, served: list[tuple[KindSpec, str]]) -> web.Response:
        groups: dict[str, dict[str, list[JsonObject]]] = {}
        for kind, version in served:
            line = {"resource": kind.plural, "verbs": [*kind.verbs]}
            groups.setdefault(kind.group, {}).setdefault(version, []).append(line)
        items = [
            {"metadata": {"name": name}, "versions": [{"version": v, "resources": lines} for v, lines in all_.items()]}
            for name, all_ in groups.items()
        ]
        body = json.dumps({"kind": "APIGroupDiscoveryList", "items": items})
        etag = f'"{hash(body)}"'
        if request.headers.get("If-None-Match") == etag:
            self.unchanged += 1
            return web.Response(status=304)
        return web.Response(text=body, content_type="application/json", headers={"ETag": etag})

    # ---- resources

    async def _pass_on(self, request: web.BaseRequest, kind: KindSpec, version: str) -> web.StreamResponse:
        assert self.session is not None
        is_older = version != kind.version
        body = await request.read()
        if is_older and body and "patch" not in request.headers.get("Content-Type", ""):
            body = json.dumps(newer(json.loads(body), version)).encode()
        path = request.path_qs.replace(f"/{kind.group}/{version}/", f"/{kind.group}/{kind.version}/", 1)
        headers = {k: v for k, v in request.headers.items() if k in ("Accept", "Content-Type", "User-Agent")}
        async with self.session.request(
            request.method, self.behind_url + path, data=body or None, headers=headers
        ) as answer:
            if request.query.get("watch") == "true" and answer.status == 200:
                return await self._stream(request, answer, version if is_older else "")
            content = await answer.read()
            if is_older and answer.status < 300:
                content = json.dumps(_older_answer(json.loads(content), version)).encode()
            return web.Response(status=answer.status, body=content, content_type="application/json")

    async def _stream(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, version: str
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        response = web.StreamResponse()
        await response.prepare(request)
        self.watching.add(task)
        try:
            async for line in answer.content:
                if version:
                    event = json.loads(line)
                    line = json.dumps({**event, "object": older(event["object"], version)}).encode() + b"\n"
                await response.write(line)
        except asyncio.CancelledError:
            if request.transport is not None:
                request.transport.abort()
            raise
        finally:
            self.watching.discard(task)
        return response


def _older_answer(answer: JsonObject, version: str) -> JsonObject:
    if "items" not in answer:
        return older(answer, version)  # type: ignore[no-any-return]
    return {**older(answer, version), "items": [older(item, version) for item in answer["items"] or ()]}


def _json(body: JsonObject) -> web.Response:
    return web.json_response(body)


def _status(error: Any) -> web.Response:
    return web.json_response(error.status(), status=error.code)


@asynccontextmanager
async def an_older_server(release: Release, gates: Mapping[str, bool] | None = None) -> AsyncIterator[OlderServer]:
    behind = HttpServer(an_api(gates=gates))
    server = OlderServer(release, behind.api)
    server.behind_url = f"http://127.0.0.1:{await behind.start('127.0.0.1', 0)}"
    listener = web.Server(server.handle)
    runner = web.ServerRunner(listener, shutdown_timeout=0.01)
    await runner.setup()
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(None), connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        server.session = session
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield server
        finally:
            for task in [*server.watching]:
                task.cancel()
            await runner.cleanup()
            await behind.stop()
