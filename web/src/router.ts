// Pages by the fragment of the address, so that a link to a node or pod can be shared. A link never holds a token.

export type Page = "cluster" | "queue" | "pod" | "flow" | "what-if" | "replay";

export interface Route {
  page: Page;
  /** `#/cluster/node/NAME` has ["node", NAME], `#/pod/NAMESPACE/NAME` has [NAMESPACE, NAME]. */
  rest: string[];
}

const PAGES: readonly Page[] = ["cluster", "queue", "pod", "flow", "what-if", "replay"];

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // A percent sign that was typed by hand.
  }
}

/** An address that names no page leads to the cluster. */
export function readRoute(hash: string): Route {
  const [page, ...rest] = hash.replace(/^#\/?/, "").split("/").map(decoded);
  return (PAGES as readonly string[]).includes(page) ? { page: page as Page, rest } : { page: "cluster", rest: [] };
}

export function linkTo(page: Page, ...rest: string[]): string {
  return `#/${[page, ...rest].map(encodeURIComponent).join("/")}`;
}

export function goTo(page: Page, ...rest: string[]): void {
  location.hash = linkTo(page, ...rest);
}
