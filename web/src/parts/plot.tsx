// Lines over time by uPlot. The legend is ours: words and dashes besides colours, and the last value in text.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { SERIES } from "../map/colours.ts";
import { aloneIn } from "./alone.ts";
import { useWidth } from "../map/node_map.tsx";
import { cssColour, useTheme } from "../theme.ts";

export interface Line {
  name: string;
  values: (number | null)[];
}

interface PlotProps {
  title: string;
  /** Seconds since 1970, growing. */
  times: number[];
  lines: Line[];
  format: (value: number) => string;
  height?: number;
}

const DASHES: number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [12, 4], [1, 4], [6, 2]];

function optionsOf(props: PlotProps, width: number, colours: readonly string[]): uPlot.Options {
  const axis = { stroke: cssColour("--text-soft"), grid: { stroke: cssColour("--line"), width: 1 }, ticks: { stroke: cssColour("--line"), width: 1 } };
  return {
    width,
    height: props.height ?? 200,
    padding: [6, 28, 0, 0], // half of the last time on the axis
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, high ? high * 1.08 : 1] } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    axes: [
      { ...axis, font: "11px system-ui", size: 28, values: (_plot, splits) => splits.map((second) => new Date(second * 1e3).toISOString().slice(11, 19)), space: 70 },
      { ...axis, font: "11px system-ui", size: 62, values: (_plot, splits) => splits.map((value) => (value === null ? "" : props.format(value))) },
    ],
    series: [{}, ...props.lines.map((line, at) => ({
      label: line.name, stroke: colours[at % colours.length], width: 1.75, dash: DASHES[at % DASHES.length], spanGaps: false,
      // A value between two gaps has no line: a point shows it.
      points: { show: true, size: 4, filter: (plot: uPlot, series: number) => aloneIn(plot.data[series]) },
    }))],
  };
}

export function Plot(props: PlotProps) {
  const [frame, width] = useWidth();
  const theme = useTheme();
  const plot = useRef<uPlot | null>(null);
  const colours = SERIES[theme];
  const data = [props.times, ...props.lines.map((line) => line.values)] as uPlot.AlignedData;
  const names = props.lines.map((line) => line.name).join("\n");
  useEffect(() => {
    if (width === 0) return undefined;
    plot.current = new uPlot(optionsOf(props, width, colours), data, frame.current!);
    return () => plot.current!.destroy();
  }, [names, theme, width, props.height]);
  useEffect(() => plot.current?.setData(data), [props.times, props.lines]);
  const last = (line: Line) => line.values.findLast((value) => value !== null);
  const words = props.lines.map((line) => `${line.name} ${last(line) == null ? "–" : props.format(last(line)!)}`);
  return (
    <figure class="plot">
      <figcaption>{props.title}</figcaption>
      <ul class="plot-legend">
        {props.lines.map((line, at) => (
          <li key={line.name}>
            <svg width="26" height="8" aria-hidden="true"><line x1="0" y1="4" x2="26" y2="4" stroke={colours[at % colours.length]} stroke-width="2.5" stroke-dasharray={DASHES[at % DASHES.length].join(" ")} /></svg>
            {words[at]}
          </li>
        ))}
      </ul>
      <div class="plot-area" ref={frame} role="img" aria-label={`${props.title}: ${words.join(", ")}`} />
    </figure>
  );
}
