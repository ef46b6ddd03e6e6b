// What the stream has said so far. Columns of nodes stay typed arrays; pages are told at most once a frame what changed.

import { bytesOf, countsOf } from "../api/decode.ts";
import type { Cost, FlowSample, History, IdleShare, NodesEvent, PendingEvent, QueueSample, ReplayState, Session, UseEvent } from "../api/types.ts";
import { secondsOf } from "../text/amounts.ts";

export type Topic = "session" | "nodes" | "use" | "queue" | "pending" | "flow" | "connection" | "replay";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  /** Another attempt follows at `retryAt` (milliseconds since 1970). */
  | { state: "lost"; why: string; advice: string; retryAt: number }
  /** All streams are taken: history is read every few seconds. */
  | { state: "polling"; why: string }
  /** A page that nobody looks at has no stream. */
  | { state: "paused" }
  | { state: "unauthorized" };

/** Flags of a node, as bits. */
export const UNSCHEDULABLE = 1;
export const NOT_READY = 2;
export const TAINTED = 4;

export interface NodeFacts extends NodesEvent {
  flags: Uint8Array;
}

export interface NodeUse {
  version: number;
  time: string;
  use: Map<string, Uint8Array>;
  pods: Uint16Array;
  cost?: Cost | null;
  idle?: Record<string, IdleShare>;
}

/** As many samples as the server keeps. */
const SAMPLES = 600;

export class LiveState {
  session: Session | null = null;
  nodes: NodeFacts | null = null;
  use: NodeUse | null = null;
  queue: QueueSample[] = [];
  flow: FlowSample[] = [];
  pending: PendingEvent | null = null;
  replay: ReplayState | null = null;
  connection: Connection = { state: "connecting" };
  /** How many changes there were: what a component has drawn is up to date if there were none since. */
  changes = 0;
  #listeners = new Map<Topic, Set<() => void>>();
  #changed = new Set<Topic>();
  #scheduled = false;

  /** Seconds since 1970 on the clock of the cluster, which is not ours in a replay. */
  get nowS(): number {
    const last = this.queue.at(-1)?.time ?? this.session?.now;
    return last ? secondsOf(last) : Date.now() / 1000;
  }

  /** Tells the listener of changes from now on, and at once if there were some since a component drew what it shows: it subscribes after it was drawn. */
  subscribe(topics: readonly Topic[], listener: () => void, drawnAt = this.changes): () => void {
    if (drawnAt !== this.changes) listener();
    for (const topic of topics) {
      if (!this.#listeners.has(topic)) this.#listeners.set(topic, new Set());
      this.#listeners.get(topic)!.add(listener);
    }
    return () => topics.forEach((topic) => this.#listeners.get(topic)!.delete(listener));
  }

  /** Marks a topic as changed; listeners hear of it in the next frame, each once. */
  changed(topic: Topic): void {
    this.changes += 1;
    this.#changed.add(topic);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // A hidden page has no frames, but still wants its state right when it is shown again.
    if (typeof document !== "undefined" && document.hidden) setTimeout(() => this.#tell(), 0);
    else requestAnimationFrame(() => this.#tell());
  }

  #tell(): void {
    const topics = [...this.#changed];
    this.#changed.clear();
    this.#scheduled = false;
    const listeners = new Set(topics.flatMap((topic) => [...(this.#listeners.get(topic) ?? [])]));
    listeners.forEach((listener) => listener());
  }

  /** Takes one event of the stream. Unknown events are left for newer pages. */
  take(event: string, data: unknown): void {
    if (event === "nodes") this.#takeNodes(data as NodesEvent);
    else if (event === "use") this.#takeUse(data as UseEvent);
    else if (event === "queue") append(this.queue, data as QueueSample);
    else if (event === "flow") append(this.flow, data as FlowSample);
    else if (event === "pending") this.pending = data as PendingEvent;
    else if (event === "replay") this.replay = data as ReplayState;
    else return;
    this.changed(event as Topic);
  }

  takeHistory(history: History): void {
    this.queue = history.queue.slice(-SAMPLES);
    this.flow = history.flow.slice(-SAMPLES);
    this.changed("queue");
    this.changed("flow");
  }

  #takeNodes(event: NodesEvent): void {
    const flags = new Uint8Array(event.names.length);
    for (const row of event.unschedulable) flags[row] |= UNSCHEDULABLE;
    for (const row of event.notReady) flags[row] |= NOT_READY;
    for (const row of event.tainted) flags[row] |= TAINTED;
    this.nodes = { ...sameParts(this.nodes, event), flags };
  }

  #takeUse(event: UseEvent): void {
    const use = new Map(Object.entries(event.use).map(([resource, column]) => [resource, bytesOf(column)]));
    this.use = { version: event.version, time: event.time, use, pods: countsOf(event.pods), cost: event.cost ?? null, idle: event.idle ?? {} };
  }
}

function equal<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at]);
}

/** The event with the old arrays where nothing in them changed, so that the map keeps its layout and draws few cells. */
export function sameParts(old: NodesEvent | null, event: NodesEvent): NodesEvent {
  if (old === null) return event;
  const labels = Object.fromEntries(Object.entries(event.labels).map(([key, column]) => {
    const before = old.labels[key];
    return [key, before && equal(before.values, column.values) && equal(before.of, column.of) ? before : column];
  }));
  return { ...event, labels, names: equal(old.names, event.names) ? old.names : event.names };
}

/** Adds a sample. In a replay time goes back as well: samples of a time that is yet to come are dropped. */
export function append(samples: { time: string }[], sample: { time: string }): void {
  while (samples.length > 0 && samples[samples.length - 1].time >= sample.time) samples.pop();
  samples.push(sample);
  if (samples.length > SAMPLES) samples.splice(0, samples.length - SAMPLES);
}

export const live = new LiveState();
