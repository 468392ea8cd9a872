// The drawing of one NUMA node, laid out anew for the width it gets: memory, caches, cores, devices.

import type { NodeDevice, NumaView } from "./types";
import { cpuList } from "./units";

/** A device with its number among all of its resource on the node, as people count GPUs. */
export type NumberedDevice = NodeDevice & { number: number };

export function numbered(devices: NodeDevice[]): NumberedDevice[] {
  const counts = new Map<string, number>();
  return devices.map((device) => {
    const number = counts.get(device.resource) ?? 0;
    counts.set(device.resource, number + 1);
    return { ...device, number };
  });
}

export type Holder = { slot: number; pod: string };

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Cell extends Box {
  cpu: number;
  state: "reserved" | "pool" | "held" | "ghost";
  holder: Holder | null;
}

export interface Segment extends Box {
  holder: Holder | null;
  kind: "held" | "reserved" | "ghost";
  size: number;
}

export interface DeviceBox extends Box {
  device: NumberedDevice;
  number: number;
  holder: Holder | null;
  ghost: boolean;
}

export interface CacheBox extends Box {
  id: number;
  cores: number;
  threads: number;
}

export interface Zone {
  height: number;
  frame: number;
  memory: Box;
  segments: Segment[];
  caches: CacheBox[];
  cores: Box[];
  cells: Cell[];
  summary: number;
  counts: { reserved: number; exclusive: number; free: number };
  devices: DeviceBox[];
}

export interface Ghost {
  cpus: Set<number>;
  memory: number;
  devices: Set<string>;
}

const PAD = 10;
const LINE = 17;

export function zone(numa: NumaView, devices: NumberedDevice[], owners: Map<number, Holder>, holders: Map<string, Holder>, reserved: Set<number>, width: number, ghost: Ghost | null, compact = false): Zone {
  const inner = width - 2 * PAD;
  let y = 26;
  const memory: Box = { x: PAD, y, w: inner, h: 18 };
  const segments = memorySegments(numa, memory, holders, ghost);
  y += 26;
  const caches: CacheBox[] = [];
  const cores: Box[] = [];
  const cells: Cell[] = [];
  const counts = { reserved: 0, exclusive: 0, free: 0 };
  const groups = new Map<number, typeof numa.cores>();
  for (const core of numa.cores) groups.set(core[2], [...(groups.get(core[2]) ?? []), core]);
  for (const [id, members] of groups) {
    const threads = Math.max(...members.map((core) => core[0].length));
    if (!compact) {
      caches.push({ id, cores: members.length, threads, x: PAD, y, w: inner, h: 18 });
      y += 23;
    }
    const columns = compact ? Math.max(4, Math.min(16, Math.floor(inner / 17))) : columnsFor(members.length, inner);
    const wide = inner / columns;
    const line = compact ? 13 : LINE;
    const high = threads * line + 3;
    members.forEach(([cpus], place) => {
      const x = PAD + (place % columns) * wide;
      const top = y + Math.floor(place / columns) * (high + 3);
      if (!compact) cores.push({ x: x + 1, y: top, w: wide - 3, h: high });
      cpus.forEach((cpu, thread) => {
        const holder = owners.get(cpu) ?? null;
        const state = ghost?.cpus.has(cpu) ? "ghost" : holder ? "held" : reserved.has(cpu) ? "reserved" : "pool";
        if (state === "held") counts.exclusive++;
        else if (state === "reserved") counts.reserved++;
        else counts.free++;
        cells.push({ cpu, state, holder, x: x + 2.5, y: top + 1.5 + thread * line, w: wide - 6, h: line - 1 });
      });
    });
    y += Math.ceil(members.length / columns) * (high + 3) + 4;
  }
  const summary = y + 10;
  y += 20;
  const frame = y;
  const boxes: DeviceBox[] = [];
  if (devices.length) {
    const per = Math.max(1, Math.min(devices.length, Math.floor(inner / 62)));
    const wide = inner / per;
    devices.forEach((device, place) => {
      const row = Math.floor(place / per);
      boxes.push({
        device,
        number: device.number,
        holder: holders.get(device.pod) ?? null,
        ghost: ghost?.devices.has(device.id) ?? false,
        x: PAD + (place % per) * wide + 1,
        y: frame + 18 + row * 38,
        w: wide - 6,
        h: 32,
      });
    });
    y = frame + 18 + Math.ceil(devices.length / per) * 38;
  }
  return { height: y + 2, frame, memory, segments, caches, cores, cells, summary, counts, devices: boxes };
}

/** As many columns as there is room for, evenly filled where that is possible. */
function columnsFor(cores: number, width: number): number {
  const most = Math.max(1, Math.min(cores, Math.floor(width / 46)));
  for (let columns = most; columns > most / 2; columns--) if (cores % columns === 0) return columns;
  return most;
}

function memorySegments(numa: NumaView, bar: Box, holders: Map<string, Holder>, ghost: Ghost | null): Segment[] {
  const scale = numa.memory ? bar.w / numa.memory : 0;
  const found: Segment[] = [];
  let x = bar.x;
  for (const held of numa.held) {
    const w = held.size * scale;
    found.push({ x, y: bar.y, w, h: bar.h, holder: holders.get(held.pod) ?? null, kind: "held", size: held.size });
    x += w;
  }
  if (ghost?.memory) found.push({ x, y: bar.y, w: ghost.memory * scale, h: bar.h, holder: null, kind: "ghost", size: ghost.memory });
  if (numa.memoryReserved) {
    const w = Math.max(3, numa.memoryReserved * scale);
    found.push({ x: bar.x + bar.w - w, y: bar.y, w, h: bar.h, holder: null, kind: "reserved", size: numa.memoryReserved });
  }
  return found;
}

/** CPU -> who owns it, and pod -> its letter, from the pods of a node. */
export function held(pods: { pod: string; slot: number | null; cpus: string }[]): { owners: Map<number, Holder>; holders: Map<string, Holder> } {
  const owners = new Map<number, Holder>();
  const holders = new Map<string, Holder>();
  for (const { pod, slot, cpus } of pods) {
    if (slot === null) continue;
    const holder = { slot, pod };
    holders.set(pod, holder);
    for (const cpu of cpuList(cpus)) owners.set(cpu, holder);
  }
  return { owners, holders };
}
