import assert from "node:assert/strict";
import { test } from "node:test";
import { contrast, differenceScale, differenceStep, HAS_NONE, luminance, rgbOf, SERIES, shareScale, type Rgb } from "../src/map/colours.ts";
import { fullestFirst, groupNodes, layOut, rowAfter, rowAt, TITLE_HEIGHT, type NodeGroup } from "../src/map/layout.ts";
import { fullness } from "../src/pages/node_facts.ts";

const parts = (css: string) => css.match(/\d+/g)!.map(Number) as unknown as Rgb;

function nodes(count: number, groups: number): NodeGroup[] {
  const names = Array.from({ length: count }, (_none, at) => `n${at}`);
  return groupNodes(names, { values: Array.from({ length: groups }, (_none, at) => `g${at}`), of: names.map((_name, at) => at % groups) });
}

test("fuller nodes are darker on light and brighter on dark, step by step", () => {
  const light = shareScale("light").map((colour) => luminance(parts(colour)));
  const dark = shareScale("dark").map((colour) => luminance(parts(colour)));
  assert.equal(light.length, 201);
  for (let at = 1; at < 201; at++) {
    assert.ok(light[at] <= light[at - 1] + 0.004, `light ${at}`);
    assert.ok(dark[at] >= dark[at - 1] - 0.004, `dark ${at}`);
  }
});

test("no difference is the neutral middle, and a missing side counts as nothing", () => {
  assert.equal(differenceStep(100, 100), 100);
  assert.equal(differenceStep(0, 200), 200);
  assert.equal(differenceStep(200, 0), 0);
  assert.equal(differenceStep(HAS_NONE, 60), 130);
  assert.deepEqual(parts(differenceScale("light")[100]), rgbOf("#e9e9ee"));
});

test("lines of plots stand out from their background", () => {
  for (const colour of SERIES.light) assert.ok(contrast(rgbOf(colour), rgbOf("#ffffff")) >= 3, colour);
  for (const colour of SERIES.dark) assert.ok(contrast(rgbOf(colour), rgbOf("#1b1f24")) >= 3, colour);
});

test("groups and nodes are in natural order, nodes without the label come last", () => {
  const groups = groupNodes(["n10", "n9", "n1", "m"], { values: ["", "b", "a"], of: [1, 1, 2, 0] });
  assert.deepEqual(groups, [{ title: "a", rows: [2] }, { title: "b", rows: [1, 0] }, { title: "", rows: [3] }]);
  assert.deepEqual(groupNodes(["b", "a"], undefined), [{ title: "", rows: [1, 0] }]);
  assert.deepEqual(groupNodes([], undefined), []);
});

test("within a group the fullest nodes come first, nodes without the resource last", () => {
  const groups = [{ title: "a", rows: [0, 1, 2] }, { title: "b", rows: [3, 4] }];
  const sorted = fullestFirst(groups, Uint8Array.of(10, HAS_NONE, 90, 5, 5));
  assert.deepEqual(sorted, [{ title: "a", rows: [2, 0, 1] }, { title: "b", rows: [3, 4] }]);
  assert.deepEqual(groups[0].rows, [0, 1, 2]);
});

test("a node is in one tenth of the histogram, a full one in the last, one without the resource in none", () => {
  assert.deepEqual(fullness(Uint8Array.of(0, 19, 20, 199, 200, HAS_NONE)), [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
  assert.deepEqual(fullness(undefined), new Array(10).fill(0));
});

for (const [count, groups, width, height] of [[1, 1, 60, 220], [5, 2, 1200, 500], [500, 64, 1200, 500], [5000, 3, 1400, 550], [5000, 64, 900, 500], [50000, 3, 1400, 550]]) {
  test(`${count} nodes in ${groups} groups: every cell is inside, apart from the others, and found again`, () => {
    const layout = layOut(nodes(count, groups), width, height);
    assert.equal(layout.order.length, count);
    const places = new Set<string>();
    for (const row of layout.order) {
      const [x, y] = [layout.x[row], layout.y[row]];
      assert.ok(x >= 0 && x + layout.pitch <= width && y >= TITLE_HEIGHT && y + layout.pitch <= layout.height, `row ${row} at ${x},${y}`);
      places.add(`${x},${y}`);
      assert.equal(rowAt(layout, x + 1, y + 1), row);
      assert.equal(layout.order[layout.place[row]], row);
    }
    assert.equal(places.size, count);
  });
}

test("5,000 nodes fit into a window", () => {
  const layout = layOut(nodes(5000, 3), 1400, 550);
  assert.ok(layout.height <= 550 && layout.pitch >= 10, `${layout.pitch}`);
});

test("a point beside the cells is no node", () => {
  const layout = layOut(nodes(5, 2), 1200, 500);
  assert.deepEqual([rowAt(layout, -1, 30), rowAt(layout, 5, 2), rowAt(layout, 1190, 490)], [-1, -1, -1]);
});

test("keys walk over all nodes and stay inside", () => {
  const layout = layOut(nodes(200, 3), 800, 400);
  let row = rowAfter(layout, -1, "ArrowRight");
  const seen = [row];
  while (rowAfter(layout, row, "ArrowRight") !== row) seen.push((row = rowAfter(layout, row, "ArrowRight")));
  assert.deepEqual(seen, [...layout.order]);
  assert.equal(rowAfter(layout, row, "Home"), layout.order[0]);
  assert.equal(rowAfter(layout, layout.order[0], "ArrowUp"), layout.order[0]);
  assert.equal(rowAfter(layout, layout.order[0], "PageDown"), layout.order[layout.blocks[1].first]);
  const below = rowAfter(layout, layout.order[0], "ArrowDown");
  assert.equal(layout.x[below], layout.x[layout.order[0]]);
  assert.equal(layout.y[below], layout.y[layout.order[0]] + layout.pitch);
  assert.equal(rowAfter(layout, below, "ArrowUp"), layout.order[0]);
});

test("an empty cluster has no cells and no cursor", () => {
  const layout = layOut([], 800, 400);
  assert.deepEqual([layout.order.length, rowAfter(layout, -1, "ArrowRight")], [0, -1]);
});
