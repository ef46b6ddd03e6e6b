// Keeps one stream open for the page: reconnects with growing delays, polls where all streams are taken, pauses while hidden.

import { adviceFor, api, ApiError, messageOf, request } from "../api/client.ts";
import { EventParser } from "../api/decode.ts";
import type { Connection, LiveState } from "./live_state.ts";

const FIRST_DELAY_S = 1;
const LARGEST_DELAY_S = 30;
/** The contract: a page without a stream polls this often. */
const POLL_S = 10;
/** A stream that says nothing for this long is dead: the server sends at least the queue every second, or a comment. */
const SILENCE_S = 30;
/** The server ends a stream after some minutes, to check the token again; one that ends sooner than this has failed. */
const SHORT_S = 5;
/** A page in the background gives its stream back after this long, since streams are few. */
const HIDDEN_S = 60;

/** Seconds until attempt number `failures`: 1, 2, 4 ... 30, each shortened by up to a quarter so that pages do not come together. */
export function delayAfter(failures: number, random: () => number = Math.random): number {
  return Math.min(LARGEST_DELAY_S, FIRST_DELAY_S * 2 ** (failures - 1)) * (1 - random() / 4);
}

export class StreamConnection {
  #abort: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly live: LiveState) {}

  /** Connects now, whatever was planned. */
  start(): void {
    this.stop();
    this.#failures = 0;
    void this.#run();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
  }

  watchVisibility(): void {
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.#hiddenTimer);
      if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#pause(), HIDDEN_S * 1000);
      else if (this.live.connection.state === "paused") this.start();
    });
  }

  #pause(): void {
    this.stop();
    this.#say({ state: "paused" });
  }

  #say(connection: Connection): void {
    this.live.connection = connection;
    this.live.changed("connection");
  }

  async #run(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    if (this.live.connection.state !== "lost" && this.live.connection.state !== "live") this.#say({ state: "connecting" });
    try {
      const since = Date.now();
      await this.#read(abort);
      if (Date.now() - since < SHORT_S * 1000) throw new ApiError(0, "The server closed the connection.");
      void this.#run();
    } catch (error) {
      if (this.#abort === abort) await this.#failed(error);
    }
  }

  async #read(abort: AbortController): Promise<void> {
    this.live.session = await api.session(abort.signal);
    this.live.changed("session");
    this.live.takeHistory(await api.history(abort.signal));
    const reply = await request("stream", { signal: abort.signal, headers: { Accept: "text/event-stream" } });
    this.#failures = 0;
    this.#say({ state: "live" });
    const parser = new EventParser();
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await inTime(reader.read(), SILENCE_S, abort);
      if (done) return;
      for (const { event, data } of parser.push(value)) this.live.take(event, JSON.parse(data));
    }
  }

  async #failed(error: unknown): Promise<void> {
    this.#abort?.abort();
    if (error instanceof ApiError && error.status === 401) return this.#say({ state: "unauthorized" });
    if (error instanceof ApiError && error.status === 503 && error.retryAfterS > 0) return this.#poll(error);
    this.#failures += 1;
    const delayS = delayAfter(this.#failures);
    this.#say({ state: "lost", why: messageOf(error), advice: adviceFor(error), retryAt: Date.now() + delayS * 1000 });
    this.#timer = setTimeout(() => void this.#run(), delayS * 1000);
  }

  #poll(error: ApiError): void {
    this.#say({ state: "polling", why: error.message });
    // The attempt reads the session and the history before it asks for a stream: that is the poll.
    this.#timer = setTimeout(() => void this.#run(), POLL_S * 1000);
  }
}

async function inTime<T>(promise: Promise<T>, seconds: number, abort: AbortController): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new ApiError(0, `The server sent nothing for ${seconds} seconds.`));
      abort.abort();
    }, seconds * 1000);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}
