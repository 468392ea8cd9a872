// When to load again. What is loaded is in one language and of one moment, so an effect that ends calls off what is under way.
import { onChange } from "./live.svelte";

type Load = (signal: AbortSignal) => Promise<unknown>;

/** What is shown stays where loading fails: the bar above says that the connection is lost. */
const tried = (load: Load, signal: AbortSignal): void => void load(signal).catch(() => {});

/** Load now, and again `wait` milliseconds after news (of `node`, or of any); returns how to stop. */
export function refreshed(load: Load, wait: number, node?: string): () => void {
  const abort = new AbortController();
  let due: ReturnType<typeof setTimeout> | undefined;
  tried(load, abort.signal);
  const stop = onChange((names) => {
    if (due !== undefined || (node !== undefined && !names.includes(node))) return;
    due = setTimeout(() => {
      due = undefined;
      tried(load, abort.signal);
    }, wait);
  });
  return () => {
    stop();
    clearTimeout(due);
    abort.abort();
  };
}

/** Load now and every so many milliseconds; returns how to stop. */
export function repeated(load: Load, every: number): () => void {
  const abort = new AbortController();
  tried(load, abort.signal);
  const timer = setInterval(() => tried(load, abort.signal), every);
  return () => {
    clearInterval(timer);
    abort.abort();
  };
}
