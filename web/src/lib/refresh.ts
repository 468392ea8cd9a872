import { onChange } from "./live.svelte";

/** Load now, and again `wait` milliseconds after news (of `node`, or of any); returns how to stop. */
export function refreshed(load: () => Promise<void>, wait: number, node?: string): () => void {
  let due: ReturnType<typeof setTimeout> | undefined;
  void load();
  const stop = onChange((names) => {
    if (due !== undefined || (node !== undefined && !names.includes(node))) return;
    due = setTimeout(() => {
      due = undefined;
      void load();
    }, wait);
  });
  return () => {
    stop();
    clearTimeout(due);
  };
}
