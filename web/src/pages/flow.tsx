// Flow: pods a second, latency of attempts, preemptions and evictions, and the self-check, for all profiles or one.

import { useMemo, useState } from "preact/hooks";
import type { FlowSample } from "../api/types.ts";
import { useLive } from "../live/use_live.ts";
import { Tile } from "../parts/notes.tsx";
import { Plot } from "../parts/plot.tsx";
import { age, duration, fullTime, number, secondsOf } from "../text/amounts.ts";
import { plural } from "../text/visible.ts";
import { Pick, shortName } from "./cluster_map.tsx";

type Attempts = FlowSample["attempts"][string];

/** Attempts of a profile a second, or of all profiles. */
export function attemptsASecond(sample: FlowSample, profile: string, result: keyof Attempts): number {
  const entries = Object.entries(sample.attempts).filter(([name]) => profile === "" || name === profile);
  return sample.seconds > 0 ? entries.reduce((sum, [, attempts]) => sum + attempts[result], 0) / sample.seconds : 0;
}

/** The latency of a profile, or the worst of all; null where the second had no attempt. */
export function latencyOf(sample: FlowSample, profile: string, which: "p50" | "p99"): number | null {
  const values = Object.entries(sample.latency).filter(([name]) => profile === "" || name === profile).map(([, latency]) => latency[which]);
  const known = values.filter((value) => typeof value === "number" && Number.isFinite(value));
  return known.length > 0 ? Math.max(...known) : null;
}

function linesOf(flow: FlowSample[], profile: string) {
  const line = (name: string, value: (sample: FlowSample) => number | null) => ({ name, values: flow.map(value) });
  const each = (sample: FlowSample, count: number) => (sample.seconds > 0 ? count / sample.seconds : 0);
  return {
    times: flow.map((sample) => secondsOf(sample.time)),
    attempts: [
      line("scheduled", (sample) => attemptsASecond(sample, profile, "scheduled")),
      line("unschedulable", (sample) => attemptsASecond(sample, profile, "unschedulable")),
      line("error", (sample) => attemptsASecond(sample, profile, "error")),
    ],
    latency: [line("p50", (sample) => latencyOf(sample, profile, "p50")), line("p99", (sample) => latencyOf(sample, profile, "p99"))],
    bound: [line("bound", (sample) => each(sample, sample.bound))],
    evictions: [
      line("preemptions", (sample) => each(sample, sample.preemptions)),
      line("victims", (sample) => each(sample, sample.victims)),
      line("evictions", (sample) => each(sample, sample.evictions)),
    ],
  };
}

function total(flow: FlowSample[], field: "bound" | "preemptions" | "victims" | "evictions"): number {
  return flow.reduce((sum, sample) => sum + sample[field], 0);
}

export function FlowPage() {
  const { flow, session, nowS } = useLive("flow", "session");
  const [profile, setProfile] = useState("");
  const last = flow.at(-1);
  const lines = useMemo(() => linesOf(flow, profile), [last?.time, flow.length, profile]);
  const seconds = Math.max(1, flow.reduce((sum, sample) => sum + sample.seconds, 0));
  const check = last?.selfCheck ?? null;
  return (
    <section aria-labelledby="flow-title">
      <h1 id="flow-title">Flow</h1>
      <div class="bar">
        <Pick label="Profile" value={profile} options={["", ...(session?.profiles ?? [])]} onChange={setProfile} name={(name) => (name ? shortName(name) : "all profiles")} />
        <span class="soft">The last {duration(seconds)}</span>
      </div>
      <dl class="tiles">
        <Tile title="pods a second" value={number(last && last.seconds > 0 ? last.bound / last.seconds : 0)} detail={`${number(total(flow, "bound") / seconds)} on average`} />
        <Tile title="attempt p50" value={latencyText(last, profile, "p50")} />
        <Tile title="attempt p99" value={latencyText(last, profile, "p99")} />
        <Tile title="preemptions" value={number(total(flow, "preemptions"))} detail={plural(total(flow, "victims"), "victim")} />
        <Tile title="evictions" value={number(total(flow, "evictions"))} />
        <Tile title="self-check" value={check ? (check.differences ? plural(check.differences, "difference") : "agrees") : "off"}
          detail={check ? `${plural(check.runs, "run")}${check.last ? `, the last ${age(check.last, nowS)} ago` : ""}` : undefined} />
      </dl>
      <div class="plots">
        <Plot title="Bound pods a second" times={lines.times} lines={lines.bound} format={number} />
        <Plot title="Attempts a second by result" times={lines.times} lines={lines.attempts} format={number} />
        <Plot title={`Latency of an attempt${profile ? "" : ", the slowest profile"}`} times={lines.times} lines={lines.latency} format={duration} />
        <Plot title="Preemptions and evictions a second" times={lines.times} lines={lines.evictions} format={number} />
      </div>
      {last && <p class="soft">Last sample: {fullTime(last.time)}</p>}
    </section>
  );
}

function latencyText(sample: FlowSample | undefined, profile: string, which: "p50" | "p99"): string {
  const value = sample ? latencyOf(sample, profile, which) : null;
  return value === null ? "–" : duration(value);
}
