"""The live driver and writes of claims and volumes: each is answered once, whatever becomes of it."""

import asyncio
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from build_storage import a_claim, a_class, using
from mooring.api.api_errors import conflict
from mooring.apiclient.throttle import Timing
from mooring.drivers.api_writer import request_of
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.status_writer import StatusWriter
from mooring.framework import config
from mooring.framework.contract.intents import Write, WriteFault
from mooring.kit.clock import VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.storage import PersistentVolumeClaim
from mooring.scheduler.inputs import Input, ObjectAdded, WriteAnswered
from mooring.state.scheduler_assembly import build_scheduler
from silent_writer import SilentWriter

PATH = "/api/v1/namespaces/default/persistentvolumeclaims/c"


class Server(SilentWriter):
    """Answers every write with one object, or with one fault."""

    def __init__(self, fault: Exception | None) -> None:
        self.fault = fault
        self.calls: list[tuple[str, str]] = []

    async def write(self, write: Write) -> KubeObject | None:
        self.calls.append((write.method, request_of(write)[0]))
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        return msgspec.convert({"metadata": {"name": "c", "namespace": "default", "resourceVersion": "2"}}, write.kind)


def told(fault: Exception | None) -> tuple[Server, list[Any]]:
    """What the scheduler hears of a write that a server answers, or fails to."""
    clock = VirtualClock(0)
    heard: list[Input] = []
    scheduler = build_scheduler(config.default(), clock)
    for item in (a_node("n"), a_class(), a_claim("c"), a_pod(schedulerName="default-scheduler", volumes=using("c"))):
        scheduler.handle(ObjectAdded(item))
    scheduler.handle = heard.append  # type: ignore[assignment, method-assign]

    async def drive() -> Server:
        server = Server(fault)
        events, statuses = EventWriter(server, clock, clock, "test", Timing()), StatusWriter(server, clock)
        driver = LiveDriver(scheduler, clock, server, events, statuses)
        running = asyncio.create_task(driver.run())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        await driver.close()
        return server

    server = asyncio.run(drive())
    return server, [(answer.token, answer.item, answer.fault) for answer in heard if isinstance(answer, WriteAnswered)]


def test_a_write_is_answered_with_the_object() -> None:
    server, heard = told(None)
    ((token, item, fault),) = heard
    assert ("PATCH", PATH) in server.calls
    assert isinstance(item, PersistentVolumeClaim) and item.metadata.resource_version == "2"
    assert (token, fault) == (1, None)


FAULTS = {
    "the server refuses": (conflict("persistentvolumeclaims", "c", "changed"), 409),
    "nobody answers": (TimeoutError("no answer"), 0),
}


@pytest.mark.parametrize(("fault", "code"), FAULTS.values(), ids=FAULTS.keys())
def test_a_write_that_fails_is_answered_with_the_fault(fault: Exception, code: int) -> None:
    ((token, item, answer),) = told(fault)[1]
    assert (token, item) == (1, None)
    assert isinstance(answer, WriteFault) and answer.code == code
