"""URLs as they may be shown: never with a password or a token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kit.shown_text import shown_url

SECRET = "SECRET"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/path", "http://host/path"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("http://user:SECRET@host:80/path", "http://host:80/path"),
        ("http://SECRET@host", "http://host"),
        ("http://host/path?token=SECRET", "http://host/path"),
        ("http://host/path#SECRET", "http://host/path"),
        ("http://host?a=b@c#SECRET", "http://host"),
        ("user:SECRET@host/path", "host/path"),
        ("http://user:SEC://RET@host", "http://host"),
        ("http://user:p/SECRET@host", "http://host"),
        ("", ""),
    ],
)
def test_user_info_query_and_fragment_are_left_out(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@given(st.text(":/@?#a[]", max_size=8), st.text(":/@?#a[]", max_size=8), st.booleans())
def test_no_text_around_it_makes_a_secret_show(before: str, after: str, is_query: bool) -> None:
    """Whatever else a URL has: what stands before the last @, or after the first ?, is not shown."""
    url = f"{before}?{SECRET}{after}" if is_query else f"http://{before.replace('?', '').replace('#', '')}{SECRET}@h"
    assert SECRET not in shown_url(url)
