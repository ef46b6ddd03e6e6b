// The replies of the server, as docs/dashboard.md describes them.

export interface Session {
  program: "up" | "run" | "replay" | "simulate";
  version: string;
  readOnly: boolean;
  canAsk: boolean;
  canDo: boolean;
  profiles: string[];
  replay: boolean;
  isLeader: boolean;
  now: string;
}

export interface LabelColumn {
  values: string[];
  of: number[];
}

export interface NodesEvent {
  version: number;
  names: string[];
  resources: string[];
  labels: Record<string, LabelColumn>;
  unschedulable: number[];
  notReady: number[];
  tainted: number[];
  /** The price of an hour of each node; empty where none is known. */
  prices?: (number | null)[];
  priceUnit?: string;
}

/** The price of an hour of the nodes that have one, and the part of it that nothing is requested for. */
export interface Cost {
  total: number;
  idle: number;
  nodes: number;
}

/** Of one resource by real use: what is idle of what is allocatable, and what typical pods cannot get of that. */
export interface IdleShare {
  idle: number;
  outOfReach: number | null;
}

export interface UseEvent {
  version: number;
  time: string;
  use: Record<string, string>;
  pods: string;
  cost?: Cost | null;
  idle?: Record<string, IdleShare>;
}

export interface QueueSample {
  time: string;
  active: number;
  backoff: number;
  unschedulable: number;
  gated: number;
  inFlight: number;
  waitingOnPermit: number;
}

export interface PodRef {
  namespace: string;
  name: string;
}

export interface PendingGroup {
  reason: string;
  plugins: string[];
  queue: string;
  count: number;
  oldest: (PodRef & { since: string }) | null;
}

export interface PendingEvent {
  groups: PendingGroup[];
  total: number;
  oldest?: (PodRef & { since: string }) | null;
}

export interface FlowSample {
  time: string;
  seconds: number;
  bound: number;
  attempts: Record<string, { scheduled: number; unschedulable: number; error: number }>;
  latency: Record<string, { p50: number; p99: number }>;
  preemptions: number;
  victims: number;
  evictions: number;
  selfCheck: null | { runs: number; differences: number; last: string | null };
}

export interface History {
  queue: QueueSample[];
  flow: FlowSample[];
}

export interface Taint {
  key: string;
  value: string;
  effect: string;
}

export interface NodeDetail {
  name: string;
  labels: Record<string, string>;
  labelsTotal: number;
  taints: Taint[];
  unschedulable: boolean;
  ready: boolean;
  resources: { name: string; allocatable: string; requested: string; free: string; share: number }[];
  pods: (PodRef & { priority: number; requests: Record<string, string>; phase: string; since: string })[];
  total: number;
  price: number | null;
  priceUnit: string;
}

export interface NodeRejections {
  pods: { reason: string; plugin: string; count: number; example: PodRef }[];
  total: number;
}

export interface PodLine extends PodRef {
  queue: string;
  since: string;
  attempts: number;
  message: string;
  plugins: string[];
  waitsFor: string[];
  backoffUntil: string | null;
  gates: string[];
  nominatedNode: string;
  priority: number;
}

export interface PodList {
  pods: PodLine[];
  total: number;
}

export interface PodDetail extends PodLine {
  node: string;
  profile: string;
  phase: string;
  labels: Record<string, string>;
  requests: Record<string, string>;
  timeline: { time: string; what: string; detail: string }[];
}

/** `mooring explain -o json`: docs/schemas/explain.v1.json. A pending pod that is scheduled with its group gets the answer about the group. */
export type PodAnswer = Explanation | GroupExplanation;

export interface GroupExplanation extends Pick<Explanation, "cures" | "curesGaveUp" | "waitsFor" | "victims"> {
  kind: "PodGroupExplanation";
  podGroup: string;
  gang: boolean;
  minCount: number;
  members: number;
  settled: boolean;
  fits: number;
  message: string;
  rejected: { pods: string[]; message: string; reasons: Explanation["reasons"] }[];
}

export interface Explanation {
  kind: "Explanation";
  pod: string;
  node: string;
  placed: boolean;
  reserved: boolean;
  wouldGoTo: string;
  message: string;
  nodes: number;
  feasibleNodes: number;
  reasons: {
    plugin: string;
    message: string;
    nodes: number;
    examples: string[];
    evictionCanHelp: boolean;
    amounts: { resource: string; wants: number; largestFree: number; node: string; text: string }[];
    details: string[];
  }[];
  cures: { kind: string; change: string; node: string; cost: number; victims: string[]; brokenBudgets: number }[];
  curesGaveUp: boolean;
  scores: { node: string; total: number; plugins: Record<string, number> }[];
  tipped: { plugin: string; difference: number }[];
  waitsFor: string[];
  victims: string[];
  others: string[];
}

export interface Use {
  nodes: number;
  cordonedNodes: number;
  pods: number;
  resources: Record<string, { requested: number; allocatable: number }>;
}

/** `mooring what-if -o json`: docs/schemas/what-if.v1.json. */
export interface WhatIf {
  fits: boolean;
  changes: string[];
  moved: (PodRef & { from: string; to: string })[];
  pending: (PodRef & { from: string; message: string; wasPending: boolean; isNew: boolean })[];
  placed: (PodRef & { node: string; isNew: boolean })[];
  preempted: (PodRef & { node: string; preemptor: PodRef; to: string })[];
  gone: (PodRef & { node: string; reason: string; isWanted: boolean })[];
  blocked: (PodRef & { node: string; budget: string; message: string })[];
  workloads: { kind: string; namespace: string; name: string; moved: number; pending: number; placed: number; preempted: number; blocked: number }[];
  utilisation: {
    total: { before: Use; after: Use };
    zones: { name: string; before: Use; after: Use }[];
    pools: { name: string; before: Use; after: Use }[];
  };
  notes: string[];
  cost?: { before: number; after: number; difference: number; differenceAMonth: number; idleBefore: number; idleAfter: number; priceUnit?: string };
}

export interface Change {
  change: string;
  value: string;
}

export interface WhatIfReply {
  answer: WhatIf;
  after: { names: string[]; use: Record<string, string>; pods: string };
}

export interface DoReply {
  done: string[];
  failed: string[];
}

export interface ReplayState {
  start: string;
  end: string;
  now: string;
  decisions: number;
  position: number;
  density: number[];
  seeking: boolean;
}

export interface Decision extends PodRef {
  number: number;
  time: string;
  node: string;
  result: string;
}

export interface DecisionList {
  decisions: Decision[];
  total: number;
}

export type Seek = { time: string } | { decision: number } | { step: number };
