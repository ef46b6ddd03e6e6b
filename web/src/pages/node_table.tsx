// The map as text: one line a node, a hundred lines a page, sorted by any column.

import { useState } from "preact/hooks";
import type { NodeFacts, NodeUse } from "../live/live_state.ts";
import { fullestFirst, type NodeGroup } from "../map/layout.ts";
import { NodeLink, Text } from "../parts/name.tsx";
import { money } from "../text/amounts.ts";
import { plural, visible } from "../text/visible.ts";
import { labelOf, states, stepText } from "./node_facts.ts";

const PAGE = 100;

interface NodeTableProps {
  nodes: NodeFacts;
  use: NodeUse | null;
  groups: NodeGroup[];
  groupBy: string;
  found: Uint8Array | null;
}

/** Rows in the order of the map, or by a resource or pods over all groups, the fullest first. */
export function sortedRows(groups: readonly NodeGroup[], found: Uint8Array | null, by: Uint8Array | Uint16Array | Float64Array | null): number[] {
  const rows = groups.flatMap((group) => group.rows).filter((row) => !found || found[row]);
  return by ? fullestFirst([{ title: "", rows }], by)[0].rows : rows;
}

export function NodeTable({ nodes, use, groups, groupBy, found }: NodeTableProps) {
  const [sort, setSort] = useState("");
  const [page, setPage] = useState(0);
  const prices = nodes.prices?.length ? nodes.prices : null;
  const by = sort === "price" && prices ? Float64Array.from(prices, (price) => price ?? -1) : sort === "pods" ? (use?.pods ?? null) : (use?.use.get(sort.replace(/^use:/, "")) ?? null);
  const rows = sortedRows(groups, found, by);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const at = Math.min(page, pages - 1);
  const head = (title: string, key: string) => (
    <th scope="col" class="numeric" aria-sort={sort === key ? "descending" : "none"}>
      <button type="button" class="sort" onClick={() => setSort(sort === key ? "" : key)}>{title}{sort === key ? " ▼" : ""}</button>
    </th>
  );
  return (
    <>
      <div class="bar">
        <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>Previous</button>
        <span role="status">Page {at + 1} of {pages}, {plural(rows.length, "node")}</span>
        <button type="button" disabled={at >= pages - 1} onClick={() => setPage(at + 1)}>Next</button>
      </div>
      <div class="scroll" role="region" aria-label="Nodes as a table" tabIndex={0}>
        <table>
          <caption class="unseen">Nodes with what pods request of them</caption>
          <thead>
            <tr>
              <th scope="col">Node</th>
              {groupBy && <th scope="col"><Text text={groupBy} /></th>}
              {nodes.resources.map((resource) => head(visible(resource), `use:${resource}`))}
              {head("Number of pods", "pods")}
              {prices && head("Price an hour", "price")}
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(at * PAGE, (at + 1) * PAGE).map((row) => (
              <tr key={nodes.names[row]}>
                <th scope="row"><NodeLink name={nodes.names[row]} /></th>
                {groupBy && <td><Text text={labelOf(nodes.labels[groupBy], row)} /></td>}
                {nodes.resources.map((resource) => <td class="numeric" key={resource}>{stepText(use?.use.get(resource)?.[row])}</td>)}
                <td class="numeric">{use?.pods[row] ?? "–"}</td>
                {prices && <td class="numeric">{prices[row] === null ? "–" : money(prices[row], nodes.priceUnit)}</td>}
                <td>{states(nodes.flags[row]).join(", ") || "ready"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
