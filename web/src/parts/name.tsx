// Text that comes from the API. It is a text node, isolated in its direction, with hidden characters shown; long text is cut, and a
// button shows the rest.

import { useState } from "preact/hooks";
import { linkTo } from "../router.ts";
import { cut, visible } from "../text/visible.ts";
import type { PodRef } from "../api/types.ts";

/** Names of so many letters stay on one line. */
const SHORT = 22;
/** The end of a name that is always shown: the hash of a ReplicaSet and the letters of a pod, or the number of a node. */
const TAIL = 17;

interface CutProps {
  text: string;
  limit?: number;
  tail?: number;
  href?: string;
  className?: string;
}

export function Text({ text, limit = 48, tail = 0, href, className }: CutProps) {
  const [open, setOpen] = useState(false);
  const whole = visible(text);
  const short = cut(whole, limit, tail);
  const shown = open ? whole : short;
  const body = href ? <a href={href}><bdi>{shown || "(empty)"}</bdi></a> : <bdi>{shown}</bdi>;
  return (
    <span class={`text ${href && whole.length <= SHORT ? "short" : ""} ${className ?? ""}`}>
      {body}
      {short !== whole && (
        <button type="button" class="more" aria-expanded={open} aria-label={open ? "less of the text" : "more: show the whole text"} onClick={() => setOpen(!open)}>
          {open ? "less" : "more"}
        </button>
      )}
    </span>
  );
}

export function NodeLink({ name, limit = 40 }: { name: string; limit?: number }) {
  return name ? <Text text={name} limit={limit} tail={TAIL} href={linkTo("cluster", "node", name)} /> : <span>–</span>;
}

export function PodLink({ pod, limit = 56 }: { pod: PodRef; limit?: number }) {
  return <Text text={`${pod.namespace}/${pod.name}`} limit={limit} tail={TAIL} href={linkTo("pod", pod.namespace, pod.name)} />;
}

/** A pod that an answer names as namespace/name. */
export function PodNameLink({ name, limit = 56 }: { name: string; limit?: number }) {
  const slash = name.indexOf("/");
  return <PodLink pod={{ namespace: name.slice(0, slash), name: name.slice(slash + 1) }} limit={limit} />;
}

export function Chips({ items, limit = 6, length = 60 }: { items: readonly string[]; limit?: number; length?: number }) {
  const [open, setOpen] = useState(false);
  const shown = open ? items : items.slice(0, limit);
  if (items.length === 0) return <span class="soft">none</span>;
  return (
    <span class="chips">
      {shown.map((item) => <span class="chip" key={item}><Text text={item} limit={length} /></span>)}
      {items.length > limit && (
        <button type="button" class="more" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "fewer" : `${items.length - limit} more`}
        </button>
      )}
    </span>
  );
}

export function pairs(labels: Record<string, string>): string[] {
  return Object.entries(labels).map(([key, value]) => (value ? `${key}=${value}` : key));
}
