// Light or dark: the system's choice unless the reader makes one, which this browser remembers.

import { useEffect, useState } from "preact/hooks";
import type { Theme } from "./map/colours.ts";

export type ThemeChoice = "system" | Theme;
const KEY = "mooring-theme";
/** Asked when it is needed: tests of pure functions run without a window. */
const systemIsDark = () => matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function themeChoice(): ThemeChoice {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function theme(): Theme {
  const choice = themeChoice();
  return choice === "system" ? (systemIsDark().matches ? "dark" : "light") : choice;
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
  listeners.forEach((listener) => listener());
}

export function chooseTheme(choice: ThemeChoice): void {
  localStorage.setItem(KEY, choice);
  applyTheme();
}

export function watchTheme(): void {
  applyTheme();
  systemIsDark().addEventListener("change", applyTheme);
}

export function useTheme(): Theme {
  const [now, setNow] = useState(theme);
  useEffect(() => {
    const heard = () => setNow(theme());
    listeners.add(heard);
    return () => { listeners.delete(heard); };
  }, []);
  return now;
}

/** The colour of a CSS variable, for what is drawn on a canvas. */
export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
