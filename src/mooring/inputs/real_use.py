"""Reads the real use of pods and nodes, beside what is requested: from metrics-server, from Prometheus, or from a file.

No decision depends on it. Questions show it where a request is far above use, and the dashboard on its map.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, TypeVar

import aiohttp
import msgspec
from yarl import URL

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import Unanswered
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import MIB, read_body, read_file
from mooring.kit.logs import Log
from mooring.model.quantity import MAX_AMOUNT, parse_or, to_int, to_milli

METRICS_SERVER = "metrics-server"
"""The source that every cluster with `kubectl top` has."""
POD_METRICS, NODE_METRICS = "/apis/metrics.k8s.io/v1beta1/pods", "/apis/metrics.k8s.io/v1beta1/nodes"
MAX_ANSWER_BYTES = 256 * MIB
"""200,000 pods with two containers each take some 80 MB."""
ANSWER_S = 30.0
"""Prometheus gives up after two minutes by default; a person who waits for an answer does so earlier."""
QUERIES = {
    "cpu": 'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}[5m]))',
    "memory": 'sum by (namespace, pod) (container_memory_working_set_bytes{container!=""})',
    "nodeCpu": 'sum by (node) (rate(container_cpu_usage_seconds_total{container!=""}[5m]))',
    "nodeMemory": 'sum by (node) (container_memory_working_set_bytes{container!=""})',
}
"""Queries for Prometheus, with the names that every kubelet exports: cores, and bytes. The label `node` is what most
installations give to the metrics of a kubelet."""
OF_PODS, OF_NODES = ("cpu", "memory"), ("nodeCpu", "nodeMemory")


class InUse(NamedTuple):
    """The use of one pod by its containers, or of one node by its pods."""

    cpu_milli: int
    memory_bytes: int


RealUse = Mapping[str, InUse]
"""By pod, as `namespace/name`, or by node. Those that the source does not know are missing."""


class PrometheusSource(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """How a Prometheus is asked: the part `prometheus` of a file."""

    url: str
    token_file: str = ""
    """A file with a bearer token; empty: requests have none."""
    queries: dict[str, str] = {}
    """PromQL for `cpu` (cores) and `memory` (bytes) with the labels namespace and pod, for `nodeCpu` and `nodeMemory` with
    the label node; QUERIES has those that are not named."""


class _SourceFile(msgspec.Struct, forbid_unknown_fields=True):
    prometheus: PrometheusSource


Connect = Callable[[], ConnectionSettings]
"""Finds the cluster that has the metrics-server. Raises LiveSourceError."""
T = TypeVar("T")


def read_use(source: str, connect: Connect) -> RealUse:
    """The use of all pods from a source: `metrics-server`, the URL of a Prometheus, or a file. Raises InputError."""
    if source == METRICS_SERVER:
        return asyncio.run(_from_metrics_server(connect(), POD_METRICS))
    found = _prometheus_or_metrics(source)
    return found if isinstance(found, dict) else asyncio.run(_from_prometheus(found, OF_PODS))


async def read_node_use(source: str, connection: ConnectionSettings) -> RealUse:
    """The use of all nodes from `metrics-server`, a Prometheus, or a file that describes one. Raises InputError."""
    if source == METRICS_SERVER:
        return await _from_metrics_server(connection, NODE_METRICS)
    found = _prometheus_or_metrics(source)
    if isinstance(found, dict):
        raise InputError(f"{source}: has metrics of one moment; name metrics-server, a Prometheus, or a file about one")
    return await _from_prometheus(found, OF_NODES)


def _prometheus_or_metrics(source: str) -> "PrometheusSource | dict[str, InUse]":
    """The Prometheus that a URL or a file names, or the pods of a file that has the answer of a metrics-server. Raises
    InputError."""
    return PrometheusSource(source) if source.startswith(("http://", "https://")) else _from_file(source)


def _from_file(name: str) -> "PrometheusSource | dict[str, InUse]":
    try:
        content = read_file(name, MAX_ANSWER_BYTES)
    except (OSError, ValueError) as fault:
        raise InputError(f"{name}: cannot be read: {getattr(fault, 'strerror', None) or fault}") from None
    if content.lstrip()[:1] == b"{" and b'"prometheus"' not in content[:1000]:
        return listed_metrics(content, name)
    return decoded(content, name, _SourceFile, is_yaml=True).prometheus


def decoded(content: bytes, name: str, form: type[T], *, is_yaml: bool = False) -> T:
    """The content in a form. Raises InputError with the place that does not fit."""
    try:
        found: T = (msgspec.yaml if is_yaml else msgspec.json).decode(content, type=form)
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{name}: {fault}") from None
    return found


# ---- metrics-server


class _Usage(msgspec.Struct):
    usage: dict[str, str] = {}


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Metrics(msgspec.Struct):
    metadata: _Named
    containers: list[_Usage] | None = None
    """Of a pod."""
    usage: dict[str, str] = {}
    """Of a node."""


class _MetricsList(msgspec.Struct):
    items: list[_Metrics] | None = None


def listed_metrics(content: bytes, name: str) -> dict[str, InUse]:
    """A PodMetricsList or NodeMetricsList of metrics.k8s.io; a pod uses what its containers do. Raises InputError."""
    listed = decoded(content, name, _MetricsList).items or ()
    return {
        "/".join(filter(None, (each.metadata.namespace, each.metadata.name))): _sum_of(
            [each.usage, *(container.usage for container in each.containers or ())]
        )
        for each in listed
    }


def _sum_of(parts: Sequence[Mapping[str, str]]) -> InUse:
    cpu = sum(to_milli(parse_or(part.get("cpu", "0"), 0)) for part in parts)
    memory = sum(to_int(parse_or(part.get("memory", "0"), 0)) for part in parts)
    return InUse(_amount(cpu), _amount(memory))


def _amount(number: float) -> int:
    """A whole amount from 0 to the largest that columns hold; 0 for what is no number."""
    return 0 if math.isnan(number) else int(min(max(number, 0), MAX_AMOUNT))


async def _from_metrics_server(connection: ConnectionSettings, path: str) -> RealUse:
    url = f"{connection.server}{path}"
    try:
        async with ApiClient(connection, "mooring-answers") as client:
            return listed_metrics(await client.get_bytes(path), url)
    except ApiError as fault:
        if fault.code == HTTPStatus.NOT_FOUND:
            raise InputError(
                f"{url}: the cluster has no metrics-server; --use takes the URL of a Prometheus too"
            ) from None
        raise InputError(f"{url}: {fault.message} ({fault.code})") from None
    except (Unanswered, CredentialsError) as fault:
        raise InputError(f"{connection.server}: {fault}") from None


# ---- Prometheus


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Sample] | None = None


class _QueryAnswer(msgspec.Struct):
    status: str = ""
    error: str = ""
    data: _Vector = msgspec.field(default_factory=_Vector)


async def _from_prometheus(source: PrometheusSource, names: Sequence[str]) -> RealUse:
    """The answers to two queries: cpu and memory."""
    unknown = sorted(set(source.queries) - set(QUERIES))
    if unknown:
        raise InputError(f"prometheus.queries.{unknown[0]}: must be one of {', '.join(QUERIES)}")
    headers = {"Authorization": f"Bearer {_token(source.token_file)}"} if source.token_file else {}
    asked = {**QUERIES, **source.queries}
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(ANSWER_S), headers=headers, trust_env=True
        ) as session:
            cpu, memory = [await _by_name(session, source.url, asked[name]) for name in names]
    except (aiohttp.ClientError, TimeoutError, ValueError) as fault:
        told = f"no answer within {ANSWER_S:.0f} s" if isinstance(fault, TimeoutError) else fault
        raise fault if isinstance(fault, InputError) else InputError(f"{source.url}: {told}") from None
    return {key: InUse(_amount(1000 * cpu.get(key, 0)), _amount(memory.get(key, 0))) for key in {**cpu, **memory}}


def _token(name: str) -> str:
    try:
        return read_file(Path(name)).decode("ascii").strip()
    except (OSError, ValueError):
        raise InputError(f"prometheus.tokenFile: {name} cannot be read as a token") from None


async def _by_name(session: aiohttp.ClientSession, url: str, query: str) -> dict[str, float]:
    """The values of an instant query, by pod or by node. Samples without these labels are left out."""
    body = await _answer(session.get(URL(url) / "api/v1/query", params={"query": query}), url)
    answer = decoded(body, url, _QueryAnswer)
    if answer.status != "success" or answer.data.result_type != "vector":
        why = answer.error or f"the answer is a {answer.data.result_type or 'text'}, and not a vector"
        raise InputError(f"{url}: Prometheus cannot answer {query!r}: {why}")
    named = ((_name_in(each.metric), each.value[1]) for each in answer.data.result or ())
    return {name: _number(value) for name, value in named if name}


def _name_in(labels: Mapping[str, str]) -> str:
    """`namespace/pod`, or the node; empty if the labels have neither."""
    pod = labels.get("namespace", ""), labels.get("pod", "")
    return "/".join(pod) if all(pod) else labels.get("node", "")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


async def _answer(sending: "Awaitable[aiohttp.ClientResponse]", url: str) -> bytes:
    """The body of an answer. Prometheus says in a JSON body why it refuses a query (400, 422)."""
    response = await sending
    try:
        body = await read_body(response, MAX_ANSWER_BYTES)
        if body is None:
            raise InputError(f"{url}: the answer has more than {MAX_ANSWER_BYTES // MIB} MiB; narrow the query")
        if response.status not in (200, 400, 422):
            raise InputError(f"{url}: {response.status} {response.reason}")
        return body
    finally:
        response.release()


# ---- readings that are repeated, for the map of the dashboard

EVERY_S = 30.0
"""A metrics-server has new figures every 15 to 60 seconds."""
STALE_READINGS = 10
"""After so many readings in a row that failed, five minutes, the last figures are not shown any more."""


class RealUseReadings:
    """`latest` is the last reading: another object after each one, and empty before the first."""

    def __init__(self, source: str, connection: ConnectionSettings, log: Log) -> None:
        self._source, self._connection, self._log = source, connection, log
        self.latest: RealUse = {}
        self._failed = 0

    async def follow(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await sleep(EVERY_S)

    async def read(self) -> None:
        """Read once. The first of several failures is logged, and the end of them."""
        try:
            found = await read_node_use(self._source, self._connection)
        except InputError as fault:
            self._failed += 1
            if self._failed == 1:
                self._log.warning("Real use of nodes cannot be read", problem=str(fault))
            if self._failed == STALE_READINGS:
                self.latest = {}
            return
        if self._failed:
            self._log.info("Real use of nodes is read again", failures=self._failed)
        self._failed, self.latest = 0, found
