// Cluster: the map, and beside it the node that the address names.

import { goTo } from "../router.ts";
import { ClusterMap } from "./cluster_map.tsx";
import { NodePanel } from "./node_panel.tsx";

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
        <ClusterMap {...(name ? { chosenNode: name } : {})} />
      </section>
      {name && <NodePanel key={name} name={name} onClose={close} />}
    </div>
  );
}
