// The answer of `mooring what-if`: whether everything fits, which pods change, and how full the cluster is before and after.

import type { ComponentChildren } from "preact";
import type { PodRef, Use, WhatIf } from "../api/types.ts";
import { NodeLink, PodLink, Text } from "../parts/name.tsx";
import { Table } from "../parts/table.tsx";
import { money, percent, quantity } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";

export interface PodChange {
  pod: PodRef;
  what: string;
  from: string;
  to: string;
  why: string;
}

/** What matters most first: pods that lose their node, then those that a drain could not evict, and those that nothing happens to last. */
export function podChanges(answer: WhatIf): PodChange[] {
  return [
    ...answer.pending.filter((pod) => !pod.wasPending).map((pod) => ({ pod, what: pod.isNew ? "new, pending" : "pending", from: pod.from, to: "", why: pod.message })),
    ...answer.blocked.map((pod) => ({ pod, what: "blocked", from: pod.node, to: pod.node, why: pod.message })),
    ...answer.gone.map((pod) => ({ pod, what: "gone", from: pod.node, to: "", why: pod.reason })),
    ...answer.preempted.map((pod) => ({ pod, what: "preempted", from: pod.node, to: pod.to, why: `by ${pod.preemptor.namespace}/${pod.preemptor.name}` })),
    ...answer.moved.map((pod) => ({ pod, what: "moved", from: pod.from, to: pod.to, why: "" })),
    ...answer.placed.map((pod) => ({ pod, what: pod.isNew ? "new, placed" : "placed", from: "", to: pod.node, why: "" })),
    ...answer.pending.filter((pod) => pod.wasPending).map((pod) => ({ pod, what: "still pending", from: pod.from, to: "", why: pod.message })),
  ];
}

export function verdictOf(answer: WhatIf): string {
  const counts: [number, string][] = [
    [answer.pending.filter((pod) => !pod.wasPending).length, "become pending"],
    [answer.pending.filter((pod) => pod.wasPending).length, "still pending"],
    [answer.moved.length, "moved"],
    [answer.placed.length, "placed"],
    [answer.preempted.length, "preempted"],
    [answer.gone.length, "gone"],
    [answer.blocked.length, "blocked by budgets"],
  ];
  const words = counts.filter(([count]) => count > 0).map(([count, word]) => `${count.toLocaleString("en")} ${word}`);
  return `${answer.fits ? "Everything fits." : "Not everything fits."} Pods: ${words.join(", ") || "no difference"}.`;
}

/** What the changes cost or save, or nothing where prices are not known: the sentences of the command. */
export function costChange({ cost }: WhatIf): string {
  if (!cost) return "";
  const show = (amount: number) => money(amount, cost.priceUnit);
  const more = `${show(Math.abs(cost.difference))} ${cost.difference > 0 ? "more" : "less"} an hour, ${show(Math.abs(cost.differenceAMonth))} ${cost.difference > 0 ? "more" : "less"} a month (730 hours)`;
  const nodes = cost.difference === 0 ? `Nodes cost ${show(cost.before)} an hour, before and after.` : `Nodes cost ${show(cost.before)} an hour before and ${show(cost.after)} an hour after: ${more}.`;
  return `${nodes} Idle capacity costs ${show(cost.idleBefore)} an hour before and ${show(cost.idleAfter)} an hour after.`;
}

const SHOWN = 200;

export function AnswerSummary({ answer }: { answer: WhatIf }) {
  return (
    <>
      <h2>The difference</h2>
      <p class={answer.fits ? "note good" : "note warn"} role="status">{verdictOf(answer)}</p>
      {answer.cost && <p>{costChange(answer)}</p>}
      {answer.notes.map((note) => <p class="soft" key={note}><Text text={note} limit={300} /></p>)}
      <h3>How full the cluster is</h3>
      <Fullness answer={answer} />
    </>
  );
}

export function AnswerPods({ answer }: { answer: WhatIf }) {
  const changes = podChanges(answer);
  return (
    <>
      <h3>Pods <span class="soft">{changes.length > SHOWN ? `the first ${SHOWN} of ${changes.length}` : plural(changes.length, "change")}</span></h3>
      <Table caption="Pods that change" rows={changes.slice(0, SHOWN)} keyOf={(_change, at) => `${at}`} empty="No pod changes." columns={[
        { title: "Pod", head: true, cell: (change) => <PodLink pod={change.pod} /> },
        { title: "Change", cell: (change) => change.what },
        { title: "From", cell: (change) => <NodeLink name={change.from} /> },
        { title: "To", cell: (change) => <Text text={change.to || "–"} /> },
        { title: "Why", cell: (change) => <Text text={change.why} limit={110} /> },
      ]} />
      {answer.workloads.length > 0 && <Workloads answer={answer} />}
    </>
  );
}

function sharesOf(use: Use, resource: string): ComponentChildren {
  const amount = use.resources[resource];
  if (!amount || amount.allocatable === 0) return "–";
  return `${percent(amount.requested / amount.allocatable, 1)} of ${quantity(resource, amount.allocatable)}`;
}

function Fullness({ answer }: { answer: WhatIf }) {
  const { total, zones, pools } = answer.utilisation;
  const rows = [{ name: "cluster", ...total }, ...zones.map((zone) => ({ ...zone, name: `zone ${zone.name || "–"}` })), ...pools.map((pool) => ({ ...pool, name: `pool ${pool.name || "–"}` }))];
  const resources = [...new Set([...Object.keys(total.before.resources), ...Object.keys(total.after.resources)])].slice(0, 4);
  const both = (before: ComponentChildren, after: ComponentChildren) => (before === after ? before : <>{before} <span aria-label="becomes">→</span> <strong>{after}</strong></>);
  return (
    <Table caption="Before and after" rows={rows.slice(0, 40)} keyOf={(row, at) => `${at} ${row.name}`} columns={[
      { title: "Where", head: true, cell: (row) => <Text text={row.name} /> },
      { title: "Schedulable nodes", numeric: true, cell: (row) => both(row.before.nodes, row.after.nodes) },
      { title: "Pods", numeric: true, cell: (row) => both(row.before.pods, row.after.pods) },
      ...resources.map((resource) => ({
        title: resource, numeric: true, cell: (row: (typeof rows)[number]) => both(sharesOf(row.before, resource), sharesOf(row.after, resource)),
      })),
    ]} />
  );
}

function Workloads({ answer }: { answer: WhatIf }) {
  const columns = ["moved", "pending", "placed", "preempted", "blocked"] as const;
  return (
    <details>
      <summary>By workload ({answer.workloads.length})</summary>
      <Table caption="Changes by workload" rows={answer.workloads.slice(0, SHOWN)} keyOf={(load) => `${load.kind}/${load.namespace}/${load.name}`} columns={[
        { title: "Workload", head: true, cell: (load) => <Text text={`${load.kind}/${load.namespace}/${load.name}`} limit={70} /> },
        ...columns.map((column) => ({ title: column, numeric: true, cell: (load: WhatIf["workloads"][number]) => load[column] || "–" })),
      ]} />
    </details>
  );
}
