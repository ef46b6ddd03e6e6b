"""A writer that writes nothing and reports success: tests override what they look at."""

from typing import Any

from mooring.drivers.api_writer import ApiWriter
from mooring.framework.contract.intents import Write
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


class SilentWriter(ApiWriter):
    """Has no clients, so that only what a test overrides does anything."""

    def __init__(self) -> None:
        pass

    async def bind(self, pod: Pod, node_name: str) -> None:
        pass

    async def read_pod(self, pod: Pod) -> dict[str, Any] | None:
        raise AssertionError("no bind is in doubt")

    async def patch_status(self, pod: Pod, patch: dict[str, Any], cause_id: str = "") -> None:
        pass

    async def delete(self, pod: Pod, cause_id: str) -> None:
        pass

    async def write(self, write: Write) -> KubeObject | None:
        return None

    async def create_event(self, event: dict[str, Any]) -> None:
        pass

    async def patch_event(self, namespace: str, name: str, series: dict[str, Any]) -> None:
        pass
