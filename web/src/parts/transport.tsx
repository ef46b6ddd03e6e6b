// The time line of a recording: density of decisions, a slider over it, and buttons to play, step and jump.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ReplayState } from "../api/types.ts";
import { fittingSpeed, player, SPEEDS } from "../live/player.ts";
import { useLive } from "../live/use_live.ts";
import { cssColour, useTheme } from "../theme.ts";
import { fullTime, number, secondsOf } from "../text/amounts.ts";
import { ErrorNote } from "./notes.tsx";

/** Steps of the slider: a keyboard user crosses the recording in a thousand presses, or ten pages. */
const SLIDER_STEPS = 1000;

export function sliderOf(state: ReplayState): number {
  const [start, end, now] = [state.start, state.end, state.now].map(secondsOf);
  return end > start ? Math.round(((now - start) / (end - start)) * SLIDER_STEPS) : 0;
}

export function timeOf(state: ReplayState, place: number): string {
  const [start, end] = [secondsOf(state.start), secondsOf(state.end)];
  return place >= SLIDER_STEPS ? state.end : new Date((start + ((end - start) * place) / SLIDER_STEPS) * 1000).toISOString();
}

function Density({ counts }: { counts: number[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    const [width, height, most] = [canvas.current!.width, canvas.current!.height, Math.max(1, ...counts)];
    context.clearRect(0, 0, width, height);
    context.fillStyle = cssColour("--accent-soft");
    counts.forEach((count, at) => {
      // The root shows quiet stretches beside a burst.
      const tall = Math.sqrt(count / most) * height;
      context.fillRect((at * width) / counts.length, height - tall, Math.max(1, width / counts.length - 1), tall);
    });
  }, [counts, theme]);
  return <canvas ref={canvas} class="density" width={1200} height={48} aria-hidden="true" />;
}

export function Transport() {
  const { replay } = useLive("replay");
  const [dragged, setDragged] = useState<number | null>(null);
  useEffect(() => { if (!replay) void player.load(); }, []);
  if (!replay) return <ErrorNote error={player.error} retry={() => void player.load()} />;
  const place = dragged ?? sliderOf(replay);
  const drag = (value: number) => { setDragged(value); void player.seek({ time: timeOf(replay, value) }); };
  return (
    <section class="transport" aria-label="Time line of the recording">
      <div class="bar">
        <button type="button" onClick={() => (player.playing ? player.pause() : void player.play())}>{player.playing ? "Pause" : "Play"}</button>
        <Speed replay={replay} />
        <button type="button" onClick={() => void player.seek({ step: -1 })} disabled={replay.position <= 0} title="One decision back">◂ Step back</button>
        <button type="button" onClick={() => void player.seek({ step: 1 })} disabled={replay.position >= replay.decisions} title="One decision on">Step on ▸</button>
        <Jump most={replay.decisions} />
        <span class="soft" role="status">{fullTime(replay.now)}, decision {number(replay.position)} of {number(replay.decisions)}{replay.seeking ? ", seeking …" : ""}</span>
      </div>
      <div class="time-line">
        <Density counts={replay.density} />
        <input type="range" min={0} max={SLIDER_STEPS} value={place} aria-label="Moment of the recording" aria-valuetext={fullTime(timeOf(replay, place))}
          onInput={(event) => drag(Number(event.currentTarget.value))} onChange={() => setDragged(null)} />
      </div>
      <ErrorNote error={player.error} />
    </section>
  );
}

function Speed({ replay }: { replay: ReplayState }) {
  const [speed, setSpeed] = useState(player.speed || fittingSpeed(replay));
  const choose = (value: number) => { player.speed = value; setSpeed(value); };
  return (
    <label class="pick">Speed{" "}
      <select value={speed} onChange={(event) => choose(Number(event.currentTarget.value))}>
        {SPEEDS.map((one) => <option key={one} value={one}>{one}×</option>)}
      </select>
    </label>
  );
}

function Jump({ most }: { most: number }) {
  const [value, setValue] = useState("");
  const jump = (event: Event) => {
    event.preventDefault();
    const wanted = Number(value);
    if (value !== "" && Number.isInteger(wanted)) void player.seek({ decision: Math.min(most, Math.max(0, wanted)) });
  };
  return (
    <form class="bar" onSubmit={jump}>
      <label class="pick">Decision <input class="short" inputMode="numeric" value={value} onInput={(event) => setValue(event.currentTarget.value)} /></label>
      <button type="submit">Jump</button>
    </form>
  );
}
