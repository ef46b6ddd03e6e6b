// The frame of all pages: navigation, state of the connection, theme, keys, and the question for a token.

import { useEffect, useRef, useState } from "preact/hooks";
import { onUnauthorized } from "./api/client.ts";
import { storeToken } from "./api/token.ts";
import type { StreamConnection } from "./live/connection.ts";
import type { Connection } from "./live/live_state.ts";
import { useLive, useRoute } from "./live/use_live.ts";
import { ClusterPage } from "./pages/cluster.tsx";
import { FlowPage } from "./pages/flow.tsx";
import { PodPage } from "./pages/pod.tsx";
import { QueuePage } from "./pages/queue.tsx";
import { ReplayPage } from "./pages/replay.tsx";
import { WhatIfPage } from "./pages/what_if.tsx";
import { Dialog } from "./parts/notes.tsx";
import { Transport } from "./parts/transport.tsx";
import { goTo, linkTo, type Page, type Route } from "./router.ts";
import { chooseTheme, themeChoice, type ThemeChoice } from "./theme.ts";

const PAGES: readonly [Page, string][] = [
  ["cluster", "Cluster"], ["queue", "Queue"], ["pod", "Pod"], ["flow", "Flow"], ["what-if", "What-if"], ["replay", "Replay"],
];

export function App({ connection }: { connection: StreamConnection }) {
  const route = useRoute();
  const { session } = useLive("session");
  const [wantsToken, setWantsToken] = useState(false);
  const [showsKeys, setShowsKeys] = useState(false);
  const main = useRef<HTMLElement>(null);
  useEffect(() => onUnauthorized(() => setWantsToken(true)), []);
  useEffect(() => watchKeys(() => setShowsKeys(true)), []);
  useEffect(() => { document.title = `${PAGES.find(([page]) => page === route.page)![1]} – Mooring`; }, [route.page]);
  const enter = (token: string) => {
    storeToken(token);
    setWantsToken(false);
    connection.start();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current!.focus(); }}>Skip to content</a>
      <header class="top">
        <span class="brand">Mooring <span class="soft">{session ? `${session.program} ${session.version}` : ""}</span></span>
        <nav aria-label="Pages">
          {PAGES.filter(([page]) => page !== "replay" || session?.replay).map(([page, title]) => (
            <a key={page} href={linkTo(page)} aria-current={route.page === page ? "page" : undefined}>{title}</a>
          ))}
        </nav>
        <span class="right">
          <State connection={connection} />
          <ThemeSwitch />
          <button type="button" onClick={() => setShowsKeys(true)} aria-label="Keys">?</button>
        </span>
      </header>
      <Trouble connection={connection} />
      {session?.replay && <Transport />}
      <main id="main" ref={main} tabIndex={-1}><PageOf route={route} /></main>
      {wantsToken && <TokenDialog onEnter={enter} onClose={() => setWantsToken(false)} />}
      {showsKeys && <KeysDialog onClose={() => setShowsKeys(false)} />}
    </>
  );
}

function PageOf({ route }: { route: Route }) {
  switch (route.page) {
    case "cluster": return <ClusterPage rest={route.rest} />;
    case "queue": return <QueuePage />;
    case "pod": return <PodPage rest={route.rest} />;
    case "flow": return <FlowPage />;
    case "what-if": return <WhatIfPage />;
    case "replay": return <ReplayPage />;
  }
}

const STATES: Record<Connection["state"], string> = {
  connecting: "connecting", live: "live", lost: "no connection", polling: "every 10 s", paused: "paused", unauthorized: "token needed",
};

function State({ connection }: { connection: StreamConnection }) {
  const { connection: now, session } = useLive("connection", "session");
  const standby = now.state === "live" && session?.program === "run" && !session.isLeader;
  const recorded = now.state === "live" && session?.replay;
  return (
    <span class={`state state-${now.state}`} role="status">
      <span class="light" aria-hidden="true" />{standby ? "live, not the leader" : recorded ? "recording" : STATES[now.state]}
      {now.state === "paused" && <button type="button" onClick={() => connection.start()}>Resume</button>}
    </span>
  );
}

function Trouble({ connection }: { connection: StreamConnection }) {
  const { connection: now } = useLive("connection");
  if (now.state === "lost") {
    return (
      <div class="note error trouble" role="alert">
        <span>{now.why} {now.advice} What you see is the last known state. <Countdown until={now.retryAt} /></span>
        <button type="button" onClick={() => connection.start()}>Reconnect now</button>
      </div>
    );
  }
  if (now.state === "polling") {
    return <div class="note trouble" role="status">{now.why} The page reads the plots every 10 seconds and takes a stream as soon as one is free.</div>;
  }
  return null;
}

function Countdown({ until }: { until: number }) {
  const [left, setLeft] = useState(Math.max(0, until - Date.now()));
  useEffect(() => {
    const timer = setInterval(() => setLeft(Math.max(0, until - Date.now())), 500);
    return () => clearInterval(timer);
  }, [until]);
  return <span aria-live="off">Next attempt in {Math.ceil(left / 1000)} s.</span>;
}

function ThemeSwitch() {
  const [choice, setChoice] = useState<ThemeChoice>(themeChoice());
  const choose = (next: ThemeChoice) => { chooseTheme(next); setChoice(next); };
  return (
    <label class="pick"><span class="unseen">Theme</span>
      <select value={choice} onChange={(event) => choose(event.currentTarget.value as ThemeChoice)}>
        <option value="system">System theme</option><option value="light">Light</option><option value="dark">Dark</option>
      </select>
    </label>
  );
}

function TokenDialog({ onEnter, onClose }: { onEnter: (token: string) => void; onClose: () => void }) {
  const [token, setToken] = useState("");
  return (
    <Dialog title="The server wants a token" onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); if (token.trim()) onEnter(token.trim()); }}>
        <p>Use the token of the link that mooring printed, or a token of a service account that may read /dashboard/api. It stays in this tab.</p>
        <label class="wide">Token <input type="password" value={token} autocomplete="off" autofocus onInput={(event) => setToken(event.currentTarget.value)} /></label>
        <div class="bar"><button type="submit" class="primary">Use this token</button><button type="button" onClick={onClose}>Cancel</button></div>
      </form>
    </Dialog>
  );
}

const KEYS: readonly [string, string][] = [
  ["1 to 6", "open a page"], ["?", "show these keys"], ["Tab", "go through what can be used"], ["Arrows", "on the map: move between nodes"],
  ["Page up, page down", "on the map: previous or next group"], ["Home, End", "on the map: first or last node"],
  ["Enter", "on the map: open the node"], ["Escape", "close a panel or a dialog"],
];

function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">{KEYS.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <button type="button" autofocus onClick={onClose}>Close</button>
    </Dialog>
  );
}

/** Keys that work everywhere except where one types. */
function watchKeys(showKeys: () => void): () => void {
  const pressed = (event: KeyboardEvent) => {
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (typing || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (event.key === "?") showKeys();
    const page = PAGES[Number(event.key) - 1];
    if (/^[1-6]$/.test(event.key) && page) goTo(page[0]);
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}
