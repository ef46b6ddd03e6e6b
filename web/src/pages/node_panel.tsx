// One node: free room, pods, labels, taints, and why pending pods are rejected there.

import { useEffect, useRef } from "preact/hooks";
import { api } from "../api/client.ts";
import type { NodeDetail, NodeRejections } from "../api/types.ts";
import { useFetched, useLive } from "../live/use_live.ts";
import { Chips, pairs, PodLink, Text } from "../parts/name.tsx";
import { Busy, ErrorNote } from "../parts/notes.tsx";
import { Table } from "../parts/table.tsx";
import { age, money, percent } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";

/** The panel follows its node this often. */
const REFRESH_S = 2;

export function NodePanel({ name, onClose }: { name: string; onClose: () => void }) {
  const { value, error, reload } = useFetched(`node ${name}`, (signal) => api.node(name, signal), REFRESH_S);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current!.focus(), []);
  return (
    <aside class="panel" aria-labelledby="node-title" onKeyDown={(event) => { if (event.key === "Escape") onClose(); }}>
      <header>
        <h2 id="node-title" tabIndex={-1} ref={heading}>Node <Text text={name} limit={60} /></h2>
        <button type="button" onClick={onClose} aria-label="Close the panel of the node">Close</button>
      </header>
      <ErrorNote error={error} retry={reload} />
      {!value && !error && <Busy text="Reading the node …" />}
      {value && <NodeBody node={value} />}
    </aside>
  );
}

function NodeBody({ node }: { node: NodeDetail }) {
  const { session, nowS } = useLive("session");
  return (
    <>
      {node.unschedulable && <p class="note">The node is unschedulable: no new pods go there. kubectl uncordon makes it schedulable.</p>}
      {node.ready === false && <p class="note">The node is not ready: its kubelet does not report, or reports a problem.</p>}
      <h3>Room</h3>
      <Table caption="Room on the node" rows={node.resources} keyOf={(resource) => resource.name} columns={[
        { title: "Resource", head: true, cell: (resource) => <Text text={resource.name} /> },
        { title: "Free", numeric: true, cell: (resource) => resource.free },
        { title: "Requested", numeric: true, cell: (resource) => resource.requested },
        { title: "Allocatable", numeric: true, cell: (resource) => resource.allocatable },
        { title: "Full", cell: (resource) => <Meter share={resource.share} /> },
      ]} />
      {node.price !== null && <p>The node costs {money(node.price, node.priceUnit)} an hour.</p>}
      <h3>Taints</h3>
      <Chips items={node.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`)} />
      {session?.canAsk && <Rejections name={node.name} />}
      <h3>Pods <span class="soft">{node.total > node.pods.length ? `${node.pods.length} of ${node.total}` : node.total}</span></h3>
      <Table caption="Pods on the node" rows={node.pods} keyOf={(pod) => `${pod.namespace}/${pod.name}`} empty="No pods are on this node." columns={[
        { title: "Pod", head: true, cell: (pod) => <PodLink pod={pod} limit={44} /> },
        { title: "Requests", cell: (pod) => <Text text={pairs(pod.requests).join(", ") || "none"} /> },
        { title: "Priority", numeric: true, cell: (pod) => pod.priority },
        { title: "Phase", cell: (pod) => <Text text={pod.phase} /> },
        { title: "Age", numeric: true, cell: (pod) => age(pod.since, nowS) },
      ]} />
      <h3>Labels {node.labelsTotal > Object.keys(node.labels).length && <span class="soft">{Object.keys(node.labels).length} of {node.labelsTotal}</span>}</h3>
      <Chips items={pairs(node.labels)} limit={12} />
    </>
  );
}

function Meter({ share }: { share: number }) {
  const text = percent(share);
  return (
    <span class="meter-line">
      <span class="meter" role="img" aria-label={`${text} requested`}><span style={{ width: `${Math.min(100, Math.max(0, share * 100))}%` }} /></span>{text}
    </span>
  );
}

function Rejections({ name }: { name: string }) {
  const { value, error, loading, reload } = useFetched<NodeRejections>(`rejections ${name}`, (signal) => api.rejections(name, signal));
  return (
    <>
      <h3>Why pending pods are rejected here</h3>
      <ErrorNote error={error} retry={reload} />
      {loading && !value && <Busy text="Asking the scheduler …" />}
      {value && (
        <>
          <Table caption="Rejections on the node" rows={value.pods} keyOf={(line) => `${line.plugin} ${line.reason}`} empty="The scheduler rejects no pending pod here." columns={[
            { title: "Pods", numeric: true, cell: (line) => line.count },
            { title: "Reason", head: true, cell: (line) => <Text text={line.reason} limit={90} /> },
            { title: "Plugin", cell: (line) => <Text text={line.plugin} /> },
            { title: "For example", cell: (line) => <PodLink pod={line.example} limit={36} /> },
          ]} />
          <p class="soft">{plural(value.total, "pending pod")} asked. <button type="button" onClick={reload} disabled={loading}>Ask again</button></p>
        </>
      )}
    </>
  );
}
