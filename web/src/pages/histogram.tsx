// How many nodes are how full: a column for each tenth, in the colours of the map, with the number as text.

import { number } from "../text/amounts.ts";
import { BINS, fullness } from "./node_facts.ts";

/** The tallest column, in CSS pixels. */
const HEIGHT = 32;

interface HistogramProps {
  title: string;
  steps: Uint8Array;
  scale: readonly string[];
}

export function Histogram({ title, steps, scale }: HistogramProps) {
  const bins = fullness(steps);
  const most = Math.max(1, ...bins);
  return (
    <figure class="histogram">
      <figcaption>{title}</figcaption>
      <ol>
        {bins.map((count, at) => (
          <li key={at}>
            <span class="count">{count > 0 ? number(count) : ""}</span>
            <span class="column" aria-hidden="true" style={{ height: `${Math.ceil((count / most) * HEIGHT)}px`, background: scale[(at + 0.5) * (scale.length - 1) / BINS | 0] }} />
            <span class="of">{at * 10}–{(at + 1) * 10} %<span class="unseen">: {count} nodes</span></span>
          </li>
        ))}
      </ol>
    </figure>
  );
}
