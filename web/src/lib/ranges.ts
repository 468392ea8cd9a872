// What the Monitoring page asks a Prometheus, and how its answers become lines.

import type { Key } from "../text/index.svelte";
import { get } from "./api";

export const RANGES: [string, number][] = [
  ["15m", 15],
  ["1h", 60],
  ["6h", 360],
  ["24h", 1440],
  ["7d", 10_080],
];
const PATH = "/rest/scheduling/api/v1/query";
const STEPS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200];
// Four scrapes of the slowest exporter in use: a rate needs two of them, and one may be lost.
const SHORTEST_RATE = 120;
const MOST_PODS = 8;
const WORST = 8;

/** Moments from `start` to `end`, in seconds. */
export interface Span {
  start: number;
  end: number;
  step: number;
}

export interface Drawn {
  labels: Record<string, string>;
  values: (number | null)[];
}

export interface Panel {
  title: Key;
  unit: Key;
  /** What has to be exported for it. */
  metric: string;
  most?: number;
  /** Whether there is too much of it at some point, by the alert rules. */
  alert?: boolean;
  format?: (value: number) => string;
  query: (node: string, over: string, whole: string) => string;
}

const of = (node: string): string => `node=${JSON.stringify(node)}`;
const rate = (name: string, by: string, where: string, over: string): string => `sum by (${by}) (rate(numa_node_${name}{${where}}[${over}]))`;
const gauge = (name: string, node: string): string => `max by (numa) (numa_node_memory_${name}_bytes{${of(node)}})`;

function remote(by: string, where: string, over: string): string {
  const other = rate("other_pages_total", by, where, over);
  return `100 * ${other} / (${rate("local_pages_total", by, where, over)} + ${other})`;
}

const pages =
  (name: string): Panel["query"] =>
  (node, over) =>
    `max by (numa) (rate(numa_node_${name}_pages_total{${of(node)}}[${over}]))`;

export const PANELS: Panel[] = [
  {
    title: "busyChart",
    unit: "percentOfCpus",
    metric: "numa_node_cpu_seconds_total",
    most: 100,
    query: (node, over) =>
      `100 * (1 - ${rate("cpu_seconds_total", "numa", `${of(node)},mode=~"idle|iowait"`, over)} / ${rate("cpu_seconds_total", "numa", of(node), over)})`,
  },
  {
    title: "memoryUsedChart",
    unit: "percentOfMemory",
    metric: "numa_node_memory_used_bytes",
    most: 100,
    query: (node) => `100 * ${gauge("used", node)} / ${gauge("total", node)}`,
  },
  { title: "memoryFreeChart", unit: "gibFree", metric: "numa_node_memory_free_bytes", query: (node) => `${gauge("free", node)} / 2^30` },
  { title: "remoteChart", unit: "percentOfPages", metric: "numa_node_other_pages_total", alert: true, query: (node, over) => remote("numa", of(node), over) },
  { title: "hitsChart", unit: "pagesPerSecond", metric: "numa_node_hit_pages_total", format: thousands, query: pages("hit") },
  { title: "missedChart", unit: "pagesPerSecond", metric: "numa_node_miss_pages_total", format: thousands, query: pages("miss") },
  { title: "foreignChart", unit: "pagesPerSecond", metric: "numa_node_foreign_pages_total", format: thousands, query: pages("foreign") },
  {
    title: "podsRemoteChart",
    unit: "percentOfPodMemory",
    metric: "numa_pod_remote_memory_ratio",
    alert: true,
    // The same pods at every moment: those that were worst at any.
    query: (node, _, whole) => {
      const ratio = `numa_pod_remote_memory_ratio{${of(node)}}`;
      const most = `max by (namespace, pod) (max_over_time(${ratio}[${whole}] @ end()))`;
      return `100 * (max by (namespace, pod) (${ratio}) and topk(${MOST_PODS}, ${most}))`;
    },
  },
];

export const refusals = (over: string): string => `sum(increase(kubelet_topology_manager_admission_errors_total[${over}]))`;
export const worst = (nodes: string[], over: string): string => remote("node", `node=~${JSON.stringify(nodes.map(escaped).join("|"))}`, over);

/** At most so many round moments up to `end` (in milliseconds), so that points stay where they are while time goes on. */
export function spanOf(end: number, minutes: number, most: number, least = 0): Span {
  const step = STEPS.find((one) => one >= least && (minutes * 60) / one <= most) ?? STEPS.at(-1)!;
  const last = Math.floor(end / 1000 / step) * step;
  return { start: last - Math.floor((minutes * 60) / step) * step, end: last, step };
}

/** The time that a rate is taken over where points are so far apart. */
export const over = (step: number): string => `${Math.max(SHORTEST_RATE, step)}s`;
export const SHORTEST_BAR = SHORTEST_RATE;

export function moments({ start, end, step }: Span): number[] {
  return Array.from({ length: Math.round((end - start) / step) + 1 }, (_, place) => 1000 * (start + place * step));
}

/** What was counted up to each moment, in bars of round times that begin where their time begins; none where nothing was looked at. */
export function buckets(
  times: number[],
  points: ({ refusals: number } | null)[],
  step: number,
  most: number,
): { times: number[]; values: (number | null)[]; step: number } {
  const long = step * Math.max(1, Math.ceil(times.length / most));
  const counted = new Map<number, number | null>();
  times.forEach((time, place) => {
    const [begin, point] = [Math.floor((time - 1) / long) * long, points[place] ?? null];
    const before = counted.get(begin) ?? null;
    counted.set(begin, point ? (before ?? 0) + point.refusals : before);
  });
  return { times: [...counted.keys()], values: [...counted.values()], step: long };
}

/** The time itself where it lies in one of the spans, or the nearest moment that does. */
export function within(spans: { fromMs: number; toMs: number }[], time: number): number {
  const near = spans.map(({ fromMs, toMs }) => Math.min(toMs, Math.max(fromMs, time)));
  return near.reduce((best, one) => (Math.abs(one - time) < Math.abs(best - time) ? one : best), near[0] ?? time);
}

/** A question about a span of time; what is not a number is a gap. */
export async function ranged(query: string, span: Span, signal: AbortSignal): Promise<Drawn[]> {
  const found = await get<{ data?: { result?: { metric: Record<string, string>; values: [number, string][] }[] } }>(
    `${PATH}_range`,
    { query, ...span },
    signal,
  );
  const count = moments(span).length;
  return (found.data?.result ?? []).map(({ metric, values }) => {
    const drawn: Drawn = { labels: metric, values: Array<number | null>(count).fill(null) };
    for (const [time, text] of values) {
      const value = Number(text);
      if (Number.isFinite(value)) drawn.values[Math.round((time - span.start) / span.step)] = value;
    }
    return drawn;
  });
}

/** The nodes that are worst now, the worst first. */
export async function worstNodes(end: number, signal: AbortSignal): Promise<string[]> {
  const query = `topk(${WORST}, ${remote("node", "", "300s")} >= 0)`;
  const found = await get<{ data?: { result?: { metric: Record<string, string>; value: [number, string] }[] } }>(PATH, { query, time: end / 1000 }, signal);
  const result = found.data?.result ?? [];
  return result.toSorted((one, other) => Number(other.value[1]) - Number(one.value[1])).map((one) => one.metric.node ?? "");
}

export function curlQuery(query: string): string {
  return `curl -sG '${location.origin}${PATH}' --data-urlencode 'query=${query}'`;
}

export function thousands(value: number): string {
  if (value >= 999_950) return `${Math.round(value / 1e5) / 10} M`;
  if (value >= 1000) return `${Math.round(value / 100) / 10} k`;
  return String(Math.round(value * 10) / 10);
}

function escaped(name: string): string {
  return name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
