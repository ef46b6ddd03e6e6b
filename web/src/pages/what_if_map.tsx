// The answer on the map: before, after, or the difference in colours of their own.

import { useMemo, useState } from "preact/hooks";
import { bytesOf, countsOf } from "../api/decode.ts";
import type { WhatIfReply } from "../api/types.ts";
import type { NodeFacts, NodeUse } from "../live/live_state.ts";
import { useLive } from "../live/use_live.ts";
import { differenceScale, differenceStep, HAS_NONE, shareScale } from "../map/colours.ts";
import { groupNodes } from "../map/layout.ts";
import { Legend } from "../map/legend.tsx";
import { NodeMap } from "../map/node_map.tsx";
import { goTo } from "../router.ts";
import { useTheme } from "../theme.ts";
import { cut, plural, visible } from "../text/visible.ts";
import { Pick, useChoice } from "./cluster_map.tsx";
import { stepText } from "./node_facts.ts";

type View = "before" | "after" | "difference";
const VIEWS: readonly View[] = ["before", "after", "difference"];

/** Nodes of both sides in one list: those of the cluster first, then new ones; `row` is -1 on a side that does not have the node. */
export interface BothSides {
  names: string[];
  before: Int32Array;
  after: Int32Array;
}

export function bothSides(before: readonly string[], after: readonly string[]): BothSides {
  const rows = new Map(after.map((name, row) => [name, row]));
  const known = new Set(before);
  const names = [...before, ...after.filter((name) => !known.has(name))];
  return {
    names,
    before: Int32Array.from(names, (_name, at) => (at < before.length ? at : -1)),
    after: Int32Array.from(names, (name) => rows.get(name) ?? -1),
  };
}

/** +12 % of a step of the difference scale. */
export function differenceText(step: number): string {
  return `${step > 100 ? "+" : step < 100 ? "−" : "±"}${Math.abs(step - 100)} %`;
}

function stepsOf(rows: Int32Array, column: Uint8Array | undefined): Uint8Array {
  return Uint8Array.from(rows, (row) => (row < 0 ? HAS_NONE : (column?.[row] ?? HAS_NONE)));
}

/** The present nodes and use, held for as long as the answer is shown: later changes would blur the difference. */
function useHeld(after: WhatIfReply["after"]): { nodes: NodeFacts | null; use: NodeUse | null } {
  const { nodes, use } = useLive("nodes", "use");
  const ready = nodes !== null && use !== null;
  return useMemo(() => ({ nodes, use }), [after, ready]);
}

export function AnswerMap({ after }: { after: WhatIfReply["after"] }) {
  const { nodes, use } = useHeld(after);
  const theme = useTheme();
  const [view, setView] = useState<View>("difference");
  const [resourceChoice, setResource] = useChoice("resource");
  const [groupBy] = useChoice("groupBy");
  const resource = after.use[resourceChoice] !== undefined ? resourceChoice : (Object.keys(after.use)[0] ?? "cpu");
  const sides = useMemo(() => bothSides(nodes?.names ?? [], after.names), [nodes, after]);
  const groups = useMemo(() => groupsOf(sides, nodes, groupBy), [sides, nodes, groupBy]);
  const before = useMemo(() => stepsOf(sides.before, use?.use.get(resource)), [sides, use, resource]);
  const later = useMemo(() => stepsOf(sides.after, bytesOf(after.use[resource] ?? "")), [sides, after, resource]);
  const pods = useMemo(() => countsOf(after.pods), [after]);
  const scale = useMemo(() => (view === "difference" ? differenceScale(theme) : shareScale(theme)), [view, theme]);
  const cells = useMemo(() => ({
    names: sides.names,
    caption: view === "difference" ? differenceText : stepText,
    steps: view === "before" ? before : view === "after" ? later : before.map((step, at) => differenceStep(step, later[at])),
    flags: nodes?.flags ?? new Uint8Array(0), found: null,
  }), [view, before, later, nodes, sides]);
  if (!nodes) return null;
  const podsOf = (row: number) => `${sides.before[row] < 0 ? 0 : (use?.pods[sides.before[row]] ?? 0)} to ${sides.after[row] < 0 ? 0 : pods[sides.after[row]]} pods`;
  const state = (row: number) => (sides.before[row] < 0 ? "new node, " : sides.after[row] < 0 ? "node removed, " : "");
  const describe = (row: number) =>
    `${cut(visible(sides.names[row]), 60)}: ${state(row)}${resource} ${stepText(before[row])} to ${stepText(later[row])}, ${podsOf(row)}`;
  const changed = before.reduce((sum, step, at) => sum + (step === later[at] ? 0 : 1), 0);
  return (
    <>
      <h3>On the map</h3>
      <div class="bar">
        <Pick label="Colour" value={resource} options={Object.keys(after.use)} onChange={setResource} />
        <span class="switch" role="group" aria-label="Which side">
          {VIEWS.map((one) => <button type="button" key={one} aria-pressed={view === one} onClick={() => setView(one)}>{one[0].toUpperCase() + one.slice(1)}</button>)}
        </span>
        <span class="soft">{plural(changed, "node")} with another share of {visible(resource)}</span>
      </div>
      <NodeMap label={`Map of ${plural(sides.names.length, "node")}: ${view}. The tables of the answer have the same as text.`} groups={groups} cells={cells} scale={scale}
        describe={describe} onOpen={(row) => goTo("cluster", "node", sides.names[row])} share={0.5} />
      {view === "difference"
        ? <Legend scale={scale} from="−100 %" to="+100 %" title={`${visible(resource)} requested, after minus before`} />
        : <Legend scale={scale} from="0 %" to="100 %" title={`${visible(resource)} requested, ${view}`} />}
    </>
  );
}

/** New nodes have no labels here: they form a group of their own. */
function groupsOf(sides: BothSides, nodes: NodeFacts | null, groupBy: string) {
  const column = nodes?.labels[groupBy];
  if (!column) return groupNodes(sides.names, undefined);
  const isNew = sides.names.length > (nodes?.names.length ?? 0);
  const values = isNew ? [...column.values, "new nodes"] : column.values;
  const of = sides.names.map((_name, row) => (sides.before[row] < 0 ? values.length - 1 : column.of[row]));
  return groupNodes(sides.names, { values, of });
}
