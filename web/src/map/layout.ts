// Where the cell of each node is: groups are blocks on shelves, as large as the space allows. Pure functions over numbers.

import { HAS_NONE } from "./colours.ts";

export interface NodeGroup {
  title: string;
  /** Rows of the nodes, an index into the names of the stream. */
  rows: number[];
}

export interface Block {
  title: string;
  count: number;
  x: number;
  y: number;
  columns: number;
  /** Position of its first cell in `order`. */
  first: number;
}

export interface Layout {
  /** Edge of a cell with the gap after it, in CSS pixels. */
  pitch: number;
  gap: number;
  width: number;
  height: number;
  blocks: Block[];
  /** Rows in the order in which a reader meets them, and the place of each row in it. */
  order: Int32Array;
  place: Int32Array;
  x: Float32Array;
  y: Float32Array;
}

export const TITLE_HEIGHT = 20;
const BLOCK_GAP = 14;
const SMALLEST = 5;
const LARGEST = 44;
/** Few nodes get cells with room for their names. */
const LARGEST_OF_FEW = 116;
const FEW = 100;
/** A title needs room for some letters even where a group has one node. */
const TITLE_WIDTH = 84;
/** Width to height of blocks that are tried; the last one is a stripe over the whole width. */
const SHAPES = [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.15, 1.3, 1.5, 1.8, 2.2, 2.8, 3.6, 5, 8, Infinity];

const collator = new Intl.Collator("en", { numeric: true });

/** Nodes by the value of a label, in natural order; nodes without it come last. */
export function groupNodes(names: readonly string[], label: { values: string[]; of: ArrayLike<number> } | undefined): NodeGroup[] {
  const sorted = names.map((_name, row) => row).sort((a, b) => collator.compare(names[a], names[b]));
  if (!label) return names.length ? [{ title: "", rows: sorted }] : [];
  const rows: number[][] = label.values.map(() => []);
  for (const row of sorted) rows[label.of[row]]?.push(row);
  return label.values
    .map((title, at) => ({ title, rows: rows[at] }))
    .filter((group) => group.rows.length > 0)
    .sort((a, b) => Number(a.title === "") - Number(b.title === "") || collator.compare(a.title, b.title));
}

/** The groups with the largest amounts first: steps of use, where nodes without the resource come last, numbers of pods, or
 *  prices, where -1 is a node without one. */
export function fullestFirst(groups: readonly NodeGroup[], amounts: Uint8Array | Uint16Array | Float64Array): NodeGroup[] {
  const none = amounts instanceof Uint8Array ? HAS_NONE : -1;
  const weight = (row: number) => (amounts[row] === none ? -1 : amounts[row]);
  return groups.map((group) => ({ ...group, rows: [...group.rows].sort((a, b) => weight(b) - weight(a)) }));
}

/** The layout with the largest cells that fits into the space; the smallest cells, and more height, where none fits. */
export function layOut(groups: readonly NodeGroup[], width: number, height: number): Layout {
  let best: Shelves | null = null;
  let bestPitch = SMALLEST;
  for (const shape of SHAPES) {
    const pitch = largestPitch(groups, width, height, shape);
    const shelves = shelve(groups, width, pitch, shape);
    const better = best === null || pitch > bestPitch || (pitch === bestPitch && shelves.height < best.height);
    if (better) [best, bestPitch] = [shelves, pitch];
  }
  return placeCells(groups, best!, bestPitch, width);
}

interface Shelves {
  blocks: Block[];
  height: number;
}

function largestPitch(groups: readonly NodeGroup[], width: number, height: number, shape: number): number {
  const count = groups.reduce((sum, group) => sum + group.rows.length, 0);
  let [low, high] = [SMALLEST, Math.max(SMALLEST, Math.min(width, count <= FEW ? LARGEST_OF_FEW : LARGEST))];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (shelve(groups, width, middle, shape).height <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}

function columnsOf(count: number, width: number, pitch: number, shape: number): number {
  const widest = Math.max(1, Math.floor(width / pitch));
  return Math.max(1, Math.min(widest, count, Math.ceil(Math.sqrt(count * shape))));
}

function shelve(groups: readonly NodeGroup[], width: number, pitch: number, shape: number): Shelves {
  const blocks: Block[] = [];
  let [x, y, shelfHeight, first] = [0, 0, 0, 0];
  for (const group of groups) {
    const count = group.rows.length;
    const columns = columnsOf(count, width, pitch, shape);
    const blockWidth = Math.max(columns * pitch, Math.min(TITLE_WIDTH, width));
    if (x > 0 && x + blockWidth > width) [x, y, shelfHeight] = [0, y + shelfHeight + BLOCK_GAP, 0];
    blocks.push({ title: group.title, count, x, y, columns, first });
    shelfHeight = Math.max(shelfHeight, TITLE_HEIGHT + Math.ceil(count / columns) * pitch);
    x += blockWidth + BLOCK_GAP;
    first += count;
  }
  return { blocks, height: y + shelfHeight };
}

function placeCells(groups: readonly NodeGroup[], shelves: Shelves, pitch: number, width: number): Layout {
  const count = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const order = Int32Array.from(groups.flatMap((group) => group.rows));
  const size = order.reduce((most, row) => Math.max(most, row + 1), count);
  const [place, x, y] = [new Int32Array(size).fill(-1), new Float32Array(size), new Float32Array(size)];
  for (const block of shelves.blocks) {
    for (let at = 0; at < block.count; at++) {
      const row = order[block.first + at];
      place[row] = block.first + at;
      x[row] = block.x + (at % block.columns) * pitch;
      y[row] = block.y + TITLE_HEIGHT + Math.floor(at / block.columns) * pitch;
    }
  }
  const gap = pitch >= 12 ? 2 : 1;
  return { pitch, gap, width, height: shelves.height, blocks: shelves.blocks, order, place, x, y };
}

/** The row of the cell at a point, or -1. */
export function rowAt(layout: Layout, x: number, y: number): number {
  for (const block of layout.blocks) {
    const column = Math.floor((x - block.x) / layout.pitch);
    const line = Math.floor((y - block.y - TITLE_HEIGHT) / layout.pitch);
    if (column < 0 || column >= block.columns || line < 0) continue;
    const at = line * block.columns + column;
    if (at < block.count) return layout.order[block.first + at];
  }
  return -1;
}

export type Step = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown" | "Home" | "End" | "PageUp" | "PageDown";

/** Where a key leads from a row: left and right follow the order, up and down the picture, page keys the groups. */
export function rowAfter(layout: Layout, row: number, key: Step): number {
  const last = layout.order.length - 1;
  const at = layout.place[row] ?? -1;
  if (at < 0) return last < 0 ? -1 : layout.order[key === "End" ? last : 0];
  if (key === "Home" || key === "End") return layout.order[key === "Home" ? 0 : last];
  if (key === "ArrowLeft" || key === "ArrowRight") return layout.order[clamp(at + (key === "ArrowLeft" ? -1 : 1), last)];
  if (key === "PageUp" || key === "PageDown") return firstOfGroup(layout, at, key === "PageUp" ? -1 : 1);
  return nearestVertically(layout, row, key === "ArrowUp" ? -1 : 1);
}

function clamp(at: number, last: number): number {
  return Math.min(last, Math.max(0, at));
}

function firstOfGroup(layout: Layout, at: number, by: number): number {
  const group = layout.blocks.findLastIndex((block) => block.first <= at);
  return layout.order[layout.blocks[clamp(group + by, layout.blocks.length - 1)].first];
}

/** The cell on the next line above or below that is nearest to the column; the row itself at the edge. */
function nearestVertically(layout: Layout, row: number, direction: number): number {
  let [best, bestCost] = [row, Infinity];
  for (const other of layout.order) {
    const down = (layout.y[other] - layout.y[row]) * direction;
    const aside = Math.abs(layout.x[other] - layout.x[row]);
    const cost = down * 4 + aside;
    if (down > 0 && cost < bestCost) [best, bestCost] = [other, cost];
  }
  return best;
}
