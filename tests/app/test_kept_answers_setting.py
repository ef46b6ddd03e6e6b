"""--kept-answers-limit: how much of the answers of plugins `mooring run` keeps."""

import asyncio
import io
import logging

import pytest

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.app.run import Running, RunSettings
from mooring.framework import config
from mooring.framework.kept.kept_answers import DEFAULT_LIMIT_BYTES
from mooring.kit.logs import start_logs

NOWHERE = ConnectionSettings("http://127.0.0.1:1")


@pytest.mark.parametrize(("chosen", "shown"), [(None, DEFAULT_LIMIT_BYTES), (256 << 20, 256 << 20), (0, 0)])
def test_the_limit_reaches_the_scheduler_and_its_metric(chosen: int | None, shown: int) -> None:
    async def metrics() -> list[str]:
        logs = start_logs(logging.Logger("test_kept_answers"), stream=io.StringIO())
        settings = RunSettings(config.default(), NOWHERE, NOWHERE, kept_answers_limit_bytes=chosen)
        return Running(settings, logs)._metrics.metrics().decode().splitlines()

    assert f"mooring_kept_answers_limit_bytes {shown}" in asyncio.run(metrics())
