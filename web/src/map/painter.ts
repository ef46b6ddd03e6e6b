// Draws the map. Only cells whose colour or marks changed are drawn again, in one animation frame; the cursor has a canvas of its
// own, so that moving it draws nothing else.

import { NOT_READY, TAINTED, UNSCHEDULABLE } from "../live/live_state.ts";
import { cut, visible } from "../text/visible.ts";
import { HAS_NONE, luminance, type Rgb } from "./colours.ts";
import { TITLE_HEIGHT, type Layout } from "./layout.ts";

export interface Paint {
  /** Colours by step; HAS_NONE gets `none`. */
  scale: readonly string[];
  none: string;
  text: string;
  background: string;
  cursor: string;
}

export interface Cells {
  names: readonly string[];
  /** A step of the scale for each row. */
  steps: Uint8Array;
  /** What a step means in words, for cells that have room for it. */
  caption: (step: number) => string;
  flags: Uint8Array;
  /** Rows that a search leaves out are dimmed; null dims none. */
  found: Uint8Array | null;
}

const DIM = 8;
const NEVER_DRAWN = -1;
const DARK_MARK = "rgb(0 0 0 / 75%)";
const LIGHT_MARK = "rgb(255 255 255 / 85%)";
/** Marks are not readable on smaller cells; the panel and the table still have them. */
const SMALLEST_MARKED = 7;
/** From this size on a cell has room for the name of its node. */
const SMALLEST_NAMED = 56;

export class MapPainter {
  /** How many cells the last frame drew: tests read it. */
  drawnInLastFrame = 0;
  #layout: Layout | null = null;
  #paint: Paint | null = null;
  #marks: string[] = [];
  #cells: Cells | null = null;
  #drawn = new Int32Array(0);
  #cursor = -1;
  #hover = -1;
  /** What the overlay shows. Hot: clearing only this and not all of it takes 3.8 ms a move of the pointer instead of 4.9. */
  #outlined: [number, number, number][] = [];
  #frame = 0;
  #whole = true;
  #ratio = 1;

  constructor(readonly base: HTMLCanvasElement, readonly overlay: HTMLCanvasElement) {}

  setLayout(layout: Layout): void {
    this.#layout = layout;
    this.#repaint();
  }

  setPaint(paint: Paint): void {
    this.#paint = paint;
    this.#marks = [...paint.scale, paint.none].map(markOn);
    this.#repaint();
  }

  setCells(cells: Cells): void {
    this.#cells = cells;
    this.#request();
  }

  setCursor(cursor: number, hover: number): void {
    [this.#cursor, this.#hover] = [cursor, hover];
    this.#request();
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  #repaint(): void {
    this.#whole = true;
    this.#request();
  }

  #request(): void {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    this.#frame = 0;
    const [layout, paint, cells] = [this.#layout, this.#paint, this.#cells];
    if (!layout || !paint || !cells) return;
    if (this.#whole || this.#ratio !== devicePixelRatio) this.#clear(layout, paint);
    this.#whole = false;
    this.#drawCells(layout, paint, cells);
    this.#drawCursor(layout, paint);
  }

  #clear(layout: Layout, paint: Paint): void {
    this.#ratio = devicePixelRatio;
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = Math.max(1, Math.ceil(layout.width * this.#ratio));
      canvas.height = Math.max(1, Math.ceil(layout.height * this.#ratio));
      canvas.style.width = `${layout.width}px`;
      canvas.style.height = `${layout.height}px`;
    }
    this.#drawn = new Int32Array(layout.x.length).fill(NEVER_DRAWN);
    const context = this.#context(this.base);
    context.fillStyle = paint.background;
    context.fillRect(0, 0, layout.width, layout.height);
    this.#drawTitles(context, layout, paint);
  }

  #context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
    const context = canvas.getContext("2d", canvas === this.base ? { alpha: false } : {})!;
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    return context;
  }

  #drawTitles(context: CanvasRenderingContext2D, layout: Layout, paint: Paint): void {
    context.fillStyle = paint.text;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    layout.blocks.forEach((block, at) => {
      const next = layout.blocks[at + 1];
      const room = (next && next.y === block.y ? next.x - 10 : layout.width) - block.x;
      const count = block.count.toLocaleString("en");
      const title = visible(block.title) || (layout.blocks.length > 1 ? "(no value)" : "all nodes");
      const text = cut(title, Math.max(4, Math.floor(room / 6.6) - count.length - 2));
      context.fillText(`${text}  ${count}`, block.x, block.y + TITLE_HEIGHT / 2 - 1, room);
    });
  }

  #drawCells(layout: Layout, paint: Paint, cells: Cells): void {
    const context = this.#context(this.base);
    let drawn = 0;
    for (const row of layout.order) {
      const step = cells.steps[row] ?? HAS_NONE;
      const flags = (cells.flags[row] ?? 0) | (cells.found && !cells.found[row] ? DIM : 0);
      const code = step | (flags << 8);
      if (this.#drawn[row] === code) continue;
      this.#drawn[row] = code;
      drawn += 1;
      this.#drawCell(context, layout, paint, row, step, flags);
      if (layout.pitch >= SMALLEST_NAMED) this.#drawName(context, layout, [cells.names[row] ?? "", cells.caption(step)], row, step);
    }
    this.drawnInLastFrame = drawn;
    this.base.dataset.drawn = String(drawn);
  }

  #drawCell(context: CanvasRenderingContext2D, layout: Layout, paint: Paint, row: number, step: number, flags: number): void {
    const [x, y, size] = [layout.x[row], layout.y[row], layout.pitch - layout.gap];
    if (flags & DIM) {
      context.fillStyle = paint.background;
      context.fillRect(x, y, size, size);
      context.globalAlpha = 0.18;
    }
    context.fillStyle = paint.scale[step] ?? paint.none;
    context.fillRect(x, y, size, size);
    if (flags & ~DIM && size >= SMALLEST_MARKED) drawMarks(context, x, y, size, flags, this.#marks[step] ?? this.#marks.at(-1)!);
    context.globalAlpha = 1;
  }

  #drawName(context: CanvasRenderingContext2D, layout: Layout, lines: string[], row: number, step: number): void {
    const room = layout.pitch - layout.gap - 10;
    context.fillStyle = this.#marks[step] ?? this.#marks.at(-1)!;
    context.textBaseline = "top";
    lines.forEach((line, at) => {
      context.font = `${at === 0 ? 12 : 15}px system-ui, sans-serif`;
      context.fillText(cut(visible(line), Math.floor(room / 6.4)), layout.x[row] + 6, layout.y[row] + 6 + at * 18, room);
    });
  }

  #drawCursor(layout: Layout, paint: Paint): void {
    const context = this.#context(this.overlay);
    for (const [x, y, size] of this.#outlined) context.clearRect(x - 6, y - 6, size + 12, size + 12);
    this.#outlined = [];
    for (const [row, width] of [[this.#hover, 1.5], [this.#cursor, 3]] as const) {
      if (row < 0 || (layout.place[row] ?? -1) < 0) continue;
      const size = layout.pitch - layout.gap;
      this.#outlined.push([layout.x[row], layout.y[row], size]);
      // A light and a dark line: one of them is visible on every colour.
      outline(context, layout.x[row], layout.y[row], size, width + 2, paint.background);
      outline(context, layout.x[row], layout.y[row], size, width, paint.cursor);
    }
  }
}

function markOn(colour: string): string {
  const parts = (colour.match(/\d+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number) as unknown as Rgb;
  return luminance(parts) > 0.2 ? DARK_MARK : LIGHT_MARK;
}

/** Unschedulable: one diagonal; not ready: a cross; tainted: a corner. */
export function drawMarks(context: CanvasRenderingContext2D, x: number, y: number, size: number, flags: number, colour: string): void {
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = Math.min(3, Math.max(1, size / 9));
  context.beginPath();
  if (flags & (UNSCHEDULABLE | NOT_READY)) {
    context.moveTo(x + 1.5, y + size - 1.5);
    context.lineTo(x + size - 1.5, y + 1.5);
  }
  if (flags & NOT_READY) {
    context.moveTo(x + 1.5, y + 1.5);
    context.lineTo(x + size - 1.5, y + size - 1.5);
  }
  context.stroke();
  if (!(flags & TAINTED)) return;
  const corner = Math.min(14, Math.max(3, size / 3));
  context.beginPath();
  context.moveTo(x + size - corner, y + size);
  context.lineTo(x + size, y + size);
  context.lineTo(x + size, y + size - corner);
  context.fill();
}

function outline(context: CanvasRenderingContext2D, x: number, y: number, size: number, width: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
}
