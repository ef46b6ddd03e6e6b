"""Status patches on their way: in order for each pod, only differences, and never after a bind."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from build import a_pod
from mooring.api.api_errors import ApiError
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.http_requests import TimedOut
from mooring.drivers.status_writer import StatusWriter
from mooring.framework.contract.intents import PatchStatus
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from silent_writer import SilentWriter

POD, OTHER = (a_pod(name, metadata={"uid": f"uid-{name}"}) for name in ("p", "q"))


@dataclass
class HeldWriter(SilentWriter):
    """Keeps patches; each is answered when the test says so, or fails."""

    patches: list[tuple[str, Any]] = field(default_factory=list)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    faults: list[Exception | None] = field(default_factory=list)

    async def patch_status(self, pod: Pod, patch: dict[str, Any], cause_id: str = "") -> None:
        self.patches.append((pod.name, patch["status"]))
        await self.turns.acquire()
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault


def failed(message: str) -> Condition:
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


def run(main: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(20):
            await main

    asyncio.run(within_time())


async def others_have_had_their_turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def a_status_writer() -> tuple[StatusWriter, HeldWriter]:
    held = HeldWriter()
    return StatusWriter(held, VirtualClock(1_800_000_000 * NS_PER_S)), held


def test_wishes_for_one_pod_are_written_one_by_one_and_become_one() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        statuses.patch(PatchStatus(POD, failed("first"), "n1"))
        await others_have_had_their_turn()
        statuses.patch(PatchStatus(POD, failed("second")))
        statuses.patch(PatchStatus(POD, None, ""))
        statuses.patch(PatchStatus(POD, failed("third")))
        statuses.patch(PatchStatus(OTHER, None, "n9"))
        await others_have_had_their_turn()
        assert [name for name, _ in held.patches] == ["p", "q"], "the same pod waits, another does not"
        for _ in range(3):
            held.turns.release()
        await others_have_had_their_turn()
        assert held.patches[2:] == [
            (
                "p",
                {
                    "$setElementOrder/conditions": [{"type": "PodScheduled"}],
                    "conditions": [{"message": "third", "type": "PodScheduled"}],
                    "nominatedNodeName": None,
                },
            )
        ], "the difference is to what was written, though no watch has shown that yet"
        await statuses.close()

    run(main())


def test_what_is_written_already_is_not_written_again() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        statuses.patch(PatchStatus(POD, failed("first"), "n1"))
        await others_have_had_their_turn()
        statuses.patch(PatchStatus(POD, failed("first"), "n1"))
        held.turns.release()
        await statuses.close()
        assert len(held.patches) == 1

    run(main())


@pytest.mark.parametrize(
    ("fault", "level"),
    [
        (ApiError(422, "Invalid", "no"), logging.ERROR),
        (ApiError(404, "NotFound", "gone"), logging.INFO),
        (TimedOut("no answer"), logging.ERROR),
        (CredentialsError("no token"), logging.ERROR),
    ],
    ids=["refused", "the pod is gone", "unanswered", "without credentials"],
)
def test_a_failure_is_logged_and_the_next_wish_starts_from_what_was_seen(
    fault: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        held.faults = [fault]
        statuses.patch(PatchStatus(POD, failed("first")))
        await others_have_had_their_turn()
        statuses.patch(PatchStatus(POD, failed("second")))
        held.turns.release()
        held.turns.release()
        await statuses.close()
        assert [patch["conditions"][0]["message"] for _, patch in held.patches] == ["first", "second"]
        assert "lastProbeTime" in held.patches[1][1]["conditions"][0], "nothing was written before"

    with caplog.at_level(logging.INFO):
        run(main())
    assert [(record.levelno, record.getMessage()) for record in caplog.records if "updating" in record.message] == [
        (level, f"Error updating pod default/p: {fault}")
    ]


def test_before_a_bind_what_is_being_written_is_waited_for_and_the_rest_dropped() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        statuses.patch(PatchStatus(POD, failed("first")))
        await others_have_had_their_turn()
        statuses.patch(PatchStatus(POD, failed("second")))
        statuses.patch(PatchStatus(OTHER, failed("first")))
        settling = asyncio.create_task(statuses.settle(POD.id))
        await others_have_had_their_turn()
        assert not settling.done()
        held.turns.release()
        await settling
        held.turns.release()
        await statuses.close()
        assert [(name, patch["conditions"][0]["message"]) for name, patch in held.patches] == [
            ("p", "first"),
            ("q", "first"),
        ]
        await statuses.settle(POD.id)

    run(main())


def test_what_is_to_be_written_now_is_written_now() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        held.faults = [ApiError(404, "NotFound", "gone")]
        held.turns.release()
        with pytest.raises(ApiError):
            await statuses.patch_now(POD, failed("x"), "preemptor")
        assert held.patches == [
            (
                "p",
                {
                    "conditions": [
                        {
                            "lastProbeTime": None,
                            "lastTransitionTime": "2027-01-15T08:00:00Z",
                            "message": "x",
                            "reason": "Unschedulable",
                            "status": "False",
                            "type": "PodScheduled",
                        }
                    ]
                },
            )
        ]

    run(main())


def test_nothing_to_change_is_not_written_now() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        pod = a_pod(
            "p", status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
        )
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable")
        await statuses.patch_now(pod, condition, "preemptor")
        assert held.patches == []

    run(main())


@pytest.mark.parametrize("ends", ["closed", "halted"])
def test_patches_that_get_no_answer_end_with_the_writer(ends: str) -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        statuses.patch(PatchStatus(POD, failed("first")))
        await others_have_had_their_turn()
        statuses.patch(PatchStatus(POD, failed("second")))
        assert statuses.is_busy(POD.id) and not statuses.is_busy(OTHER.id)
        if ends == "closed":
            await statuses.close(0.01)
        else:
            statuses.halt()
        await others_have_had_their_turn()
        held.turns.release()
        await others_have_had_their_turn()
        assert len(held.patches) == 1 and not statuses.is_busy(POD.id)

    run(main())


def test_several_conditions_are_patches_of_their_own_and_the_node_goes_with_the_first() -> None:
    async def main() -> None:
        statuses, held = a_status_writer()
        newer = a_pod("newer", metadata={"uid": "uid-p"})
        statuses.patch(PatchStatus(POD, failed("first")))
        statuses.patch(PatchStatus(newer, Condition(type="Other", status="True"), "n1"))
        held.turns.release()
        held.turns.release()
        await statuses.close()
        (first, one), (second, two) = held.patches
        assert (first, second) == ("newer", "newer"), "the newest form of the pod"
        assert [one["conditions"][0]["type"], one["nominatedNodeName"]] == ["PodScheduled", "n1"]
        assert two["conditions"][0]["type"] == "Other" and "nominatedNodeName" not in two
        assert two["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "Other"}]

    run(main())
