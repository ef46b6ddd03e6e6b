// The changes that a what-if question has, in the words of `mooring what-if`, and how the page asks for each.

import type { Change, DoReply } from "../api/types.ts";

export interface ChangeKind {
  change: string;
  title: string;
  /** What the value looks like. */
  hint: string;
  example: string;
  /** Values of several lines, such as a configuration. */
  long?: boolean;
  /** Whether the value begins with a node: the page offers their names. */
  nodes?: boolean;
}

export const KINDS: readonly ChangeKind[] = [
  { change: "drain", title: "Drain nodes", hint: "Name of a node, or a label selector", example: "topology.kubernetes.io/zone=a", nodes: true },
  { change: "cordon", title: "Cordon nodes", hint: "Name of a node, or a label selector", example: "node-7", nodes: true },
  { change: "uncordon", title: "Uncordon nodes", hint: "Name of a node, or a label selector", example: "node-7", nodes: true },
  { change: "add-nodes", title: "Add nodes", hint: "Number = node to copy", example: "3=node-7" },
  { change: "remove-nodes", title: "Remove nodes", hint: "Name of a node, or a label selector", example: "node-7", nodes: true },
  { change: "scale", title: "Scale a workload", hint: "Kind/namespace/name = pods", example: "deployment/shop/web=10" },
  { change: "delete", title: "Delete an object", hint: "Kind/namespace/name", example: "deployment/shop/old" },
  { change: "taint", title: "Taint nodes", hint: "Node or selector = key=value:Effect; a - at the end removes it", example: "node-7=dedicated=db:NoSchedule" },
  { change: "label", title: "Label nodes", hint: "Node or selector = key=value; key- removes it", example: "node-7=disk=ssd" },
  { change: "config", title: "Try a configuration", hint: "A KubeSchedulerConfiguration (v1), as YAML", long: true,
    example: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" },
];

/** What a server carries out; the others change only the copy that a question is asked about. */
const DONE_TOO: readonly string[] = ["drain", "cordon", "uncordon", "remove-nodes", "add-nodes", "scale", "delete"];

/** Why a list of changes cannot be carried out, or "". */
export function obstacleOf(changes: readonly Change[]): string {
  const other = changes.find((change) => !DONE_TOO.includes(change.change));
  return other ? `${kindOf(other.change).title}: the dashboard only answers what this would do. Carry it out with kubectl or mooring, and remove it here.` : "";
}

export function kindOf(change: string): ChangeKind {
  return KINDS.find((kind) => kind.change === change) ?? KINDS[0];
}

/** What is missing in a value before it is worth asking the server, or "". The server has the last word. */
export function problemOf({ change, value }: Change): string {
  const kind = kindOf(change);
  if (value.trim() === "") return `${kind.title}: enter a value such as ${kind.example.split("\n")[0]}.`;
  if (change === "add-nodes" && !/^\d+=.+/.test(value)) return "Add nodes: write the number, an equals sign and the node to copy, such as 3=node-7.";
  if (change === "scale" && !/^[^/=]+\/.+=\d+$/.test(value)) return "Scale: write kind/namespace/name=number, such as deployment/shop/web=10.";
  return "";
}

export function sentenceOf({ change, value }: Change): string {
  return change === "config" ? "use another configuration" : `${change} ${value}`;
}

/** A change that stands in front of another one, moved by one place. */
export function moved(changes: readonly Change[], at: number, by: number): Change[] {
  const next = [...changes];
  const to = at + by;
  if (to >= 0 && to < next.length) [next[at], next[to]] = [next[to], next[at]];
  return next;
}

export function outcome(reply: DoReply): string {
  return `${reply.done.length} done, ${reply.failed.length} failed.`;
}
