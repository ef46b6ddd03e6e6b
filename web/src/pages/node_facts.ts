// What the map, its table and the summary say of nodes, from the columns of the stream.

import type { LabelColumn } from "../api/types.ts";
import { NOT_READY, TAINTED, UNSCHEDULABLE, type NodeFacts, type NodeUse } from "../live/live_state.ts";
import { HAS_NONE } from "../map/colours.ts";
import { money, percent } from "../text/amounts.ts";
import { cut, plural, visible } from "../text/visible.ts";

const WORDS: readonly [number, string][] = [[NOT_READY, "not ready"], [UNSCHEDULABLE, "unschedulable"], [TAINTED, "tainted"]];

export function states(flags: number): string[] {
  return WORDS.filter(([bit]) => flags & bit).map(([, word]) => word);
}

/** 54 % of a half-percent step, or "none" for a node without the resource. */
export function stepText(step: number | undefined): string {
  return step === undefined ? "–" : step === HAS_NONE ? "none" : percent(step / 200);
}

export function labelOf(column: LabelColumn | undefined, row: number): string {
  return column?.values[column.of[row]] ?? "";
}

/** One line about a node: its name, what is used of each resource, pods, state and group. */
export function describeNode(nodes: NodeFacts, use: NodeUse | null, row: number, groupBy: string): string {
  const used = nodes.resources.filter((resource) => (use?.use.get(resource)?.[row] ?? HAS_NONE) !== HAS_NONE)
    .map((resource) => `${resource} ${stepText(use?.use.get(resource)?.[row])}`);
  const group = labelOf(nodes.labels[groupBy], row);
  const price = nodes.prices?.[row];
  const cost = typeof price === "number" ? [`${money(price, nodes.priceUnit)} an hour`] : [];
  const parts = [...used, plural(use?.pods[row] ?? 0, "pod"), ...cost, ...states(nodes.flags[row]), ...(group ? [cut(visible(group), 40)] : [])];
  return `${cut(visible(nodes.names[row]), 60)}: ${parts.join(", ")}`;
}

function count(flags: Uint8Array, bit: number): number {
  let found = 0;
  for (const flag of flags) if (flag & bit) found += 1;
  return found;
}

/** The mean share over nodes that have the resource, or NaN. */
export function meanShare(steps: Uint8Array | undefined): number {
  let [sum, nodes] = [0, 0];
  for (const step of steps ?? []) {
    if (step === HAS_NONE) continue;
    sum += step / 200;
    nodes += 1;
  }
  return sum / nodes;
}

export function totalPods(use: NodeUse | null): number {
  return use ? use.pods.reduce((sum, pods) => sum + pods, 0) : 0;
}

/** What a column counts: "cpu requested", or "cpu in use", which says it itself. */
export function titleOf(resource: string): string {
  return resource.endsWith(" in use") ? resource : `${resource} requested`;
}

/** What the nodes and their idle capacity cost an hour, or nothing where no price is known. */
export function costText(nodes: NodeFacts, use: NodeUse | null): string {
  const cost = use?.cost;
  if (!cost) return "";
  const some = cost.nodes < nodes.names.length ? ` (${plural(cost.nodes, "node")} of ${nodes.names.length.toLocaleString("en")} with a price)` : "";
  return `${money(cost.total, nodes.priceUnit)} an hour, ${money(cost.idle, nodes.priceUnit)} of it idle${some}`;
}

/** What is idle of the resource by real use, and how much of that pods cannot get, or nothing where it is not known. */
export function idleText(use: NodeUse | null, resource: string): string {
  const name = resource.replace(/ in use$/, "");
  const found = use?.idle?.[name];
  if (!found) return "";
  const rest = found.outOfReach === null ? "" : `, ${percent(found.outOfReach)} of that out of reach of typical pods`;
  return `${name} idle ${percent(found.idle)}${rest}`;
}

export function summarise(nodes: NodeFacts, use: NodeUse | null, resource: string): string {
  const parts = [plural(nodes.names.length, "node"), plural(totalPods(use), "pod")];
  const mean = meanShare(use?.use.get(resource));
  if (!Number.isNaN(mean)) parts.push(`${titleOf(resource)} ${percent(mean)} on average`);
  for (const [bit, word] of WORDS) if (count(nodes.flags, bit) > 0) parts.push(`${count(nodes.flags, bit).toLocaleString("en")} ${word}`);
  return [parts.join(", "), idleText(use, resource), costText(nodes, use)].filter(Boolean).join("; ");
}

/** 1 for each row whose name has the text; null where nothing is searched. */
export function search(names: readonly string[], text: string): Uint8Array | null {
  const wanted = text.trim().toLowerCase();
  return wanted === "" ? null : Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
}

/** Parts of the histogram: 0 to 10 %, up to 90 to 100 %. */
export const BINS = 10;

/** How many nodes are in each tenth of the scale; nodes without the resource are in none. A full node is in the last one. */
export function fullness(steps: Uint8Array | undefined): number[] {
  const bins = new Array<number>(BINS).fill(0);
  for (const step of steps ?? []) if (step !== HAS_NONE) bins[Math.min(BINS - 1, Math.floor((step * BINS) / 200))] += 1;
  return bins;
}
