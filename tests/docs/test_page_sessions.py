"""Sessions are found in documents, and what is left out of them may be anything."""

import re

from page_sessions import Session, as_pattern, saved_files, sessions

PAGE = """\
Text

    $ mooring a b
    one

    two

    not a session

Text

    $ printf 'x\\ny\\n' | mooring c
    x
    ...
    $ kubectl d

Save this as `a.yaml`:

```yaml
kind: Pod
```
"""


def test_sessions_are_found() -> None:
    assert sessions(PAGE) == [
        Session("mooring a b", "one\n\ntwo\n\nnot a session"),
        Session("mooring c", "x\n...", "x\ny\n"),
        Session("kubectl d", ""),
    ]


def test_files_are_found() -> None:
    assert saved_files(PAGE) == {"a.yaml": "kind: Pod\n"}


def test_lines_may_be_left_out() -> None:
    assert re.fullmatch(as_pattern("x\n..."), "x\ny\nz") and not re.fullmatch(as_pattern("x\n..."), "w\ny")
    assert re.fullmatch(as_pattern("x\n...\nz"), "x\nz") and re.fullmatch(as_pattern("x\n...\nz"), "x\n1\n2\nz")
    assert not re.fullmatch(as_pattern("x\n...\nz"), "x\n1\n2")
