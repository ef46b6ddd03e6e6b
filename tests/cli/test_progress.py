"""Progress on standard error: rare lines where there is no terminal."""

import pytest

from mooring.cli.terminal import LateBar


def test_without_a_terminal_a_line_is_written_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter((100.0, 101.0, 110.5, 111.0, 119.0, 121.0))
    monkeypatch.setattr("mooring.cli.terminal.time.monotonic", lambda: next(times))
    with LateBar("simulating") as bar:
        for done in (1, 10, 11, 19, 21):
            bar(done, 200)
    assert capsys.readouterr().err.splitlines() == [
        "simulating: 5.0% after 10 s, about 200 s left",
        "simulating: 10.5% after 21 s, about 179 s left",
    ]
