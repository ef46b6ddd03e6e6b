// One place that talks to the server: adds the token, and turns every failure into a sentence with what to do.

import { storedToken } from "./token.ts";
import type {
  Change, DecisionList, DoReply, History, NodeDetail, NodeRejections, PodAnswer, PodDetail, PodList, ReplayState, Seek, Session, WhatIfReply,
} from "./types.ts";

/** Status 0 means that there was no reply at all. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly retryAfterS: number = 0) {
    super(message);
  }
}

const ADVICE: Record<number, string> = {
  0: "Check that mooring still runs and that this machine can reach it.",
  401: "Enter the token that mooring printed with the address of the dashboard.",
  403: "Ask for the verbs get and post on the nonResourceURLs /dashboard/api/*.",
  404: "It may have been deleted: go back to the list.",
  409: "Read the page again and repeat the request.",
  413: "Ask for fewer or smaller changes: a request has at most 1 MiB.",
  422: "Correct the change that the message names and ask again.",
  429: "The dashboard answers one question at a time: try again in a few seconds.",
  503: "The dashboard is busy or not ready: try again in a few seconds.",
};

export function adviceFor(error: unknown): string {
  return error instanceof ApiError ? (ADVICE[error.status] ?? "Try again; the log of mooring says more.") : "Reload the page.";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

type Listener = () => void;
const unauthorized = new Set<Listener>();

/** Calls the listener each time the server wants another token. */
export function onUnauthorized(listener: Listener): () => void {
  unauthorized.add(listener);
  return () => unauthorized.delete(listener);
}

async function errorOf(reply: Response): Promise<ApiError> {
  const text = await reply.text().catch(() => "");
  let message = "";
  try {
    message = String((JSON.parse(text) as { message?: unknown }).message ?? "");
  } catch {
    message = text.slice(0, 300); // A proxy in between answers in words of its own.
  }
  const retryAfterS = Number(reply.headers.get("Retry-After") ?? 0) || 0;
  return new ApiError(reply.status, message || `The server answers ${reply.status} ${reply.statusText}`.trim(), retryAfterS);
}

export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const token = storedToken();
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let reply: Response;
  try {
    reply = await fetch(`api/${path}`, { ...options, headers, cache: "no-store", credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server of the dashboard does not answer.");
  }
  if (reply.ok) return reply;
  const error = await errorOf(reply);
  if (reply.status === 401) unauthorized.forEach((listener) => listener());
  throw error;
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const reply = await request(path, signal ? { signal } : {});
  return (await reply.json()) as T;
}

async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const options: RequestInit = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const reply = await request(path, signal ? { ...options, signal } : options);
  return (await reply.json()) as T;
}

const part = encodeURIComponent;

export interface PodQuery {
  state: "pending" | "bound";
  namespace: string;
  query: string;
  limit: number;
}

export const api = {
  session: (signal?: AbortSignal) => get<Session>("session", signal),
  history: (signal?: AbortSignal) => get<History>("history", signal),
  node: (name: string, signal?: AbortSignal) => get<NodeDetail>(`nodes/${part(name)}`, signal),
  rejections: (name: string, signal?: AbortSignal) => get<NodeRejections>(`nodes/${part(name)}/rejections`, signal),
  pods: ({ state, namespace, query, limit }: PodQuery, signal?: AbortSignal) =>
    get<PodList>(`pods?${new URLSearchParams({ state, namespace, query, limit: String(limit) })}`, signal),
  pod: (namespace: string, name: string, signal?: AbortSignal) => get<PodDetail>(`pods/${part(namespace)}/${part(name)}`, signal),
  explanation: (namespace: string, name: string, signal?: AbortSignal) =>
    get<PodAnswer>(`pods/${part(namespace)}/${part(name)}/explanation`, signal),
  whatIf: (changes: Change[], signal?: AbortSignal) => post<WhatIfReply>("what-if", { changes }, signal),
  carryOut: (changes: Change[]) => post<DoReply>("do", { changes }),
  replay: (signal?: AbortSignal) => get<ReplayState>("replay", signal),
  seek: (seek: Seek) => post<ReplayState>("replay/seek", seek),
  decisions: (after: number, limit: number, signal?: AbortSignal) =>
    get<DecisionList>(`replay/decisions?${new URLSearchParams({ after: String(after), limit: String(limit) })}`, signal),
};
