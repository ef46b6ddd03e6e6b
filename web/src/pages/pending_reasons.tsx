// Pending pods by reason, the largest groups first. Cluster shows the first of them in brief, Queue all.

import type { PendingGroup } from "../api/types.ts";
import { useLive } from "../live/use_live.ts";
import { Chips, PodLink, Text } from "../parts/name.tsx";
import { Table } from "../parts/table.tsx";
import { age, number } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";

export function Age({ since }: { since: string | undefined }) {
  const { nowS } = useLive("queue");
  return <span>{age(since, nowS)}</span>;
}

export function PendingReasons({ most = Infinity }: { most?: number }) {
  const { pending } = useLive("pending");
  const groups = pending?.groups ?? [];
  const shown = groups.slice(0, most);
  const left = (pending?.total ?? 0) - shown.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <Table caption="Pending pods by reason" rows={shown} keyOf={(group) => `${group.queue} ${group.reason}`} empty="No pods are pending." columns={[
        { title: "Pods", numeric: true, cell: (group) => number(group.count) },
        { title: "Reason", head: true, cell: (group) => <Text text={group.reason || "not tried yet"} limit={120} /> },
        ...(most === Infinity ? [{ title: "Plugins", cell: (group: PendingGroup) => <Chips items={group.plugins} /> }] : []),
        { title: "Queue", cell: (group) => <Text text={group.queue} /> },
        { title: "Oldest", cell: (group) => (group.oldest ? <PodLink pod={group.oldest} /> : "–") },
        { title: "Waits", numeric: true, cell: (group) => <Age since={group.oldest?.since} /> },
      ]} />
      {groups.length > shown.length && <p>{plural(left, "pod")} for <a href="#/queue">other reasons</a></p>}
    </>
  );
}
