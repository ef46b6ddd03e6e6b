import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, countsOf, EventParser } from "../src/api/decode.ts";
import { readFragment } from "../src/api/token.ts";
import type { FlowSample, NodesEvent, ReplayState } from "../src/api/types.ts";
import { delayAfter } from "../src/live/connection.ts";
import { append, LiveState, NOT_READY, sameParts, UNSCHEDULABLE } from "../src/live/live_state.ts";
import { fittingSpeed, momentAfter, Player } from "../src/live/player.ts";
import { attemptsASecond, latencyOf } from "../src/pages/flow.tsx";
import { linkTo, readRoute } from "../src/router.ts";

(globalThis as Record<string, unknown>).requestAnimationFrame = (draw: () => void) => setTimeout(draw, 0);

test("columns are bytes, and counts in little endian", () => {
  assert.deepEqual([...bytesOf(btoa("\x00\xc8\xff"))], [0, 200, 255]);
  assert.deepEqual([...countsOf(btoa("\x01\x00\x00\x01"))], [1, 256]);
});

const STREAM = ": hello\nevent: queue\r\ndata: {\"active\":1}\r\n\r\nevent: use\ndata: {\ndata: }\n\nid: 3\n\nevent: nodes\ndata:{}\n\n";

test("events are whole however the stream is cut", () => {
  const whole = [{ event: "queue", data: '{"active":1}' }, { event: "use", data: "{\n}" }, { event: "nodes", data: "{}" }];
  for (let size = 1; size <= STREAM.length; size++) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...parser.push(STREAM.slice(at, at + size)));
    assert.deepEqual(found, whole, `pieces of ${size}`);
  }
});

test("the token leaves the address, and a page after it stays", () => {
  assert.deepEqual(readFragment("#token=a%2Bb"), { token: "a+b", page: "" });
  assert.deepEqual(readFragment("#token=ab&page=/queue"), { token: "ab", page: "/queue" });
  assert.deepEqual(readFragment("#/queue"), { token: null, page: "#/queue" });
});

test("links lead back to what they name, whatever the name is", () => {
  for (const name of ["web-1", "a/b", "100%", "<img>", "ü#?&"]) {
    assert.deepEqual(readRoute(linkTo("pod", "shop", name)), { page: "pod", rest: ["shop", name] });
  }
  assert.deepEqual(readRoute("#/nowhere/else"), { page: "cluster", rest: [] });
  assert.deepEqual(readRoute("#/cluster/node/100%"), { page: "cluster", rest: ["node", "100%"] });
  assert.deepEqual(readRoute(""), { page: "cluster", rest: [] });
});

test("attempts to connect come later and later, at most every half a minute", () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6, 20].map((failures) => delayAfter(failures, () => 0)), [1, 2, 4, 8, 16, 30, 30]);
  assert.equal(delayAfter(20, () => 1), 22.5);
});

const NODES: NodesEvent = { version: 1, names: ["a", "b"], resources: ["cpu"], labels: { zone: { values: ["x"], of: [0, 0] } }, unschedulable: [1], notReady: [1], tainted: [] };

test("nodes keep their arrays where nothing changed, so that the map keeps its layout", () => {
  const state = new LiveState();
  state.take("nodes", NODES);
  const first = state.nodes!;
  assert.deepEqual([...first.flags], [0, UNSCHEDULABLE | NOT_READY]);
  state.take("nodes", structuredClone({ ...NODES, version: 2, notReady: [] }));
  assert.ok(state.nodes!.names === first.names && state.nodes!.labels.zone === first.labels.zone);
  assert.deepEqual([...state.nodes!.flags], [0, UNSCHEDULABLE]);
  const other = sameParts(NODES, { ...NODES, names: ["a", "c"], labels: { zone: { values: ["x"], of: [0] } } });
  assert.deepEqual([other.names, other.labels.zone.of], [["a", "c"], [0]]);
});

test("listeners hear of a change once, and unknown events are left", async () => {
  const state = new LiveState();
  let heard = 0;
  const stop = state.subscribe(["nodes", "queue"], () => { heard += 1; });
  state.take("nodes", NODES);
  state.take("queue", { time: "2026-01-01T00:00:00.000Z" });
  state.take("of the future", {});
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(heard, 1);
  stop();
  state.take("nodes", NODES);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(heard, 1);
});

test("a component that subscribes after it was drawn hears of what changed between", () => {
  const state = new LiveState();
  const drawnAt = state.changes;
  state.changed("connection");
  let heard = 0;
  state.subscribe(["connection"], () => { heard += 1; }, drawnAt);
  assert.equal(heard, 1);
  state.subscribe(["connection"], () => { heard += 1; }, state.changes);
  assert.equal(heard, 1);
});

test("samples of a time that is yet to come are dropped when a replay goes back", () => {
  const samples = ["00:01", "00:02", "00:03"].map((time) => ({ time }));
  append(samples, { time: "00:02" });
  assert.deepEqual(samples.map((sample) => sample.time), ["00:01", "00:02"]);
  for (let at = 0; at < 700; at++) append(samples, { time: `01:${String(at).padStart(4, "0")}` });
  assert.equal(samples.length, 600);
});

const FLOW: FlowSample = {
  time: "2026-01-01T00:00:00.000Z", seconds: 2, bound: 10, preemptions: 0, victims: 0, evictions: 0, selfCheck: null,
  attempts: { a: { scheduled: 10, unschedulable: 2, error: 0 }, b: { scheduled: 4, unschedulable: 0, error: 1 } },
  latency: { a: { p50: 0.001, p99: 0.002 }, b: { p50: 0.003, p99: 0.004 } },
};

test("the flow of all profiles is their sum, and its latency the worst", () => {
  assert.deepEqual([attemptsASecond(FLOW, "", "scheduled"), attemptsASecond(FLOW, "b", "scheduled")], [7, 2]);
  assert.deepEqual([latencyOf(FLOW, "", "p99"), latencyOf(FLOW, "a", "p50"), latencyOf({ ...FLOW, latency: {} }, "", "p50")], [0.004, 0.001, null]);
});

const REPLAY: ReplayState = { start: "2026-01-01T00:00:00.000Z", end: "2026-01-01T01:00:00.000Z", now: "2026-01-01T00:30:00.000Z", decisions: 9, position: 4, density: [], seeking: false };

test("playing moves by the speed and ends at the end", () => {
  assert.equal(fittingSpeed(REPLAY), 60);
  assert.deepEqual(momentAfter(REPLAY, 0.5, 60), { time: "2026-01-01T00:30:30.000Z", ended: false });
  assert.deepEqual(momentAfter(REPLAY, 1, 3600), { time: REPLAY.end, ended: true });
});

test("while a seek is under way only the newest of the others is kept", async () => {
  const asked: unknown[] = [];
  const player = new Player(new LiveState(), async (seek) => {
    asked.push(seek);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return REPLAY;
  });
  await Promise.all([1, 2, 3, 4].map((decision) => player.seek({ decision })));
  assert.deepEqual(asked, [{ decision: 1 }, { decision: 4 }]);
});
