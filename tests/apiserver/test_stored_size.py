"""The room that an object takes in etcd, estimated."""

from typing import Any

import pytest

from mooring.api.json_objects import stored_bytes

ROWS: list[Any] = [
    pytest.param({"image": "nginx"}, 7, id="a field"),
    pytest.param({"example.com/role": "web"}, 21, id="an entry of a map"),
    pytest.param({"a" * 65: ""}, 67, id="a key that is too long for a field"),
    pytest.param({"ports": [{"containerPort": 80}, {"containerPort": 81}]}, 14, id="a list"),
    pytest.param({"fieldsV1": {"f:spec": {}}}, 15, id="JSON within protobuf"),
    pytest.param({"name": "ä", "value": None, "is": True}, 11, id="text beyond ASCII, nothing, true"),
]


@pytest.mark.parametrize(("value", "size"), ROWS)
def test_stored_bytes(value: Any, size: int) -> None:
    assert stored_bytes(value) == size
