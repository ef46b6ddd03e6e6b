"""Real use of pods: from a metrics-server, from a Prometheus and from files; what cannot be read says why."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.inputs.input_errors import InputError
from mooring.inputs.real_use import NODE_METRICS, POD_METRICS, QUERIES, InUse, listed_metrics, read_node_use, read_use
from mooring.model.quantity import MAX_AMOUNT

METRICS = {
    "kind": "PodMetricsList",
    "apiVersion": "metrics.k8s.io/v1beta1",
    "items": [
        {
            "metadata": {"name": "web-0", "namespace": "shop"},
            "containers": [
                {"name": "main", "usage": {"cpu": "150212345n", "memory": "100Mi"}},
                {"name": "side", "usage": {"cpu": "3m", "memory": "28Mi"}},
            ],
        },
        {"metadata": {"name": "odd", "namespace": "shop"}, "containers": [{"usage": {"cpu": "much"}}]},
        {"metadata": {"name": "new", "namespace": "shop"}},
    ],
}
USE = {"shop/web-0": InUse(154, 128 << 20), "shop/odd": InUse(0, 0), "shop/new": InUse(0, 0)}
"""By hand: 150.2 milli are 151, because amounts are rounded up."""


def a_vector(values: dict[str, str], labels: tuple[str, ...] = ("namespace", "pod")) -> bytes:
    result = [
        {"metric": dict(zip(labels, key.split("/"), strict=False)), "value": [1.7e9, value]}
        for key, value in values.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


class Answers(BaseHTTPRequestHandler):
    """A metrics-server and a Prometheus in one."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        query = parse_qs(asked.query).get("query", [""])[0]
        code, body = 404, b"404 page not found"
        if asked.path == POD_METRICS:
            code, body = 200, json.dumps(METRICS).encode()
        elif asked.path == NODE_METRICS:
            node = {"metadata": {"name": "n1"}, "usage": {"cpu": "1500m", "memory": "1Gi"}}
            code, body = 200, json.dumps({"items": [node]}).encode()
        elif asked.path == "/api/v1/query":
            code, body = self.answered(query)
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answered(self, query: str) -> tuple[int, bytes]:
        if query == QUERIES["cpu"]:
            return 200, a_vector({"shop/web-0": "0.25", "shop/odd": "NaN", "no-labels": "1", "shop/vast": "1e300"})
        if query == QUERIES["memory"]:
            return 200, a_vector({"shop/web-0": "1000", "shop/cache": "5e6"})
        if query == QUERIES["nodeCpu"]:
            return 200, a_vector({"n1": "1.5"}, ("node",))
        if query == QUERIES["nodeMemory"]:
            return 200, a_vector({"n1": "4096"}, ("node",))
        if query == "mine":
            return (200, a_vector({"a/b": "2"})) if self.headers["Authorization"] == "Bearer secret" else (401, b"")
        if query == "1":
            return 200, json.dumps({"status": "success", "data": {"resultType": "scalar"}}).encode()
        return 400, json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error at char 1"}).encode()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def nowhere() -> ConnectionSettings:
    raise AssertionError("no cluster is asked")


def test_metrics_of_a_file_are_summed_over_containers(tmp_path: Path) -> None:
    file = tmp_path / "use.json"
    file.write_text(json.dumps(METRICS))
    assert read_use(str(file), nowhere) == USE


def connection_to(url: str, tmp_path: Path) -> ConnectionSettings:
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    clusters = [{"name": "c", "cluster": {"server": url}}]
    users = [{"name": "u", "user": {}}]
    kubeconfig.write_text(
        json.dumps({"current-context": "c", "contexts": [context], "clusters": clusters, "users": users})
    )
    return find_connection(kubeconfig)


def test_a_metrics_server_is_asked_through_the_api_server(url: str, tmp_path: Path) -> None:
    assert read_use("metrics-server", lambda: connection_to(url, tmp_path)) == USE


@pytest.mark.parametrize(
    ("source", "memory"), [("metrics-server", 1 << 30), ("", 4096)], ids=["metrics-server", "prometheus"]
)
def test_use_of_nodes(url: str, tmp_path: Path, source: str, memory: int) -> None:
    found = asyncio.run(read_node_use(source or url, connection_to(url, tmp_path)))
    assert found == {"n1": InUse(1500, memory)}


def test_use_of_nodes_is_asked_again_and_again_so_that_a_file_of_one_moment_will_not_do(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "use.json").write_text(json.dumps(METRICS))
    with pytest.raises(InputError, match="use.json: has metrics of one moment; name metrics-server"):
        asyncio.run(read_node_use(str(tmp_path / "use.json"), connection_to(url, tmp_path)))


def test_prometheus_answers_two_queries(url: str) -> None:
    """Cores become milli, a pod may be in one answer alone, and what is no number is nothing."""
    assert read_use(url, nowhere) == {
        "shop/web-0": InUse(250, 1000),
        "shop/odd": InUse(0, 0),
        "shop/vast": InUse(MAX_AMOUNT, 0),
        "shop/cache": InUse(0, 5_000_000),
    }


def test_a_file_names_queries_and_a_token(url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "use.yaml"
    queries = {"cpu": "mine", "memory": "mine"}
    file.write_text(json.dumps({"prometheus": {"url": url, "tokenFile": str(tmp_path / "token"), "queries": queries}}))
    assert read_use(str(file), nowhere) == {"a/b": InUse(2000, 2)}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("url: {url}\n  queries: {{cpu: '('}}", "{url}: Prometheus cannot answer '(': parse error at char 1"),
        (
            "url: {url}\n  queries: {{memory: '1'}}",
            "{url}: Prometheus cannot answer '1': the answer is a scalar, and not a vector",
        ),
        ("url: {url}\n  queries: {{cpu: mine}}", "{url}: 401 Unauthorized"),
        (
            "url: {url}\n  queries: {{gpu: x}}",
            "prometheus.queries.gpu: must be one of cpu, memory, nodeCpu, nodeMemory",
        ),
        ("url: {url}\n  tokenFile: /nowhere", "prometheus.tokenFile: /nowhere cannot be read as a token"),
        ("url: {url}/elsewhere", "{url}/elsewhere: 404 Not Found"),
        ("url: http://127.0.0.1:1", "Cannot connect to host 127.0.0.1:1"),
        ("url: nonsense", "nonsense: "),
        ("queries: {{}}", "{file}: Object missing required field `url` - at `$.prometheus`"),
        ("url: x\n  colour: red", "{file}: Object contains unknown field `colour` - at `$.prometheus`"),
    ],
)
def test_a_source_that_cannot_be_used(url: str, tmp_path: Path, settings: str, said: str) -> None:
    file = tmp_path / "use.yaml"
    file.write_text(f"prometheus:\n  {settings.format(url=url)}\n")
    with pytest.raises(InputError) as refused:
        read_use(str(file), nowhere)
    assert said.format(url=url, file=file) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"items": 3}', "use.json: Expected `array | null`, got `int` - at `$.items`"),
        (b"{" * 100_000, "use.json: "),
        (
            b'{"items": [{"metadata": {"name": 3}}]}',
            "use.json: Expected `str`, got `int` - at `$.items[0].metadata.name`",
        ),
    ],
)
def test_metrics_that_cannot_be_read(content: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        listed_metrics(content, "use.json")
    assert str(refused.value).startswith(said)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="/nowhere: cannot be read: No such file or directory"):
        read_use("/nowhere", nowhere)
