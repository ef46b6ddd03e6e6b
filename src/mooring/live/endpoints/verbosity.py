"""/debug/flags/v: how much is logged, changed while running."""

from collections.abc import Callable

from mooring.live.endpoints.answers import NO_SNIFF, PageReply, PageRequest

INDEX = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""
_MOST = 2**31 - 1


class VerbosityPage:
    def __init__(self, set_verbosity: Callable[[int], None]) -> None:
        self._set = set_verbosity

    def answer(self, question: PageRequest) -> PageReply:
        if question.method != "PUT":
            return _line("unsupported http method", 406)
        written = question.body.decode(errors="replace")
        if not (written.isascii() and written.isdigit()):
            return _line(f'strconv.ParseUint: parsing "{written}": invalid syntax', 400)
        if len(written) > len(str(_MOST)) or int(written) > _MOST:
            return _line(f'strconv.ParseUint: parsing "{written}": value out of range', 400)
        self._set(int(written))
        return _line(f"successfully set klog.logging.verbosity to {written}", 200)


def index(question: PageRequest) -> PageReply:
    return PageReply(INDEX.encode(), content_type="text/html; charset=utf-8")


def _line(text: str, status: int) -> PageReply:
    return PageReply(f"{text}\n".encode(), status, "text/plain", (NO_SNIFF,))
