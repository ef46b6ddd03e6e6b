// Replay: the time line, the cluster at that moment, and the decisions around it.

import { useState } from "preact/hooks";
import { api } from "../api/client.ts";
import { player } from "../live/player.ts";
import { useFetched, useLive } from "../live/use_live.ts";
import { PodLink, Text } from "../parts/name.tsx";
import { Busy, ErrorNote } from "../parts/notes.tsx";
import { Table } from "../parts/table.tsx";
import { clock, number } from "../text/amounts.ts";
import { ClusterMap } from "./cluster_map.tsx";

const SHOWN = 100;
/** Decisions before the present one that the list begins with. */
const BEFORE = 5;

export function ReplayPage() {
  const { session } = useLive("session");
  if (session && !session.replay) {
    return (
      <section><h1>Replay</h1>
        <p class="note">This is a cluster as it is now, so there is no time line. `mooring replay --serve RECORDING` and `mooring simulate --serve` show one.</p>
      </section>
    );
  }
  return (
    <section aria-labelledby="replay-title">
      <h1 id="replay-title">Replay</h1>
      <ClusterMap share={0.42} />
      <Decisions />
    </section>
  );
}

function Decisions() {
  const { replay } = useLive("replay");
  const [follow, setFollow] = useState(true);
  const [first, setFirst] = useState(0);
  const after = follow ? Math.max(0, (replay?.position ?? 0) - BEFORE) : first;
  const { value, error, reload } = useFetched(replay ? `${after} of ${replay.decisions}` : null, (signal) => api.decisions(after, SHOWN, signal));
  const page = (to: number) => { setFollow(false); setFirst(Math.max(0, to)); };
  return (
    <>
      <h2>Decisions</h2>
      <div class="bar">
        <button type="button" disabled={after === 0} onClick={() => page(after - SHOWN)}>Previous</button>
        <button type="button" disabled={!value || after + SHOWN >= value.total} onClick={() => page(after + SHOWN)}>Next</button>
        <label class="pick"><input type="checkbox" checked={follow} onChange={(event) => setFollow(event.currentTarget.checked)} /> follow the time line</label>
        {value && <span class="soft">{number(value.total)} in the recording</span>}
      </div>
      <ErrorNote error={error} retry={reload} />
      {!value && !error && <Busy text="Reading the decisions …" />}
      {value && (
        <Table caption="Decisions of the recording" rows={value.decisions} keyOf={(decision) => String(decision.number)} empty="No decisions after this one." columns={[
          { title: "Number", numeric: true, cell: (decision) => (
            <button type="button" class="link" aria-label={`${number(decision.number)}: jump to this decision`} aria-current={decision.number === replay?.position ? "true" : undefined}
              onClick={() => void player.seek({ decision: decision.number })}>{number(decision.number)}</button>) },
          { title: "Time", cell: (decision) => clock(decision.time) },
          { title: "Pod", head: true, cell: (decision) => <PodLink pod={decision} /> },
          { title: "Result", cell: (decision) => <Text text={decision.result} limit={100} /> },
          { title: "Node", cell: (decision) => <Text text={decision.node || "–"} /> },
        ]} />
      )}
    </>
  );
}
