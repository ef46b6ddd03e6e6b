// Hooks that draw a component again when the stream, the address or the theme changes, and that fetch with cancellation.

import { useCallback, useEffect, useReducer, useRef, useState } from "preact/hooks";
import { readRoute, type Route } from "../router.ts";
import { live, type LiveState, type Topic } from "./live_state.ts";

export function useLive(...topics: Topic[]): LiveState {
  const [, again] = useReducer((count: number) => count + 1, 0);
  const drawnAt = live.changes;
  useEffect(() => live.subscribe(topics, () => again(undefined as never), drawnAt), [topics.join(" ")]);
  return live;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const moved = () => setRoute(readRoute(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

export interface Fetched<T> {
  value: T | null;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

/** Fetches when `key` changes, and again every `everyS` seconds (0: only on request). An old value stays until the new one is there. */
export function useFetched<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, everyS = 0): Fetched<T> {
  const [state, setState] = useState<{ key: string | null; value: T | null; error: unknown; loading: boolean }>(
    { key: null, value: null, error: null, loading: key !== null },
  );
  const [turn, setTurn] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = () => {
      setState((old) => ({ ...old, loading: true }));
      loader.current(abort.signal).then(
        (value) => setState({ key, value, error: null, loading: false }),
        (error: unknown) => { if (!abort.signal.aborted) setState((old) => ({ key, value: old.key === key ? old.value : null, error, loading: false })); },
      ).finally(() => { if (everyS > 0 && !abort.signal.aborted) timer = setTimeout(run, everyS * 1000); });
    };
    run();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [key, everyS, turn]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  const current = state.key === key;
  return { value: current ? state.value : null, error: current ? state.error : null, loading: state.loading || !current, reload };
}
