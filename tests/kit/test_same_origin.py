"""Which requests come from a web page of somebody else."""

import pytest

from mooring.kit.http_shell import is_own_host, is_own_origin


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1:6443", True),
        ("127.0.0.1", True),
        ("localhost:6443", True),
        ("LocalHost", True),
        ("[::1]:6443", True),
        ("[::1]", True),
        ("::1", True),
        ("192.0.2.7:80", True),
        (None, True),
        ("evil.example", False),
        ("evil.example:6443", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:6443", False),
        ("localhost@evil.example", False),
        ("", False),
        ("[evil.example]:6443", False),
        ("127.1:6443", False),
    ],
)
def test_the_host_is_an_address_or_a_name_of_this_machine(host: str | None, is_own: bool) -> None:
    assert is_own_host({} if host is None else {"Host": host}) is is_own


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost:80", "[::1]:80"])
def test_the_port_counts_where_it_is_given(host: str) -> None:
    assert is_own_host({"Host": host}, port=80)
    assert not is_own_host({"Host": host}, port=81)
    assert not is_own_host({"Host": host.removesuffix(":80")}, port=80)


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        (None, True),
        ("http://127.0.0.1:80", True),
        ("HTTPS://127.0.0.1:80".lower(), True),
        ("http://127.0.0.1:81", False),
        ("http://evil.example", False),
        ("http://127.0.0.1:80.evil.example", False),
        ("file://127.0.0.1:80", False),
        ("null", False),
        ("", False),
    ],
)
def test_the_origin_is_that_of_the_page_itself(origin: str | None, is_own: bool) -> None:
    headers = {"Host": "127.0.0.1:80"} | ({} if origin is None else {"Origin": origin})
    assert is_own_origin(headers) is is_own
