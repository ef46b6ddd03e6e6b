// Pod: its story on a timeline, and what the scheduler answers about it now.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client.ts";
import type { PodDetail } from "../api/types.ts";
import { useFetched, useLive } from "../live/use_live.ts";
import { Chips, NodeLink, pairs, Text } from "../parts/name.tsx";
import { Busy, CopyButton, ErrorNote } from "../parts/notes.tsx";
import { goTo } from "../router.ts";
import { age, clock, duration, fullTime, secondsOf } from "../text/amounts.ts";
import { ExplanationOf } from "./explanation.tsx";

const REFRESH_S = 3;

export function PodPage({ rest }: { rest: string[] }) {
  const [namespace, name] = rest;
  return (
    <section aria-labelledby="pod-title">
      <h1 id="pod-title">Pod {name && <Text text={`${namespace}/${name}`} limit={80} />}</h1>
      {name ? <Story key={rest.join("/")} namespace={namespace} name={name} /> : <Which />}
    </section>
  );
}

function Which() {
  const [text, setText] = useState("");
  const open = (event: Event) => {
    event.preventDefault();
    const [namespace, name] = text.includes("/") ? text.split("/", 2) : ["default", text];
    if (name.trim()) goTo("pod", namespace.trim(), name.trim());
  };
  return (
    <form class="bar" onSubmit={open}>
      <label class="pick">Pod <input value={text} placeholder="namespace/name" onInput={(event) => setText(event.currentTarget.value)} /></label>
      <button type="submit">Open</button>
      <span class="soft">The queue and the panels of nodes have links to pods.</span>
    </form>
  );
}

function Story({ namespace, name }: { namespace: string; name: string }) {
  const { session } = useLive("session");
  const { value, error, reload } = useFetched(`${namespace}/${name}`, (signal) => api.pod(namespace, name, signal), REFRESH_S);
  return (
    <>
      <ErrorNote error={error} retry={reload} />
      {!value && !error && <Busy text="Reading the pod …" />}
      {value && <Facts pod={value} />}
      {value && <Timeline pod={value} />}
      {value && value.queue !== "gone" && session?.canAsk && <ExplanationOf namespace={namespace} name={name} />}
    </>
  );
}

function Facts({ pod }: { pod: PodDetail }) {
  const { nowS } = useLive("queue");
  const backoffS = secondsOf(pod.backoffUntil) - nowS;
  const facts: [string, preact.ComponentChildren][] = [
    [pod.node ? "On node" : "In queue", pod.node ? <NodeLink name={pod.node} /> : <Text text={pod.queue || "–"} />],
    ["Age", <span title={fullTime(pod.since)}>{age(pod.since, nowS)}</span>],
    ["Priority", pod.priority],
    ["Phase", <Text text={pod.phase || "–"} />],
    ["Profile", <Text text={pod.profile} />],
    ["Requests", <Chips items={pairs(pod.requests)} />],
    ["Labels", <Chips items={pairs(pod.labels)} />],
  ];
  if (!pod.node || pod.attempts > 0) facts.push(["Attempts", pod.attempts]);
  if (pod.nominatedNode) facts.push(["Nominated node", <NodeLink name={pod.nominatedNode} />]);
  if (backoffS > 0) facts.push(["Backs off for", duration(Math.ceil(backoffS))]);
  if (pod.gates.length > 0) facts.push(["Scheduling gates", <Chips items={pod.gates} />]);
  if (!pod.node && pod.waitsFor.length > 0) facts.push(["Waits for", <Chips items={pod.waitsFor} />]);
  return (
    <>
      {pod.queue === "gone" && <p class="note">The pod is gone. Its story is left, for as long as newer pods do not take its place.</p>}
      <p><CopyButton label="Copy link" text={() => location.href} /></p>
      {!pod.node && pod.message && <p class="note"><Text text={pod.message} limit={400} /></p>}
      <dl class="facts">{facts.map(([title, value]) => <div key={title} class={title === "Waits for" ? "whole-line" : ""}><dt>{title}</dt><dd>{value}</dd></div>)}</dl>
    </>
  );
}

/** The story as a list; a bar above it has the same events to scale. */
function Timeline({ pod }: { pod: PodDetail }) {
  const lines = pod.timeline;
  const list = useRef<HTMLOListElement>(null);
  // What happened last is what one looks for; a longer story follows it down.
  useEffect(() => list.current?.scrollTo(0, list.current.scrollHeight), [lines.at(-1)?.time]);
  if (lines.length === 0) return <><h2>Timeline</h2><p class="soft empty">The dashboard keeps no story of this pod: it is older than the dashboard, or newer pods took its place.</p></>;
  const times = lines.map((line) => secondsOf(line.time));
  const [start, end] = [times[0], times[times.length - 1]];
  const span = Math.max(end - start, 1e-3);
  return (
    <>
      <h2>Timeline <span class="soft">{duration(end - start)}</span></h2>
      <div class="story-bar" aria-hidden="true">
        {lines.map((line, at) => <span key={at} class={`dot what-${line.what}`} style={{ left: `${(100 * (times[at] - start)) / span}%` }} />)}
      </div>
      <ol class="story" tabIndex={0} aria-label="Story of the pod" ref={list}>
        {lines.map((line, at) => (
          <li key={at}>
            <time dateTime={line.time} title={fullTime(line.time)}>{clock(line.time)}</time>
            <span class="soft after">{at > 0 && times[at] > times[at - 1] ? `+${duration(times[at] - times[at - 1])}` : ""}</span>
            <span class={`what what-${line.what}`}>{line.what}</span>
            <Text text={line.detail} limit={160} />
          </li>
        ))}
      </ol>
    </>
  );
}
