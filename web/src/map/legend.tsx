// What the colours and marks of the map mean.

import { useEffect, useRef } from "preact/hooks";
import { NOT_READY, TAINTED, UNSCHEDULABLE } from "../live/live_state.ts";
import { cssColour, useTheme } from "../theme.ts";
import { drawMarks } from "./painter.ts";

const MARKS: readonly [number, string][] = [[UNSCHEDULABLE, "unschedulable"], [NOT_READY, "not ready"], [TAINTED, "tainted"]];

function MarkSample({ flags }: { flags: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    const context = canvas.current!.getContext("2d")!;
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.fillStyle = cssColour("--none");
    context.fillRect(0, 0, 14, 14);
    drawMarks(context, 0, 0, 14, flags, cssColour("--text"));
  }, [theme]);
  return <canvas ref={canvas} width={28} height={28} class="mark" aria-hidden="true" />;
}

export function Legend({ scale, from, to, title }: { scale: readonly string[]; from: string; to: string; title: string }) {
  const bar = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = bar.current!.getContext("2d")!;
    scale.forEach((colour, step) => {
      context.fillStyle = colour;
      context.fillRect(step, 0, 1, 1);
    });
  }, [scale]);
  return (
    <div class="legend">
      <span>{title}</span>
      <span class="scale"><span>{from}</span><canvas ref={bar} width={scale.length} height={1} aria-hidden="true" /><span>{to}</span></span>
      <span class="scale"><span class="swatch none" aria-hidden="true" />has none</span>
      {MARKS.map(([flags, word]) => <span class="scale" key={word}><MarkSample flags={flags} />{word}</span>)}
    </div>
  );
}
