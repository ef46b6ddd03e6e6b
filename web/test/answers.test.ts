import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupExplanation, WhatIf } from "../src/api/types.ts";
import { KINDS, moved, obstacleOf, problemOf } from "../src/pages/changes.ts";
import { groupVerdict, lead, tellingPlugins } from "../src/pages/explanation.tsx";
import { describeNode, meanShare, search, summarise } from "../src/pages/node_facts.ts";
import { sortedRows } from "../src/pages/node_table.tsx";
import { costChange, podChanges, verdictOf } from "../src/pages/what_if_answer.tsx";
import { bothSides, differenceText } from "../src/pages/what_if_map.tsx";

const USE = { nodes: 1, cordonedNodes: 0, pods: 0, resources: {} };
const ANSWER: WhatIf = {
  fits: false, changes: [], preempted: [], gone: [], blocked: [], workloads: [], notes: [],
  moved: [{ namespace: "s", name: "m", from: "a", to: "b" }],
  placed: [{ namespace: "s", name: "n", node: "c", isNew: true }],
  pending: [{ namespace: "s", name: "p", from: "a", message: "why", wasPending: false, isNew: false }, { namespace: "s", name: "q", from: "", message: "", wasPending: true, isNew: false }],
  utilisation: { total: { before: USE, after: USE }, zones: [], pools: [] },
};

test("money of an answer has the words of the command", () => {
  const cost = { before: 0.8, after: 0.4, difference: -0.4, differenceAMonth: -292, idleBefore: 0.5, idleAfter: 0.25, priceUnit: "EUR an hour" };
  const told = "Nodes cost 0.8 EUR an hour before and 0.4 EUR an hour after: 0.4 EUR less an hour, 292 EUR less a month (730 hours).";
  assert.equal(costChange({ ...ANSWER, cost }), `${told} Idle capacity costs 0.5 EUR an hour before and 0.25 EUR an hour after.`);
  assert.match(costChange({ ...ANSWER, cost: { ...cost, after: 0.8, difference: 0 } }), /^Nodes cost 0\.8 EUR an hour, before and after\. Idle/);
  assert.equal(costChange(ANSWER), "");
});

test("a group is pending as one", () => {
  const group: GroupExplanation = {
    kind: "PodGroupExplanation", podGroup: "s/g", gang: true, minCount: 4, members: 5, settled: false, fits: 3, message: "",
    rejected: [], cures: [], curesGaveUp: false, waitsFor: [], victims: [],
  };
  assert.equal(groupVerdict(group), "It is pending: there is room for 3 of 4 pods.");
  assert.equal(groupVerdict({ ...group, gang: false, minCount: 1 }), "It is pending: there is room for 3 of 5 pods.");
  assert.equal(groupVerdict({ ...group, members: 2 }), "It is pending: 2 of 4 pods exist.");
  assert.equal(groupVerdict({ ...group, settled: true }), "It would get nodes now.");
});

test("pods that lose their node come first", () => {
  assert.deepEqual(podChanges(ANSWER).map((change) => [change.pod.name, change.what, change.from, change.to]),
    [["p", "pending", "a", ""], ["m", "moved", "a", "b"], ["n", "new, placed", "", "c"], ["q", "still pending", "", ""]]);
  assert.equal(verdictOf(ANSWER), "Not everything fits. Pods: 1 become pending, 1 still pending, 1 moved, 1 placed.");
  assert.equal(verdictOf({ ...ANSWER, fits: true, moved: [], placed: [], pending: [] }), "Everything fits. Pods: no difference.");
});

test("new nodes come after those of the cluster, removed ones stay", () => {
  const sides = bothSides(["a", "b"], ["b", "c"]);
  assert.deepEqual([sides.names, [...sides.before], [...sides.after]], [["a", "b", "c"], [0, 1, -1], [-1, 0, 1]]);
});

test("differences are in percent of a node", () => {
  assert.deepEqual([0, 88, 100, 112, 200].map(differenceText), ["−100 %", "−12 %", "±0 %", "+12 %", "+100 %"]);
});

test("changes are checked before they are asked, and can be moved", () => {
  assert.equal(problemOf({ change: "scale", value: "web=3" }), "Scale: write kind/namespace/name=number, such as deployment/shop/web=10.");
  assert.equal(problemOf({ change: "add-nodes", value: "node-7" }), "Add nodes: write the number, an equals sign and the node to copy, such as 3=node-7.");
  assert.equal(problemOf({ change: "drain", value: " " }), "Drain nodes: enter a value such as topology.kubernetes.io/zone=a.");
  for (const kind of KINDS) assert.equal(problemOf({ change: kind.change, value: kind.example }), "");
  const [a, b] = [{ change: "drain", value: "a" }, { change: "drain", value: "b" }];
  assert.deepEqual([moved([a, b], 1, -1), moved([a, b], 0, -1)], [[b, a], [a, b]]);
});

test("what a dashboard does not carry out is named", () => {
  assert.equal(obstacleOf([{ change: "drain", value: "a" }]), "");
  assert.match(obstacleOf([{ change: "drain", value: "a" }, { change: "taint", value: "a=b:NoSchedule" }]), /^Taint nodes: the dashboard only answers/);
});

test("the lead of a node is told by plugin, and a draw as a draw", () => {
  const scores = [{ node: "a", total: 624, plugins: {} }, { node: "b", total: 600, plugins: {} }];
  const tipped = [{ plugin: "Fit", difference: 30 }, { plugin: "Spread", difference: -6 }, { plugin: "Images", difference: 0 }];
  assert.equal(lead({ scores, tipped }), "It is 24 ahead of b (624 to 600): Fit +30, Spread -6.");
  assert.equal(lead({ scores: [scores[0], { ...scores[1], total: 624 }], tipped }), "Its score is that of b as well: the scheduler draws between equal nodes.");
  assert.equal(lead({ scores: [scores[0]], tipped: [] }), "");
});

test("plugins that give no node a point are left out of the bars", () => {
  assert.deepEqual(tellingPlugins([{ node: "a", total: 1, plugins: { Fit: 1, Images: 0 } }, { node: "b", total: 0, plugins: { Fit: 0, Images: 0 } }]), ["Fit"]);
});

const NODES = { version: 1, names: ["n1", "n2\u202E"], resources: ["cpu", "gpu"], labels: { zone: { values: ["x", ""], of: [0, 1] } }, unschedulable: [1], notReady: [], tainted: [1], flags: Uint8Array.of(0, 5) };
const NODE_USE = { version: 1, time: "", use: new Map([["cpu", Uint8Array.of(100, 20)], ["gpu", Uint8Array.of(255, 200)]]), pods: Uint16Array.of(1, 300) };

test("a node is described by what it has", () => {
  assert.equal(describeNode(NODES, NODE_USE, 0, "zone"), "n1: cpu 50 %, 1 pod, x");
  assert.equal(describeNode(NODES, NODE_USE, 1, "zone"), "n2‹U+202E›: cpu 10 %, gpu 100 %, 300 pods, unschedulable, tainted");
  assert.equal(summarise(NODES, NODE_USE, "cpu"), "2 nodes, 301 pods, cpu requested 30 % on average, 1 unschedulable, 1 tainted");
  const priced = { ...NODES, prices: [0.1, null], priceUnit: "EUR an hour" };
  const used = { ...NODE_USE, cost: { total: 0.1, idle: 0.05, nodes: 1 } };
  assert.equal(describeNode(priced, used, 0, "zone"), "n1: cpu 50 %, 1 pod, 0.1 EUR an hour, x");
  assert.match(summarise(priced, used, "cpu"), /; 0\.1 EUR an hour, 0\.05 EUR of it idle \(1 node of 2 with a price\)$/);
  assert.match(summarise({ ...priced, priceUnit: "" }, { ...used, cost: { total: 12345.6, idle: 0, nodes: 2 } }, "cpu"), /; 12,346 an hour, 0 of it idle$/);
  const idle = { cpu: { idle: 0.75, outOfReach: 2 / 3 }, memory: { idle: 1, outOfReach: null } };
  assert.match(summarise(NODES, { ...NODE_USE, idle }, "cpu in use"), /1 tainted; cpu idle 75 %, 67 % of that out of reach of typical pods$/);
  assert.match(summarise(NODES, { ...NODE_USE, idle }, "memory"), /; memory idle 100 %$/);
  assert.doesNotMatch(summarise(NODES, { ...NODE_USE, idle }, "pods"), /idle/);
  assert.equal(meanShare(Uint8Array.of(255, 100)), 0.5);
});

test("a search marks names, and the table sorts the fullest first with nodes that have none last", () => {
  assert.deepEqual([...search(["Web-1", "db"], "web")!], [1, 0]);
  assert.equal(search(["a"], " "), null);
  const groups = [{ title: "", rows: [0, 1, 2] }];
  assert.deepEqual(sortedRows(groups, null, Uint8Array.of(10, 255, 90)), [2, 0, 1]);
  assert.deepEqual(sortedRows(groups, null, Uint16Array.of(10, 255, 90)), [1, 2, 0], "255 pods are not none");
  assert.deepEqual(sortedRows(groups, Uint8Array.of(1, 0, 1), null), [0, 2]);
  assert.deepEqual(sortedRows(groups, null, Float64Array.of(0.1, -1, 0.25)), [2, 0, 1], "a node without a price comes last");
});
