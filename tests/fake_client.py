"""A client of the API without connections: tests override the requests that they answer."""

from mooring.apiclient.client import ApiClient


class FakeClient(ApiClient):
    def __init__(self) -> None:
        pass
