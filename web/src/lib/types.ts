// What the API gives, as far as the page uses it; the whole of it is in /openapi.json.

export type Verdict = "aligned" | "split" | "refused" | "full" | "never";
export const WORST_FIRST: Verdict[] = ["refused", "split", "full", "aligned", "never"];

/** id, CPUs, reserved, exclusive, shared, memory in thousandths, GPUs, GPUs in use */
export type Strip = [number, number, number, number, number, number, number, number];
type PackedTile = [string, string, string, number, number, number, boolean, boolean, Strip[]];

export interface Tile {
  name: string;
  pool: string;
  policy: string;
  verdict: Verdict;
  stranded: number;
  refusals: number;
  storm: boolean;
  stale: boolean;
  strips: Strip[];
}

export interface Wall {
  serial: number;
  time: number;
  verdicts: Verdict[];
  tiles: PackedTile[];
}

export function unpacked(tile: PackedTile, verdicts: Verdict[]): Tile {
  const [name, pool, policy, verdict, stranded, refusals, storm, stale, strips] = tile;
  return { name, pool, policy, verdict: verdicts[verdict] ?? "never", stranded, refusals, storm, stale, strips };
}

export interface Changed {
  serial: number;
  time: number;
  tiles: PackedTile[];
  gone: string[];
  events: Happening[];
}

export interface Largest {
  gpus: number;
  cpus: number;
  memory: number;
  node: string;
  numa: number;
}

export interface Numbers {
  name: string;
  kind: "lab" | "cluster";
  time: number;
  nodes: number;
  pods: number;
  waiting: number;
  pinned: number;
  aligned: number;
  refusals: number;
  refusalBuckets: number[];
  bucketMs: number;
  storm: { owner: string; nodes: string[]; count: number; since: number; last: number; reason: string } | null;
  verdicts: Record<Verdict, number>;
  stranded: { pods: number; nodes: number; cpus: number; gpus: number };
  largest: Largest[];
  stale: number;
  oldest: string;
  oldestAgeMs: number;
}

export interface Happening {
  id: number;
  time: number;
  kind: "admitted" | "refused" | "waiting" | "left" | "gave-up" | "switched";
  pod: string;
  node: string;
  owner: string;
  reason: string;
  message: string;
}

export interface Summary {
  name: string;
  pool: string;
  policy: string;
  scope: string;
  pods: number;
  cpus: number;
  memory: number;
  devices: Record<string, number>;
  freeCpus: number;
  freeMemory: number;
  freeDevices: Record<string, number>;
  numa: Strip[];
  refusals: number;
  storm: boolean;
  stale: boolean;
  source: Source;
  reportedAt: number;
}

export type Source = "measured" | "reported" | "modelled" | "inferred";
/** threads, package, cache (null where nobody told) */
export type Core = [number[], number, number | null];

export interface NumaView {
  id: number;
  cores: Core[];
  cpus: string;
  memory: number;
  memoryFree: number;
  memoryReserved: number;
  managed: boolean;
  held: { pod: string; size: number }[];
  hugepages: Record<string, [number, number]>;
  distances: number[];
}

export interface NodeDevice {
  id: string;
  resource: string;
  numa: number[];
  healthy: boolean;
  pod: string;
  left: number | null;
}

export interface PodOnNode {
  pod: string;
  uid: string;
  slot: number | null;
  qos: string;
  cpus: string;
  cpuMilli: number;
  memory: number;
  devices: Record<string, string[]>;
  numa: number[];
  aligned: boolean;
  since: number;
  predicted: boolean | null;
}

export interface NodeView {
  summary: Summary;
  kubelet: {
    version: string;
    topologyPolicy: string;
    topologyScope: string;
    topologyOptions: Record<string, string>;
    cpuPolicy: string;
    cpuOptions: Record<string, string>;
    memoryPolicy: string;
    reservedCpus: string;
  };
  labels: Record<string, string>;
  taints: string[];
  unschedulable: boolean;
  numa: NumaView[];
  /** Bytes of each last-level cache, 0 where nobody told. */
  caches: number[];
  sharedCpus: string;
  reservedCpus: string;
  devices: NodeDevice[];
  /** A row for each device: how close it is to each of them. */
  links: string[][];
  pods: PodOnNode[];
  largest: Largest[];
  events: Happening[];
  time: number;
}

export interface PodSummary {
  namespace: string;
  name: string;
  uid: string;
  owner: string;
  phase: "Running" | "Pending";
  node: string;
  qos: string;
  cpuMilli: number;
  memory: number;
  devices: Record<string, number>;
  numa: number[];
  aligned: boolean | null;
  predicted: boolean | null;
  since: number;
  message: string;
}

export interface ZoneView {
  numa: number;
  cpus: string;
  amounts: Record<string, number>;
}

export interface PodView {
  summary: PodSummary;
  scheduler: string;
  containers: { name: string; init: boolean; requests: Record<string, number>; limits: Record<string, number> }[];
  cpus: string;
  devices: Record<string, string[]>;
  predicted: ZoneView[] | null;
  observed: ZoneView[] | null;
  fewestNuma: number | null;
  remoteMemory: number | null;
  peers: string[];
  events: Happening[];
}

export interface Reason {
  code: "only-on" | "short-on-every" | "short-on-node" | "too-small" | "policy" | "outside";
  resource?: string;
  numa?: number[];
  amount?: number;
  text?: string;
}

export interface NodeAnswer {
  node: string;
  verdict: Verdict;
  policy: string;
  scope: string;
  numa: number[];
  reasons: Reason[];
  stranded: number;
  strips: Strip[];
}

export interface WhatIf {
  pod: { name: string; qos: string; cpuMilli: number; memory: number; devices: Record<string, number> };
  message: string;
  verdicts: Record<Verdict, number>;
  nodes: NodeAnswer[];
}

export interface MergeView {
  container: string;
  policy: string;
  masks: number[][];
  allMasks: number;
  rows: {
    resource: string;
    wanted: number;
    cells: { state: "preferred" | "possible" | "impossible"; free: number; short: number }[];
  }[];
  merged: ("chosen" | "agreed" | "beaten" | "dropped" | "empty")[];
  best: number[] | null;
  preferred: boolean;
  admitted: boolean;
}

export interface Explained {
  node: string;
  policy: string;
  scope: string;
  explanation: {
    admitted: boolean;
    admittedWhenEmpty: boolean;
    reason: string;
    message: string;
    containers: {
      name: string;
      cpuset: string | null;
      memory: { numaAffinity: number[]; type: string; size: number }[];
      devices: Record<string, Record<string, number>>;
    }[];
    why: { resource: string; text: string; blockedBy: string[] }[];
    changes: { kind: "request" | "policy" | "option" | "evict"; text: string; patch: unknown }[];
    warnings: string[];
  };
  merges: MergeView[];
  fits: { resource: string; numa: number; wanted: number; free: number; fits: boolean }[];
  devices: Record<string, string[]>;
}

export interface Room {
  headroom: { pods: number; nodes: number; byNode: Record<string, number>; most: number };
  largest: Largest[];
}

export interface Series {
  node: string;
  fromMs: number;
  toMs: number;
  keptFromMs: number;
  stepMs: number;
  times: number[];
  cluster: ({ time: number; pods: number; waiting: number; alignedPermille: number; refusals: number } | null)[];
  numa: { numa: number; cpus: number; cpu: (number | null)[]; memory: (number | null)[] }[];
  source: string;
}

export interface Switch {
  id: string;
  status: "open" | "close";
  missing: string;
  place: string;
  conf: string;
  broken: string;
  progress: { stage: "writing" | "restarting" | "undoing"; ready: number; wanted: number } | null;
}

export interface Policies {
  switches: Switch[];
  pools: { name: string; nodes: number; policy: string; scope: string; mixed: boolean }[];
  changes: { time: number; switch: string; before: string; after: string; by: string; problem: string }[];
}

export interface SwitchAnswer {
  switch: Switch;
  changed: boolean;
  diff: { sign: "+" | "-" | " "; text: string }[];
  added: number;
  removed: number;
}

export interface PolicyAnswer {
  pool: string;
  nodes: { node: string; pods: number; refused: string[]; problem: string }[];
  pods: number;
  refused: number;
}

export interface Simulation {
  id: number;
  state: "running" | "done" | "failed";
  wish: { policies: string[]; pods: number; seed: number };
  problem: string;
  results: {
    run: {
      policy: string;
      podsTotal: number;
      podsPlaced: number;
      kubeletRefusals: number;
      alignedPercent: number;
      crossNumaPods: number;
      cpuAllocatedPercent: number;
      deviceAllocatedPercent: Record<string, number>;
      strandedPercent: number;
    };
    series: { timeMs: number; running: number; pending: number; refusals: number; cpuPercent: number; devicePercent: number }[];
    waitMeanMs: number;
  }[];
}

export interface Finding {
  code: string;
  severity: "error" | "warning" | "info";
  subject: { kind?: string; namespace?: string; name?: string; node?: string };
  title: string;
  cause: string;
  fix: string[];
  evidence: { file: string; line: number; text: string }[];
  confidence: string;
}

export interface Problem {
  title: string;
  status: number;
  detail?: string;
  hint?: string;
}

export interface Kept {
  file: string;
  problem: string;
  spans: { fromMs: number; toMs: number }[];
  bytes: number;
  mostBytes: number;
  keepsMs: number;
  previous: number | null;
  next: number | null;
}
