// Cluster: which pods are pending and why, the map, and beside it the node that the address names.

import { useLive } from "../live/use_live.ts";
import { PodLink } from "../parts/name.tsx";
import { goTo } from "../router.ts";
import { age } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";
import { ClusterMap } from "./cluster_map.tsx";
import { NodePanel } from "./node_panel.tsx";
import { PendingReasons } from "./pending_reasons.tsx";

/** Further reasons are on the page Queue. */
const MOST_REASONS = 4;

/** How many pods wait for a node, which of them longest, and the reasons that concern most of them. */
function Pending() {
  const { pending, nowS } = useLive("pending", "queue");
  if (!pending) return null;
  if (pending.total === 0) return <p class="soft">No pods are pending.</p>;
  return (
    <>
      <p>
        <a href="#/queue">{plural(pending.total, "pending pod")}</a>
        {pending.oldest && <>; the oldest, <PodLink pod={pending.oldest} limit={60} />, waits for {age(pending.oldest.since, nowS)}</>}
      </p>
      <PendingReasons most={MOST_REASONS} />
    </>
  );
}

export function ClusterPage({ rest }: { rest: string[] }) {
  const name = rest[0] === "node" ? rest[1] : undefined;
  const close = () => {
    goTo("cluster");
    document.querySelector<HTMLElement>(".map-surface")?.focus();
  };
  return (
    <div class={name ? "with-panel" : ""}>
      <section aria-labelledby="cluster-title">
        <h1 id="cluster-title">Cluster</h1>
        <Pending />
        <ClusterMap {...(name ? { chosenNode: name } : {})} />
      </section>
      {name && <NodePanel key={name} name={name} onClose={close} />}
    </div>
  );
}
