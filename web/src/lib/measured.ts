// What was measured on the nodes, as a Prometheus has it.

import { get } from "./api";
import { repeated } from "./refresh";
import { route } from "./route.svelte";
import type { Measured } from "./types";

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

interface Answer {
  data?: { result?: { metric: Record<string, string>; value: [number, string] }[] };
}

const EVERY = 15_000;

/** Keep `taken` supplied with the last samples of a metric: none where no Prometheus is asked, or where it knows nothing. Returns how to stop. */
export function measuring(metric: string, labels: Record<string, string>, taken: (found: Sample[]) => void): () => void {
  return repeated(async (signal) => taken(await samples(metric, labels, signal)), EVERY);
}

async function samples(metric: string, labels: Record<string, string>, signal: AbortSignal): Promise<Sample[]> {
  const time = route.at;
  const quoted = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  try {
    const { state } = await get<Measured>("/api/v1/monitoring/prometheus", {}, signal);
    if (state !== "answers") return [];
    const answer = await get<Answer>("/rest/scheduling/api/v1/query", { query: `${metric}{${quoted.join(",")}}`, time }, signal);
    return (answer.data?.result ?? [])
      .map(({ metric: found, value }) => ({ labels: found, value: Number(value[1]) }))
      .filter((one) => Number.isFinite(one.value));
  } catch (error) {
    if (signal.aborted) throw error;
    return [];
  }
}

/** A share from 0 to 1 in the five steps of heat. */
export const heat = (share: number): number => Math.max(0, Math.min(4, Math.floor(share * 5)));

export const percent = (share: number): string => `${Math.round(share * 100)} %`;
