"""Lists of a live cluster: at which version, in pages, what happens without permission, and what a faulty server can do."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.api_errors import ApiError
from mooring.api.kinds import BY_KIND, KINDS
from mooring.apiclient.http_requests import Unreadable
from mooring.inputs import live_source
from mooring.inputs.input_errors import LiveSourceError
from mooring.inputs.live_source import (
    EVENTS,
    LISTED,
    NODES,
    PODS,
    READER_ROLE,
    LiveLists,
    has_items,
    list_cluster,
    loss_without,
)

Asked = dict[str, str]
SERVER = "https://cluster"
GONE = ApiError(410, "Expired", "too old resource version")
CLAIMS, BUDGETS = KINDS["PersistentVolumeClaim"], KINDS["PodDisruptionBudget"]


def page(version: str, *items: Any, more: str = "") -> bytes:
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return json.dumps({"metadata": metadata, "items": items}).encode()


def forbidden(name: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{name} is forbidden: User "eve" cannot list resource "{name}"')


PENDING = {"metadata": {"name": "web"}, "spec": {}}
PLACED = {"metadata": {"name": "db"}, "spec": {"nodeName": "n"}}


@dataclass
class Server:
    """Answers lists; `special` has the answers for some paths, by path: a page, an error, or a function of what was asked."""

    special: dict[str, Any] = field(default_factory=dict)
    version: int = 7
    asked: list[tuple[str, Asked]] = field(default_factory=list)

    async def get_bytes(self, path: str, params: Asked | None = None) -> bytes:
        self.asked.append((path, dict(params or {})))
        answer = self.special.get(path, page(str(self.version)))
        if callable(answer):
            answer = answer(params or {})
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    def of(self, path: str) -> list[Asked]:
        return [params for each, params in self.asked if each == path]


def listed(server: Server) -> LiveLists:
    return asyncio.run(list_cluster(server, SERVER))


def test_every_resource_is_listed_at_the_version_of_the_pods() -> None:
    server = Server()
    lists = listed(server)
    assert server.asked[0] == (
        "/api/v1/pods",
        {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed", "limit": "500"},
    )
    assert {path for path, _ in server.asked} == {f"{spec.path}/{spec.plural}" for spec in (*LISTED, EVENTS)}
    assert all(
        params == {"limit": "500", "resourceVersion": "7", "resourceVersionMatch": "Exact"}
        for path, params in server.asked[1:-1]
    )
    assert server.asked[-1] == ("/api/v1/events", {"fieldSelector": "reason=FailedCreate", "limit": "500"})
    assert (lists.moved, lists.notes(), [*lists.pages]) == ([], [], [*LISTED, EVENTS])


def test_secrets_and_config_maps_are_never_listed() -> None:
    assert not {"secrets", "configmaps"} & {spec.plural for spec in (*LISTED, EVENTS)}
    assert set(KINDS.values()) <= {*LISTED}
    assert BY_KIND["apps/v1", "Deployment"] in LISTED
    assert BY_KIND["batch/v1", "CronJob"] not in LISTED


def test_the_other_pages_of_a_list_have_the_version_in_their_token() -> None:
    def nodes(asked: Asked) -> bytes:
        return page("7") if "continue" in asked else page("7", more="next")

    server = Server({"/api/v1/nodes": nodes})
    assert len(listed(server).pages[NODES]) == 2
    assert server.of("/api/v1/nodes")[1] == {"limit": "500", "continue": "next"}


def newest(version: str) -> Callable[[Asked], bytes | ApiError]:
    """A server that has lost the version of the pods."""
    return lambda asked: GONE if "resourceVersion" in asked else page(version)


def test_a_resource_without_that_version_is_listed_as_it_is_now_and_told() -> None:
    server = Server({"/api/v1/persistentvolumeclaims": newest("9")})
    lists = listed(server)
    assert len(server.of("/api/v1/nodes")) == 1
    assert lists.moved == [CLAIMS]
    assert lists.notes() == [
        "the cluster changed while it was listed: persistentvolumeclaims may be newer than the pods"
    ]


def test_everything_is_listed_once_more_if_the_nodes_are_of_another_version() -> None:
    server = Server({"/api/v1/nodes": newest("9")})
    assert listed(server).moved == [NODES]
    assert len(server.of("/api/v1/pods")) == 2


def test_the_second_time_may_be_at_one_version() -> None:
    answers = [GONE, page("9"), page("7")]
    server = Server({"/api/v1/nodes": lambda asked: answers.pop(0)})
    assert (listed(server).moved, answers) == ([], [])


def test_a_list_that_expires_between_two_pages_is_asked_for_in_one() -> None:
    def pods(asked: Asked) -> bytes | ApiError:
        if "limit" not in asked:
            return page("8", PLACED)
        return GONE if "continue" in asked else page("7", more="next")

    assert listed(Server({"/api/v1/pods": pods}, version=8)).pages[PODS] == [page("8", PLACED)]


def test_a_server_without_time_is_not_asked_for_everything_at_once() -> None:
    server = Server({"/api/v1/nodes": ApiError(504, "Timeout", "the server has no time")})
    with pytest.raises(ApiError, match="no time"):
        listed(server)
    assert [asked["limit"] for asked in server.of("/api/v1/nodes")] == ["500", "500"]


def test_without_permission_for_a_resource_the_loss_is_told() -> None:
    refused = {f"{spec.path}/{spec.plural}": forbidden(spec.plural) for spec in (BUDGETS, CLAIMS)}
    lists = listed(Server(refused))
    assert lists.notes() == [
        "you may not list persistentvolumeclaims: pods with volume claims look as if their claims did not exist",
        "you may not list poddisruptionbudgets.policy: no budget protects pods",
        f"{READER_ROLE} has the ClusterRole mooring-reader, which allows all lists",
    ]
    assert CLAIMS not in lists.pages


def test_every_kind_has_a_loss_of_its_own() -> None:
    generic = [spec.kind for spec in (*LISTED, EVENTS) if loss_without(spec) == "answers may be wrong"]
    assert generic == ["Pod", "Node"]


@pytest.mark.parametrize("spec", [PODS, NODES], ids=["pods", "nodes"])
def test_without_permission_for_pods_or_nodes_there_is_no_answer(spec: Any) -> None:
    with pytest.raises(LiveSourceError) as raised:
        listed(Server({f"/api/v1/{spec.plural}": forbidden(spec.plural)}))
    assert str(raised.value) == (
        f"https://cluster: you may not list {spec.plural}, and there is no answer without them; "
        f"the ClusterRole mooring-reader in {READER_ROLE} allows it: "
        f'{spec.plural} is forbidden: User "eve" cannot list resource "{spec.plural}"'
    )


def test_a_kind_that_is_not_served_counts_as_empty() -> None:
    missing = ApiError(404, "NotFound", "the server could not find the requested resource")
    unserved = [spec for spec in LISTED if spec.group == "resource.k8s.io" or spec.kind == "PodGroup"]
    paths = [spec.in_version(written).url() for spec in unserved for written in spec.api_versions]
    lists = listed(Server(dict.fromkeys(paths, missing)))
    assert lists.notes() == [
        "the server does not serve resourceclaims.resource.k8s.io, resourceclaimtemplates.resource.k8s.io, "
        "deviceclasses.resource.k8s.io, resourceslices.resource.k8s.io: answers assume that there are none"
    ]
    assert "podgroups.scheduling.k8s.io" in [spec.resource for spec in lists.unserved]


def test_a_kind_is_listed_in_the_version_that_is_served() -> None:
    missing = ApiError(404, "NotFound", "the server could not find the requested resource")
    claims = KINDS["ResourceClaim"]
    paths = [claims.in_version(f"resource.k8s.io/{version}").url() for version in ("v1", "v1beta2", "v1beta1")]
    server = Server(dict.fromkeys(paths[:2], missing))
    lists = listed(server)
    assert claims in lists.pages and not lists.notes()
    assert [path for path, _ in server.asked if path in paths] == paths
    assert lists.listed_as[claims].url() == paths[2]


def test_another_error_of_the_server_is_raised() -> None:
    with pytest.raises(ApiError, match="broken"):
        listed(Server({"/api/v1/services": ApiError(500, "InternalError", "broken")}))


# ---- events


def test_events_about_pods_are_listed_if_a_pod_is_pending() -> None:
    server = Server({"/api/v1/pods": page("7", PLACED, PENDING)})
    assert [*listed(server).pages][-1] is EVENTS
    assert server.of("/api/v1/events") == [
        {"fieldSelector": "reason=FailedCreate", "limit": "500"},
        {"fieldSelector": "involvedObject.kind=Pod", "limit": "500"},
    ]


def test_only_so_many_events_are_read() -> None:
    server = Server({"/api/v1/pods": page("7", PENDING), "/api/v1/events": page("7", more="next")})
    assert listed(server).notes() == ["only the first 10000 events were read"]
    assert len(server.of("/api/v1/events")) == 40
    assert server.of("/api/v1/events")[21] == {
        "fieldSelector": "involvedObject.kind=Pod",
        "limit": "500",
        "continue": "next",
    }


def test_answers_do_without_events() -> None:
    server = Server({"/api/v1/pods": page("7", PENDING), "/api/v1/events": forbidden("events")})
    assert listed(server).notes()[0] == (
        "you may not list events: explanations have no history, and do not know why controllers created no pods"
    )


# ---- faulty servers


def test_a_list_without_objects_may_be_null_or_missing() -> None:
    assert [has_items(text) for text in (b'{"items": null}', b"{}", b'{"items": []}')] == [False, False, True]
    nothing = b'{"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": null}'
    assert listed(Server({"/api/v1/pods": nothing})).pages[PODS] == [nothing]


def test_an_answer_that_is_not_a_list_is_refused() -> None:
    with pytest.raises(Unreadable, match="GET /api/v1/nodes: the answer is not a list of the API"):
        listed(Server({"/api/v1/nodes": b'{"metadata": []}'}))


def test_a_list_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_source, "MAX_PAGES", 3)
    with pytest.raises(LiveSourceError, match="https://cluster: nodes have more than 3 pages"):
        listed(Server({"/api/v1/nodes": page("7", more="next")}))


def test_lists_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_source, "MAX_BYTES", 1000)
    with pytest.raises(LiveSourceError, match="https://cluster: the lists have more than 1000 bytes"):
        listed(Server({"/api/v1/nodes": page("7", "x" * 2000)}))
