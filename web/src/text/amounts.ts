// Numbers, durations and times as people read them. Times are RFC 3339 text in UTC, durations are seconds.

const STEPS: readonly [number, string][] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** Two units at most: 3d 4h, 5m 2s, 12 s, 4.2 ms, 180 µs. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.0009995) return `${trimmed(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${trimmed(seconds * 1e3)} ms`;
  if (seconds < 60) return `${trimmed(seconds)} s`;
  let rest = Math.floor(seconds);
  const parts: string[] = [];
  for (const [size, unit] of STEPS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0 || parts.length > 0) parts.push(`${count}${unit}`);
    if (parts.length === 2) break;
  }
  return parts.filter((part, at) => at === 0 || !part.startsWith("0")).join(" ");
}

function trimmed(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}

/** A share as 13 %, or 12.5 % with a decimal. Half of the last digit is rounded up, as in src/mooring/model/quantity.py, so that
 *  commands and pages show the same number. Use of one node has no decimals, sums have one. */
export function percent(share: number, decimals = 0): string {
  if (!Number.isFinite(share)) return "–";
  const unit = 10 ** decimals;
  return `${(Math.floor(Number((100 * share * unit).toFixed(6)) + 0.5) / unit).toFixed(decimals)} %`;
}

export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumFractionDigits: value >= 100 ? 0 : value >= 10 ? 1 : 2 });
}

/** Money as commands show it: 0.096 EUR, 12,345 EUR. Sentences say "an hour" themselves, so that it is left out of the unit. */
export function money(amount: number, unit = ""): string {
  const text = Math.abs(amount) < 1000 ? String(Number(amount.toPrecision(4))) : Math.round(amount).toLocaleString("en");
  return `${text} ${unit.replace(/an hour$/, "")}`.trim();
}

/** Seconds since 1970, or NaN for text that is no time. */
export function secondsOf(time: string | null | undefined): number {
  return time ? Date.parse(time) / 1000 : NaN;
}

/** 11:04:09 of an RFC 3339 time, in UTC as logs have it. */
export function clock(time: string): string {
  return /T(\d\d:\d\d:\d\d)/.exec(time)?.[1] ?? "–";
}

/** 2026-01-31 11:04:09.120 UTC: the whole time, for titles. */
export function fullTime(time: string): string {
  return Number.isNaN(Date.parse(time)) ? "–" : `${time.replace("T", " ").replace("Z", "")} UTC`;
}

export function age(since: string | null | undefined, nowS: number): string {
  const start = secondsOf(since);
  return Number.isNaN(start) ? "–" : duration(Math.max(0, Math.round(nowS - start)));
}

const BINARY: readonly [number, string][] = [[2 ** 50, "Pi"], [2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"], [2 ** 10, "Ki"]];

/** Whole numbers of the answers as quantities: cpu is in milli-CPU, memory and storage in bytes. */
export function quantity(resource: string, amount: number): string {
  if (resource === "cpu") return amount % 1000 === 0 ? (amount / 1000).toLocaleString("en") : `${amount}m`;
  const bytes = resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-");
  const unit = bytes ? BINARY.find(([size]) => Math.abs(amount) >= size) : undefined;
  return unit ? `${Number((amount / unit[0]).toFixed(1))}${unit[1]}` : amount.toLocaleString("en");
}
