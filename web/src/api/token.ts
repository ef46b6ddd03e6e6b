// The token comes with the printed link as a fragment, which no browser sends to a server. It leaves the address at once, so
// that it is not shared with a copied link, and lives in the storage of this tab only.

const KEY = "mooring-token";

/** The token and the page that a fragment names: `#token=abc`, or a page such as `#/queue` without a token. */
export function readFragment(hash: string): { token: string | null; page: string } {
  const match = /^#token=([^&]*)(?:&page=(.*))?$/.exec(hash);
  return match ? { token: decodeURIComponent(match[1]), page: match[2] ?? "" } : { token: null, page: hash };
}

export function takeToken(): void {
  const { token, page } = readFragment(location.hash);
  if (token === null) return;
  storeToken(token);
  history.replaceState(null, "", `${location.pathname}${page ? `#${page}` : "#/cluster"}`);
}

export function storedToken(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export function storeToken(token: string): void {
  sessionStorage.setItem(KEY, token);
}
