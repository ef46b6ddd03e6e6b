"""Workloads that a question names are read from the API server when it is asked, and nothing else is."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from dashboard_stage import AnsweringThread
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiserver.server.http import HttpServer
from mooring.app.dashboards import SchedulerSource
from mooring.dashboard.interfaces import AskedChange, AskedChanges, ExplainPod, Question, Refused
from mooring.dashboard.questions import child_questions
from mooring.dashboard.questions.asked_cluster import (
    MAX_NAMED,
    AskedScheduler,
    named_workloads,
    objects_in_store,
    workloads_at,
)
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.framework.config import default
from virtual_cluster import VirtualCluster

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def asking(*changes: tuple[str, str]) -> AskedChanges:
    return AskedChanges([AskedChange(*change) for change in changes])


NAMED: dict[str, tuple[Question, list[tuple[str, str]]]] = {
    "a workload to scale": (asking(("scale", "Deployment/shop/web=5")), [("Deployment", "shop/web")]),
    "without a namespace, by a short name": (asking(("scale", "deploy/web=5")), [("Deployment", "web")]),
    "a workload to delete": (asking(("delete", "Job/shop/once")), [("Job", "shop/once")]),
    "twice the same": (asking(("scale", "sts/s/a=1"), ("delete", "StatefulSet/s/a")), [("StatefulSet", "s/a")]),
    "no workload": (asking(("delete", "Pod/shop/web-1"), ("drain", "Deployment/web=1")), []),
    "what cannot be read": (asking(("scale", "Deploy/web"), ("scale", "Nothing/x=1"), ("delete", "Deployment/")), []),
    "another question": (ExplainPod("shop", "web-1"), []),
}


@pytest.mark.parametrize(("question", "expected"), NAMED.values(), ids=NAMED.keys())
def test_workloads_are_found_in_the_question(question: Question, expected: list[tuple[str, str]]) -> None:
    assert [(spec.kind, rest) for spec, rest in named_workloads(question)] == expected


def test_a_question_names_a_limited_number() -> None:
    with pytest.raises(Refused, match=r"^the question names 21 workloads; ask about at most 20 at once$"):
        named_workloads(asking(*(("delete", f"Deployment/w-{i}") for i in range(MAX_NAMED + 1))))
    assert len(named_workloads(asking(*(("delete", f"Deployment/w-{i}") for i in range(MAX_NAMED))))) == MAX_NAMED


@pytest.fixture(autouse=True)
def answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions are answered by a thread."""
    monkeypatch.setattr(child_questions, "ChildProcess", AnsweringThread)


def a_shop() -> VirtualCluster:
    cluster = VirtualCluster()
    cluster.node("n1", "4")
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    cluster.ask("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.wait(30)
    return cluster


async def answer(cluster: VirtualCluster, question: Question, access: ConnectionSettings | None) -> Any:
    """From the store itself, or as `mooring run` asks."""
    source = SchedulerSource("run", cluster.clock)
    source.show(cluster.cluster.scheduler)
    asked = AskedScheduler(default())
    if access is None:
        questions = ChildQuestions(source, lambda: asked, objects_in_store(cluster.api))
    else:
        questions = ChildQuestions(source, lambda: asked, fetch=workloads_at(access, "tests/1"))
    return json.loads(await questions.ask(question))


@pytest.mark.parametrize("name", ["default/web", "web"])
def test_a_deployment_is_scaled_as_if_all_workloads_were_known(name: str) -> None:
    async def run() -> tuple[Any, Any]:
        cluster = a_shop()
        server = HttpServer(cluster.api)
        access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
        question = asking(("scale", f"Deployment/{name}=6"))
        try:
            return await answer(cluster, question, access), await answer(cluster, question, None)
        finally:
            await server.stop()

    read, known = asyncio.run(run())
    assert read == known
    assert len(read["answer"]["pending"]) == 2


def test_a_workload_that_is_not_there_is_refused_by_the_answer() -> None:
    async def run() -> None:
        cluster = a_shop()
        server = HttpServer(cluster.api)
        access = ConnectionSettings(f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}")
        try:
            await answer(cluster, asking(("scale", "Deployment/default/absent=1")), access)
        finally:
            await server.stop()

    with pytest.raises(Refused, match='no Deployment "default/absent" in the cluster') as refused:
        asyncio.run(run())
    assert refused.value.status == 422


@asynccontextmanager
async def refusing(status: int, message: str) -> AsyncIterator[ConnectionSettings]:
    """An API server that shows nothing."""

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield ConnectionSettings(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


REFUSED = {
    "Deployment/shop/web": "the scheduler may not read Deployment shop/web: allow the scheduler's account to get "
    "deployments.apps, or ask `mooring what-if` with your own credentials (no access)",
    "jobs/web": "the scheduler may not read Job web: allow the scheduler's account to list jobs.batch, "
    "or ask `mooring what-if` with your own credentials (no access)",
}


@pytest.mark.parametrize(("named", "text"), REFUSED.items(), ids=REFUSED.keys())
def test_where_rbac_forbids_it_the_text_says_what_to_grant(named: str, text: str) -> None:
    async def run() -> None:
        async with refusing(403, "no access") as access:
            await workloads_at(access, "tests/1")(asking(("scale", f"{named}=3")))

    with pytest.raises(Refused) as refused:
        asyncio.run(run())
    assert (refused.value.status, refused.value.message) == (403, text)


def test_a_server_that_does_not_answer_is_one_refusal() -> None:
    async def run() -> None:
        await workloads_at(ConnectionSettings("http://127.0.0.1:1"), "tests/1")(
            asking(("scale", "Deployment/shop/web=3"))
        )

    with pytest.raises(Refused, match="^the API server does not show Deployment shop/web: ") as refused:
        asyncio.run(run())
    assert refused.value.status == 503


@pytest.mark.parametrize("named", ["Deployment/shop/web", "Deployment/web"])
def test_a_fault_of_the_server_is_one_refusal_with_its_message(named: str) -> None:
    async def run() -> None:
        async with refusing(500, "etcd is full") as access:
            await workloads_at(access, "tests/1")(asking(("delete", named)))

    with pytest.raises(Refused) as refused:
        asyncio.run(run())
    where = named.removeprefix("Deployment/")
    assert (refused.value.status, refused.value.message) == (
        503,
        f"the API server does not show Deployment {where}: etcd is full",
    )
