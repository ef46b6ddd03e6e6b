"""A second opinion: everything is decided, and nothing is written."""

import logging
from typing import Any

from mooring.model.pod import Pod

log = logging.getLogger(__name__)

JsonObject = dict[str, Any]


class DryWriter:
    """Stands where `ApiWriter` stands, and only says what it would have done."""

    async def bind(self, pod: Pod, node_name: str) -> None:
        log.info("would bind pod=%s node=%s", pod.key, node_name)

    async def read_pod(self, pod: Pod) -> JsonObject | None:
        raise AssertionError("a bind that is not written is never in doubt")

    async def patch_status(self, pod: Pod, patch: JsonObject) -> None:
        for condition in patch["status"].get("conditions", ()):
            if condition.get("message"):
                log.info("would tell pod=%s %s", pod.key, condition["message"])

    async def delete(self, pod: Pod) -> None:
        log.info("would preempt pod=%s node=%s", pod.key, pod.spec.node_name)

    async def write(self, method: str, path: str, body: JsonObject, content_type: str) -> JsonObject:
        log.info("would write %s %s", method, path)
        return body

    async def create_event(self, event: JsonObject) -> None:
        pass

    async def patch_event(self, namespace: str, name: str, series: JsonObject) -> None:
        pass
