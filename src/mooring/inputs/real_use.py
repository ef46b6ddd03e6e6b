"""What pods really use, beside what they request: from metrics-server, from Prometheus, or from a file.

No decision depends on it. Questions show it where a request is far above use.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
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
from mooring.apiclient.request_errors import Unanswered
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import MIB, read_body, read_file
from mooring.model.quantity import MAX_AMOUNT, parse_or, to_int, to_milli

METRICS_SERVER = "metrics-server"
"""The source that every cluster with `kubectl top` has."""
POD_METRICS = "/apis/metrics.k8s.io/v1beta1/pods"
MAX_ANSWER_BYTES = 256 * MIB
"""200,000 pods with two containers each take some 80 MB."""
ANSWER_S = 30.0
"""Prometheus gives up after two minutes by default; a person who waits for an answer does so earlier."""
QUERIES = {
    "cpu": 'sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}[5m]))',
    "memory": 'sum by (namespace, pod) (container_memory_working_set_bytes{container!=""})',
}
"""What Prometheus is asked, with the names that every kubelet exports: cores, and bytes."""


class PodUse(NamedTuple):
    """What the containers of one pod use together."""

    cpu_milli: int
    memory_bytes: int


RealUse = Mapping[str, PodUse]
"""By pod, as `namespace/name`. Pods that the source does not know are missing."""


class PrometheusSource(msgspec.Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """How a Prometheus is asked: the part `prometheus` of a file."""

    url: str
    token_file: str = ""
    """A file with a bearer token; empty: requests have none."""
    queries: dict[str, str] = {}
    """PromQL for `cpu` (cores) and `memory` (bytes), with the labels namespace and pod; QUERIES for what is not named."""


class _SourceFile(msgspec.Struct, forbid_unknown_fields=True):
    prometheus: PrometheusSource


Connect = Callable[[], ConnectionSettings]
"""Finds the cluster that has the metrics-server. Raises LiveSourceError."""
T = TypeVar("T")


def read_use(source: str, connect: Connect) -> RealUse:
    """The use of all pods from a source: `metrics-server`, the URL of a Prometheus, or a file. Raises InputError."""
    if source == METRICS_SERVER:
        return asyncio.run(_from_metrics_server(connect()))
    if source.startswith(("http://", "https://")):
        return asyncio.run(_from_prometheus(PrometheusSource(source)))
    return _from_file(source)


def _from_file(name: str) -> RealUse:
    """A file has the answer of a metrics-server, or says how a Prometheus is asked."""
    try:
        content = read_file(name, MAX_ANSWER_BYTES)
    except (OSError, ValueError) as fault:
        raise InputError(f"{name}: cannot be read: {getattr(fault, 'strerror', None) or fault}") from None
    if content.lstrip()[:1] == b"{" and b'"prometheus"' not in content[:1000]:
        return pod_metrics(content, name)
    return asyncio.run(_from_prometheus(decoded(content, name, _SourceFile, is_yaml=True).prometheus))


def decoded(content: bytes, name: str, form: type[T], *, is_yaml: bool = False) -> T:
    """The content in a form. Raises InputError with the place that does not fit."""
    try:
        found: T = (msgspec.yaml if is_yaml else msgspec.json).decode(content, type=form)
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{name}: {fault}") from None
    return found


# ---- metrics-server


class _ContainerMetrics(msgspec.Struct):
    usage: dict[str, str] = {}


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Named
    containers: list[_ContainerMetrics] | None = None


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] | None = None


def pod_metrics(content: bytes, name: str) -> RealUse:
    """A PodMetricsList of metrics.k8s.io: the sum over the containers of each pod. Raises InputError."""
    listed = decoded(content, name, _PodMetricsList).items or ()
    return {f"{each.metadata.namespace}/{each.metadata.name}": _sum_of(each.containers or ()) for each in listed}


def _sum_of(containers: "list[_ContainerMetrics] | tuple[()]") -> PodUse:
    cpu = sum(to_milli(parse_or(each.usage.get("cpu", "0"), 0)) for each in containers)
    memory = sum(to_int(parse_or(each.usage.get("memory", "0"), 0)) for each in containers)
    return PodUse(_amount(cpu), _amount(memory))


def _amount(number: float) -> int:
    """A whole amount from 0 to the largest that columns hold; 0 for what is no number."""
    return 0 if math.isnan(number) else int(min(max(number, 0), MAX_AMOUNT))


async def _from_metrics_server(connection: ConnectionSettings) -> RealUse:
    url = f"{connection.server}{POD_METRICS}"
    try:
        async with ApiClient(connection, "mooring-answers") as client:
            return pod_metrics(await client.get_bytes(POD_METRICS), url)
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


async def _from_prometheus(source: PrometheusSource) -> RealUse:
    unknown = sorted(set(source.queries) - set(QUERIES))
    if unknown:
        raise InputError(f"prometheus.queries.{unknown[0]}: must be cpu or memory")
    headers = {"Authorization": f"Bearer {_token(source.token_file)}"} if source.token_file else {}
    asked = {**QUERIES, **source.queries}
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(ANSWER_S), headers=headers, trust_env=True
        ) as session:
            cpu, memory = [await _by_pod(session, source.url, asked[name]) for name in QUERIES]
    except (aiohttp.ClientError, TimeoutError, ValueError) as fault:
        told = f"no answer within {ANSWER_S:.0f} s" if isinstance(fault, TimeoutError) else fault
        raise fault if isinstance(fault, InputError) else InputError(f"{source.url}: {told}") from None
    return {pod: PodUse(_amount(1000 * cpu.get(pod, 0)), _amount(memory.get(pod, 0))) for pod in {**cpu, **memory}}


def _token(name: str) -> str:
    try:
        return read_file(Path(name)).decode("ascii").strip()
    except (OSError, ValueError):
        raise InputError(f"prometheus.tokenFile: {name} cannot be read as a token") from None


async def _by_pod(session: aiohttp.ClientSession, url: str, query: str) -> dict[str, float]:
    """The values of an instant query, by pod. Samples without both labels are left out."""
    body = await _answer(session.get(URL(url) / "api/v1/query", params={"query": query}), url)
    answer = decoded(body, url, _QueryAnswer)
    if answer.status != "success" or answer.data.result_type != "vector":
        why = answer.error or f"the answer is a {answer.data.result_type or 'text'}, and not a vector"
        raise InputError(f"{url}: Prometheus cannot answer {query!r}: {why}")
    labelled = ((each.metric, each.value[1]) for each in answer.data.result or ())
    return {
        f"{labels['namespace']}/{labels['pod']}": _number(value)
        for labels, value in labelled
        if "namespace" in labels and "pod" in labels
    }


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
