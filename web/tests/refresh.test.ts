import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { refreshed, repeated } from "../src/lib/refresh";

const listeners = vi.hoisted(() => new Set<(names: string[]) => void>());
vi.mock("../src/lib/live.svelte", () => ({
  onChange: (listener: (names: string[]) => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  },
}));
const changed = (...names: string[]): void => listeners.forEach((listener) => listener(names));

/** A server that takes its time: answers come when they are let go, and those that were called off never. */
function server() {
  const waiting: (() => void)[] = [];
  const shown: string[] = [];
  const ask = (words: string) => (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Error("called off")));
      waiting.push(resolve);
    }).then(() => void shown.push(words));
  return { ask, shown, answer: () => waiting.splice(0).forEach((resolve) => resolve()) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  listeners.clear();
});

describe("what is loaded again", () => {
  it("comes after news of its node, once for all of them", async () => {
    const { ask, shown, answer } = server();
    refreshed(ask("answer"), 400, "gpu-1");
    changed("box-0");
    changed("gpu-1");
    changed("gpu-1");
    await vi.advanceTimersByTimeAsync(400);
    answer();
    await vi.runAllTimersAsync();
    expect(shown).toEqual(["answer", "answer"]);
  });

  it("is called off when it is stopped, so that no late answer in another language wins", async () => {
    const { ask, shown, answer } = server();
    const stop = refreshed(ask("English"), 400, "gpu-1");
    changed("gpu-1");
    await vi.advanceTimersByTimeAsync(400);
    stop();
    refreshed(ask("中文"), 400, "gpu-1");
    answer();
    await vi.runAllTimersAsync();
    expect(shown).toEqual(["中文"]);
  });

  it("is not begun any more when it is stopped before its time", async () => {
    const load = vi.fn(() => Promise.resolve());
    const stop = refreshed(load, 400);
    changed("gpu-1");
    stop();
    await vi.runAllTimersAsync();
    expect(load).toHaveBeenCalledTimes(1);
  });
});

describe("what is loaded again and again", () => {
  it("goes on where loading fails, and is called off when it is stopped", async () => {
    const signals: AbortSignal[] = [];
    const stop = repeated((signal) => {
      signals.push(signal);
      return Promise.reject(new Error("no answer"));
    }, 1000);
    await vi.advanceTimersByTimeAsync(2000);
    expect(signals.map((signal) => signal.aborted)).toEqual([false, false, false]);
    stop();
    await vi.advanceTimersByTimeAsync(2000);
    expect(signals.map((signal) => signal.aborted)).toEqual([true, true, true]);
  });
});
