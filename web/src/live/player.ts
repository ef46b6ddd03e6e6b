// Moves through a recording. Seeks follow each other, and while one is under way only the newest of the others is kept, so that
// dragging never builds up a line. Playing is repeated seeking.

import { api } from "../api/client.ts";
import type { ReplayState, Seek } from "../api/types.ts";
import { secondsOf } from "../text/amounts.ts";
import { live, type LiveState } from "./live_state.ts";

/** Recorded seconds a second. */
export const SPEEDS: readonly number[] = [1, 10, 60, 600, 3600];
/** A frame of the film: short enough to look smooth, long enough for a server that replays thousands of decisions in it. */
const TICK_MS = 250;

/** The speed that shows the whole recording in about a minute. */
export function fittingSpeed(state: ReplayState): number {
  const wanted = (secondsOf(state.end) - secondsOf(state.start)) / 60;
  return SPEEDS.find((speed) => speed >= wanted) ?? SPEEDS[SPEEDS.length - 1];
}

/** The moment after `elapsedS` of playing, never after the end. */
export function momentAfter(state: ReplayState, elapsedS: number, speed: number): { time: string; ended: boolean } {
  const end = secondsOf(state.end);
  const next = secondsOf(state.now) + elapsedS * speed;
  return next >= end ? { time: state.end, ended: true } : { time: new Date(next * 1000).toISOString(), ended: false };
}

export class Player {
  playing = false;
  speed = 0;
  error: unknown = null;
  #waiting: Seek | null = null;
  #busy = false;

  constructor(readonly live: LiveState, readonly send: (seek: Seek) => Promise<ReplayState>) {}

  async load(): Promise<void> {
    try {
      this.#took(await api.replay());
    } catch (error) {
      this.#failed(error);
    }
  }

  async seek(seek: Seek): Promise<void> {
    if (this.#busy) {
      this.#waiting = seek;
      return;
    }
    this.#busy = true;
    try {
      this.#took(await this.send(seek));
    } catch (error) {
      this.#failed(error);
    }
    this.#busy = false;
    const next = this.#waiting;
    this.#waiting = null;
    if (next) await this.seek(next);
  }

  async play(): Promise<void> {
    if (this.playing || !this.live.replay) return;
    this.playing = true;
    if (this.live.replay.now >= this.live.replay.end) await this.seek({ time: this.live.replay.start });
    this.live.changed("replay");
    while (this.playing) await this.#tick();
  }

  pause(): void {
    this.playing = false;
    this.live.changed("replay");
  }

  async #tick(): Promise<void> {
    const began = performance.now();
    const { time, ended } = momentAfter(this.live.replay!, TICK_MS / 1000, this.speed || fittingSpeed(this.live.replay!));
    await this.seek({ time });
    if (ended) return this.pause();
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, TICK_MS - (performance.now() - began))));
  }

  #took(state: ReplayState): void {
    this.live.replay = state;
    this.error = null;
    this.live.changed("replay");
  }

  #failed(error: unknown): void {
    this.error = error;
    this.playing = false;
    this.live.changed("replay");
  }
}

export const player = new Player(live, (seek) => api.seek(seek));
