"""Real use of nodes for the map: a source that fails is reported once, and its last figures are not shown for ever."""

import asyncio
import logging
from pathlib import Path

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.inputs import real_use
from mooring.inputs.input_errors import InputError
from mooring.inputs.real_use import STALE_READINGS, InUse, RealUse, RealUseReadings
from mooring.kit.logs import Log

FOUND = {"n": InUse(1000, 1 << 30)}


def test_failures_are_logged_once_and_figures_go_after_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[RealUse | InputError] = [FOUND, *[InputError("away")] * STALE_READINGS, FOUND]

    async def read(source: str, connection: ConnectionSettings) -> RealUse:
        answer = answers.pop(0)
        if isinstance(answer, InputError):
            raise answer
        return answer

    monkeypatch.setattr(real_use, "read_node_use", read)
    use = RealUseReadings("metrics-server", ConnectionSettings("https://127.0.0.1:1"), Log(logging.getLogger("use")))
    seen = []
    with caplog.at_level(logging.INFO):
        for _ in range(len(answers)):
            asyncio.run(use.read())
            seen.append(use.latest)
    assert seen == [*[FOUND] * STALE_READINGS, {}, FOUND]
    assert [record.message for record in caplog.records] == [
        "Real use of nodes cannot be read",
        "Real use of nodes is read again",
    ]


def test_a_file_of_one_moment_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "use.json").write_text("{}")
    use = RealUseReadings(
        str(tmp_path / "use.json"), ConnectionSettings("https://127.0.0.1:1"), Log(logging.getLogger("use"))
    )
    asyncio.run(use.read())
    assert use.latest == {}
