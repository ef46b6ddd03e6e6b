// The map of the cluster with its controls, and the same content as a table. Cluster, Replay and What-if show it.

import { useEffect, useMemo, useState } from "preact/hooks";
import { useLive } from "../live/use_live.ts";
import { shareScale } from "../map/colours.ts";
import { fullestFirst, groupNodes } from "../map/layout.ts";
import { Legend } from "../map/legend.tsx";
import { NodeMap } from "../map/node_map.tsx";
import { useTheme } from "../theme.ts";
import { cut, plural, visible } from "../text/visible.ts";
import { goTo } from "../router.ts";
import { describeNode, search, stepText, summarise, titleOf } from "./node_facts.ts";
import { Histogram } from "./histogram.tsx";
import { NodeTable } from "./node_table.tsx";

/** A choice that stays while one walks between pages. */
const chosen = { resource: "", groupBy: "topology.kubernetes.io/zone", view: "map", sort: "name" };

export function useChoice(key: keyof typeof chosen): [string, (value: string) => void] {
  const [value, setValue] = useState(chosen[key]);
  return [value, (next) => { chosen[key] = next; setValue(next); }];
}

/** Screen readers hear a summary, but not every second. */
const SAY_EVERY_MS = 20_000;

/** Cells that are sorted by use change their places at this pace: at every change nobody could follow them. */
const SORT_EVERY_MS = 10_000;

function useSpoken(text: string): string {
  const [said, setSaid] = useState({ text: "", at: 0 });
  useEffect(() => {
    if (text && text !== said.text && Date.now() - said.at > SAY_EVERY_MS) setSaid({ text, at: Date.now() });
  }, [text]);
  return said.text;
}

/** An option cannot be opened to show the rest, so that it gets more room than names elsewhere. */
export function shortName(text: string): string {
  return cut(visible(text), 70);
}

interface PickProps {
  label: string;
  value: string;
  options: readonly string[];
  onChange: (value: string) => void;
  name?: (option: string) => string;
}

export function Pick({ label, value, options, onChange, name = shortName }: PickProps) {
  return (
    <label class="pick">{label}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((option) => <option value={option} key={option}>{name(option)}</option>)}
      </select>
    </label>
  );
}

export function ClusterMap({ chosenNode, share }: { chosenNode?: string; share?: number }) {
  const { nodes, use } = useLive("nodes", "use");
  const theme = useTheme();
  const [resourceChoice, setResource] = useChoice("resource");
  const [groupChoice, setGroupBy] = useChoice("groupBy");
  const [view, setView] = useChoice("view");
  const [sort, setSort] = useChoice("sort");
  const [find, setFind] = useState("");
  const names = nodes?.names ?? [];
  const labelKeys = Object.keys(nodes?.labels ?? {});
  const resource = nodes?.resources.includes(resourceChoice) ? resourceChoice : (nodes?.resources[0] ?? "cpu");
  const groupBy = groupChoice === "" || labelKeys.includes(groupChoice) ? groupChoice : (labelKeys[0] ?? "");
  const column = nodes?.labels[groupBy];
  const scale = useMemo(() => shareScale(theme), [theme]);
  const found = useMemo(() => search(names, find), [names, find]);
  const steps = use?.use.get(resource);
  const byName = useMemo(() => groupNodes(names, column), [names, column]);
  const moment = sort === "name" ? 0 : Math.floor(Date.now() / SORT_EVERY_MS);
  const groups = useMemo(() => (sort === "name" || !steps ? byName : fullestFirst(byName, steps)), [byName, sort, resource, moment, !steps]);
  const cells = useMemo(
    () => ({ names, caption: stepText, steps: steps ?? new Uint8Array(names.length), flags: nodes?.flags ?? new Uint8Array(0), found }), [steps, nodes?.flags, found, names],
  );
  const summary = nodes ? summarise(nodes, use, resource) : "";
  const spoken = useSpoken(summary);
  if (!nodes) return <p class="soft" role="status">Waiting for the nodes of the cluster …</p>;
  if (names.length === 0) return <p class="note">The cluster has no nodes yet. They appear here as soon as they register.</p>;
  const openFirst = (event: KeyboardEvent) => {
    const row = groups.flatMap((group) => group.rows).find((at) => found?.[at]);
    if (event.key === "Enter" && row !== undefined) goTo("cluster", "node", names[row]);
  };
  return (
    <div class="cluster-map">
      <div class="bar">
        <Pick label="Colour" value={resource} options={nodes.resources} onChange={setResource} />
        <Pick label="Group by" value={groupBy} options={["", ...labelKeys]} onChange={setGroupBy} name={(key) => (key ? shortName(key) : "nothing")} />
        <Pick label="Sort by" value={sort} options={["name", "fullest first"]} onChange={setSort} />
        <label class="pick">Find <input type="search" value={find} placeholder="name of a node" onInput={(event) => setFind(event.currentTarget.value)} onKeyDown={openFirst} /></label>
        {found && <span class="soft" role="status">{plural(found.reduce((sum, is) => sum + is, 0), "node")} found</span>}
        <span class="switch" role="group" aria-label="View">
          {["map", "table"].map((kind) => (
            <button type="button" key={kind} aria-pressed={view === kind} onClick={() => setView(kind)}>{kind === "map" ? "Map" : "Table"}</button>
          ))}
        </span>
      </div>
      <p class="summary">{summary}</p>
      <p class="unseen" aria-live="polite">{spoken}</p>
      {view === "map" ? (
        <>
          {names.length > 1 && <Histogram title={`Nodes by ${visible(titleOf(resource))}`} steps={cells.steps} scale={scale} />}
          <NodeMap label={`Map of ${plural(names.length, "node")}, coloured by ${visible(resource)}. Arrow keys move, Enter opens a node. The button Table shows the same as text.`}
            groups={groups} cells={cells} scale={scale} describe={(row) => describeNode(nodes, use, row, groupBy)}
            onOpen={(row) => goTo("cluster", "node", names[row])} {...(share === undefined ? {} : { share })} chosen={chosenNode ? names.indexOf(chosenNode) : -1} />
          <Legend scale={scale} from="0 %" to="100 %" title={visible(titleOf(resource))} />
        </>
      ) : <NodeTable nodes={nodes} use={use} groups={groups} groupBy={groupBy} found={found} />}
    </div>
  );
}
