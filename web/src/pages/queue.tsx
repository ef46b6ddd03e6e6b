// Queue: pods in each part of the queue over time, pending pods by reason, and the oldest pods with what they wait for.

import { useMemo, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { PodLine, QueueSample } from "../api/types.ts";
import { useFetched, useLive } from "../live/use_live.ts";
import { Chips, PodLink, Text } from "../parts/name.tsx";
import { Busy, ErrorNote, Tile } from "../parts/notes.tsx";
import { Plot } from "../parts/plot.tsx";
import { Table } from "../parts/table.tsx";
import { duration, number, secondsOf } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";
import { Pick } from "./cluster_map.tsx";
import { Age, PendingReasons } from "./pending_reasons.tsx";

const PARTS = ["active", "backoff", "unschedulable", "gated"] as const;
const REFRESH_S = 3;

function QueuePlot({ samples, last }: { samples: QueueSample[]; last: string | undefined }) {
  const data = useMemo(() => ({
    times: samples.map((sample) => secondsOf(sample.time)),
    lines: PARTS.map((part) => ({ name: part, values: samples.map((sample) => sample[part]) })),
  }), [last, samples.length]);
  return <Plot title="Pods in the queue" times={data.times} lines={data.lines} format={number} height={220} />;
}

export function QueuePage() {
  const { queue, pending } = useLive("queue", "pending");
  const last = queue.at(-1);
  return (
    <section aria-labelledby="queue-title">
      <h1 id="queue-title">Queue</h1>
      <dl class="tiles">
        {PARTS.map((part) => <Tile key={part} title={part} value={number(last?.[part] ?? 0)} />)}
        <Tile title="in flight" value={number(last?.inFlight ?? 0)} />
        <Tile title="waiting on permit" value={number(last?.waitingOnPermit ?? 0)} />
      </dl>
      <QueuePlot samples={queue} last={last?.time} />
      <h2>Why pods are pending <span class="soft">{pending ? plural(pending.total, "pod") : ""}</span></h2>
      <PendingReasons />
      <PendingPods />
    </section>
  );
}

/** When the pod is tried again, and which events would make it tried sooner. */
function WaitsFor({ pod }: { pod: PodLine }) {
  const { nowS } = useLive("queue");
  const rest = secondsOf(pod.backoffUntil) - nowS;
  if (pod.gates.length > 0) return <span>gates <Chips items={pod.gates} limit={3} /></span>;
  if (rest > 0) return <span>backs off for another {duration(Math.ceil(rest))}</span>;
  return <Chips items={pod.waitsFor} limit={3} length={36} />;
}

function PendingPods() {
  const [state, setState] = useState<"pending" | "bound">("pending");
  const [namespace, setNamespace] = useState("");
  const [query, setQuery] = useState("");
  const [limit, setLimit] = useState(100);
  const asked = { state, namespace, query, limit };
  const { value, error, reload } = useFetched(JSON.stringify(asked), (signal) => api.pods(asked, signal), REFRESH_S);
  return (
    <>
      <h2>Pods, oldest first</h2>
      <div class="bar">
        <Pick label="Show" value={state} options={["pending", "bound"]} onChange={(next) => setState(next as "pending" | "bound")} />
        <label class="pick">Namespace <input value={namespace} onInput={(event) => setNamespace(event.currentTarget.value)} /></label>
        <label class="pick">Name <input type="search" value={query} placeholder="part of the name" onInput={(event) => setQuery(event.currentTarget.value)} /></label>
        {value && <span class="soft" role="status">{value.pods.length < value.total ? `${value.pods.length} of ${plural(value.total, "pod")}` : plural(value.total, "pod")}</span>}
      </div>
      <ErrorNote error={error} retry={reload} />
      {!value && !error && <Busy text="Reading the pods …" />}
      {value && (
        <Table caption={`Pods that are ${state}, oldest first`} rows={value.pods} keyOf={(pod) => `${pod.namespace}/${pod.name}`} empty={`No pods are ${state}.`} columns={[
          { title: "Pod", head: true, cell: (pod) => <PodLink pod={pod} /> },
          { title: "Queue", cell: (pod) => <Text text={pod.queue} /> },
          { title: "Age", numeric: true, cell: (pod) => <Age since={pod.since} /> },
          { title: "Attempts", numeric: true, cell: (pod) => number(pod.attempts) },
          { title: "Why", cell: (pod) => <Text text={pod.message} limit={90} /> },
          { title: "Waits for", cell: (pod) => <WaitsFor pod={pod} /> },
          { title: "Priority", numeric: true, cell: (pod) => pod.priority },
        ]} />
      )}
      {value && value.pods.length < value.total && limit < 500 && <button type="button" onClick={() => setLimit(500)}>Show up to 500</button>}
    </>
  );
}
