// Colours of the map. The scale is viridis-like: its lightness grows evenly, so that it reads the same for colour-blind people
// and in print. Fuller nodes stand out more from the background: darker on light, brighter on dark.

export type Theme = "light" | "dark";
export type Rgb = readonly [number, number, number];

const SHARES: Record<Theme, Rgb[]> = {
  light: ["#ece8b4", "#cfe07c", "#8fd35a", "#45b97a", "#21918c", "#2c728e", "#3b528b", "#472d7b", "#440154"].map(rgbOf),
  dark: ["#45296b", "#3f4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"].map(rgbOf),
};
/** Purple to orange through a neutral middle: also readable for colour-blind people. */
const LESS_MORE: Record<Theme, Rgb[]> = {
  light: ["#5e3c99", "#b2abd2", "#e9e9ee", "#fdb863", "#b35806"].map(rgbOf),
  dark: ["#c3b5f5", "#7b63b8", "#34373f", "#c8762a", "#ffb867"].map(rgbOf),
};

/** Steps of the use scale: one for each value of the stream, 0 to 200 half percents. */
export const USE_STEPS = 201;
/** Steps of the difference scale: -100 % to +100 % of a node. */
export const DIFFERENCE_STEPS = 201;
/** What the stream sends for a node that has none of the resource. */
export const HAS_NONE = 255;

export function rgbOf(hex: string): Rgb {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export function between(stops: readonly Rgb[], at: number): Rgb {
  const place = Math.min(1, Math.max(0, at)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(place));
  const share = place - low;
  const [a, b] = [stops[low], stops[low + 1]];
  return [0, 1, 2].map((i) => Math.round(a[i] + (b[i] - a[i]) * share)) as unknown as Rgb;
}

function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

/** A colour for each half percent from 0 to 100 %. */
export function shareScale(theme: Theme): string[] {
  return scale(USE_STEPS, (share) => between(SHARES[theme], share));
}

/** A colour for each percent from -100 % to +100 %; differences are mostly small, so the scale is steep in its middle. */
export function differenceScale(theme: Theme): string[] {
  return scale(DIFFERENCE_STEPS, (share) => between(LESS_MORE[theme], 0.5 + 0.5 * Math.sign(share - 0.5) * Math.sqrt(Math.abs(2 * share - 1))));
}

function scale(steps: number, colourAt: (share: number) => Rgb): string[] {
  return Array.from({ length: steps }, (_none, step) => css(colourAt(step / (steps - 1))));
}

/** The index into the difference scale for use before and after, both in half percents; HAS_NONE counts as nothing. */
export function differenceStep(before: number, after: number): number {
  const [from, to] = [before === HAS_NONE ? 0 : before, after === HAS_NONE ? 0 : after];
  return Math.round((to - from) / 2) + 100;
}

/** Relative luminance of WCAG, to choose between dark and light marks on a cell. */
export function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** Colours of series and of plugins in stacked bars: Okabe and Ito's, which colour-blind people tell apart. */
export const SERIES: Record<Theme, readonly string[]> = {
  light: ["#0072b2", "#c04e00", "#007a5a", "#a3457b", "#7a6a00", "#2f6f9f", "#5b5b5b", "#8a3ffc"],
  dark: ["#56b4e9", "#e69f00", "#2cc998", "#e48fbd", "#f0e442", "#8fc7ff", "#c4c4c4", "#c5a3ff"],
};
