"""What reading an answer costs in the lean client: 10,000 answers of an API server to a bind, whole and in two pieces.

    python benchmarks/http_parsing.py

Prints one line of JSON: microseconds of CPU for each answer, the best of five turns. ADR 11 compares readers by it.
"""

import json
import time

from mooring.apiclient.lean_connection import AnswerReader

ANSWERS, TURNS = 10_000, 5
BODY = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
ANSWER = (
    b"HTTP/1.1 201 Created\r\n"
    b"Audit-Id: 4c5f6c0a-52f4-4f0e-8a52-6f2d3a1b7c11\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 1f1f5c1e-9f0c-4a55-a8c1-6a3f7d1ce0f4\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 9b8d2a8a-3a43-4c7b-8f1c-0f6f7b4f3f62\r\n"
    b"Date: Sun, 15 Nov 2026 20:00:00 GMT\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


def timed(pieces: list[bytes]) -> float:
    reader, reply = AnswerReader(), None
    begin = time.process_time()
    for _ in range(ANSWERS):
        for piece in pieces:
            reply = reader.take(piece)
    took_s = time.process_time() - begin
    assert reply is not None and (reply.status, reply.body) == (201, BODY)
    return took_s / ANSWERS * 1e6


def main() -> None:
    forms = {"one_piece_us": [ANSWER], "two_pieces_us": [ANSWER[:120], ANSWER[120:]]}
    found = {form: min(timed(pieces) for _ in range(TURNS)) for form, pieces in forms.items()}
    print(json.dumps({form: round(us, 2) for form, us in found.items()}))


if __name__ == "__main__":
    main()
