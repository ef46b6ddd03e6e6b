// The map as one focusable thing: hover and arrows move over nodes, Enter or a click opens one, and a live region reads it out.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cssColour, useTheme } from "../theme.ts";
import { layOut, rowAfter, rowAt, type Layout, type NodeGroup, type Step } from "./layout.ts";
import { MapPainter, type Cells } from "./painter.ts";

const STEPS: readonly string[] = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

export interface NodeMapProps {
  label: string;
  groups: NodeGroup[];
  cells: Cells;
  scale: readonly string[];
  /** What is known of a node, in one line. */
  describe: (row: number) => string;
  onOpen: (row: number) => void;
  /** The node that is open beside the map. */
  chosen?: number;
  /** Part of the height of the window that the map may take. */
  share?: number;
}

/** The width of an element, followed as it changes. */
export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

function usePainter(layout: Layout, props: NodeMapProps, cursor: number, hover: number) {
  const theme = useTheme();
  const base = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const painter = useRef<MapPainter | null>(null);
  useEffect(() => {
    painter.current = new MapPainter(base.current!, overlay.current!);
    return () => painter.current!.stop();
  }, []);
  useEffect(() => painter.current!.setLayout(layout), [layout]);
  useEffect(() => painter.current!.setPaint({
    scale: props.scale, none: cssColour("--none"), text: cssColour("--text-soft"), background: cssColour("--panel"), cursor: cssColour("--cursor"),
  }), [props.scale, theme]);
  useEffect(() => painter.current!.setCells(props.cells), [props.cells]);
  useEffect(() => painter.current!.setCursor(cursor, hover), [cursor, hover, layout]);
  return { base, overlay };
}

export function NodeMap(props: NodeMapProps) {
  const { groups, describe, onOpen, share = 0.62 } = props;
  const [frame, width] = useWidth();
  const height = Math.max(220, Math.floor(innerHeight * share));
  const layout = useMemo(() => layOut(groups, Math.max(width, 60), height), [groups, width, height]);
  const [cursor, setCursor] = useState(-1);
  const [hover, setHover] = useState(-1);
  const [said, setSaid] = useState("");
  const { base, overlay } = usePainter(layout, props, cursor >= 0 ? cursor : (props.chosen ?? -1), hover);

  const rowUnder = (event: MouseEvent) => {
    const box = overlay.current!.getBoundingClientRect();
    return rowAt(layout, event.clientX - box.left, event.clientY - box.top);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" && cursor >= 0) return onOpen(cursor);
    if (event.key === "Escape") return setCursor(-1);
    if (!STEPS.includes(event.key)) return;
    event.preventDefault();
    const next = rowAfter(layout, cursor >= 0 ? cursor : (props.chosen ?? -1), event.key as Step);
    setCursor(next);
    if (next >= 0) setSaid(describe(next));
  };
  return (
    <div class="map" ref={frame}>
      <div class="map-surface" role="application" aria-roledescription="map of nodes" tabIndex={0} aria-label={props.label}
        onKeyDown={onKeyDown} onMouseMove={(event) => setHover(rowUnder(event))} onMouseLeave={() => setHover(-1)}
        onBlur={() => setCursor(-1)}
        onClick={(event) => { const row = rowUnder(event); if (row >= 0) onOpen(row); }}>
        <canvas ref={base} aria-hidden="true" />
        <canvas ref={overlay} class="map-overlay" aria-hidden="true" />
        <Hint layout={layout} row={hover >= 0 ? hover : cursor} describe={describe} />
      </div>
      <p class="unseen" aria-live="polite">{said}</p>
    </div>
  );
}

/** A line of text beside the cell; it is drawn again with each change of the map, so that it stays true. */
function Hint({ layout, row, describe }: { layout: Layout; row: number; describe: (row: number) => string }) {
  if (row < 0 || (layout.place[row] ?? -1) < 0) return null;
  const right = layout.x[row] > layout.width / 2;
  const style = {
    top: `${layout.y[row] + layout.pitch + 6}px`,
    left: right ? "auto" : `${layout.x[row]}px`,
    right: right ? `${layout.width - layout.x[row] - layout.pitch}px` : "auto",
  };
  return <div class="hint" style={style} aria-hidden="true"><bdi>{describe(row)}</bdi></div>;
}
