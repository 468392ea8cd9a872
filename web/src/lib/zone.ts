// The drawing of one NUMA node, laid out anew for the width it gets: memory, caches, cores, devices.

import type { NodeDevice, NumaView, Place } from "./types";
import { cpuList } from "./units";

/** A device with its number among all of its resource on the node, as people count GPUs. */
export type NumberedDevice = NodeDevice & { number: number; links: Map<string, string> };

const key = (device: NodeDevice): string => `${device.resource} ${device.id}`;

export function numbered(devices: NodeDevice[], links: string[][] = []): NumberedDevice[] {
  const counts = new Map<string, number>();
  return devices.map((device, place) => {
    const number = counts.get(device.resource) ?? 0;
    counts.set(device.resource, number + 1);
    return { ...device, number, links: new Map(links[place]?.map((word, other) => [key(devices[other]!), word])) };
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

/** What joins devices that stand side by side: a PCIe switch above them, or NVLinks between them. */
export interface Bond extends Box {
  word: string;
}

/** Colours by what was measured, in steps of heat: of the whole NUMA node, or of the pods on it. */
export interface Paint {
  zone: number | null;
  pods: Map<string, number>;
}

export interface CacheBox extends Box {
  id: number | null;
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
  switches: Bond[];
  nvlinks: Bond[];
}

/** What a pod that is not there yet would have of the NUMA node. */
export type Ghost = Place | undefined;

const PAD = 10;
const LINE = 17;

export function zone(numa: NumaView, devices: NumberedDevice[], holders: Map<string, Holder>, width: number, ghost: Ghost, compact = false): Zone {
  const inner = width - 2 * PAD;
  let y = 26;
  const memory: Box = { x: PAD, y, w: inner, h: 18 };
  const segments = memorySegments(numa, memory, holders, ghost);
  y += 26;
  const caches: CacheBox[] = [];
  const cores: Box[] = [];
  const cells: Cell[] = [];
  const reserved = new Set(cpuList(numa.reservedCpus));
  const shadowed = new Set(cpuList(ghost?.cpus ?? ""));
  const owners = new Map(numa.held.flatMap(({ pod, cpus }) => cpuList(cpus).map((cpu) => [cpu, holders.get(pod)])));
  const counts = { reserved: reserved.size, exclusive: owners.size, free: cpuList(numa.freeToPinCpus).length };
  const groups = new Map<number | null, typeof numa.cores>();
  for (const core of numa.cores) groups.set(core[2], [...(groups.get(core[2]) ?? []), core]);
  for (const [id, members] of groups) {
    const threads = Math.max(...members.map((core) => core[0].length));
    if (!compact && id !== null) {
      caches.push({ id, cores: members.length, threads, x: PAD, y, w: inner, h: 18 });
      y += 23;
    }
    const columns = compact ? Math.max(1, Math.min(members.length, 16, Math.floor(inner / 17))) : columnsFor(members.length, inner);
    const wide = inner / columns;
    const line = compact ? 13 : LINE;
    const high = threads * line + 3;
    members.forEach(([cpus], place) => {
      const x = PAD + (place % columns) * wide;
      const top = y + Math.floor(place / columns) * (high + 3);
      if (!compact) cores.push({ x: x + 1, y: top, w: wide - 3, h: high });
      cpus.forEach((cpu, thread) => {
        const holder = owners.get(cpu) ?? null;
        const state = shadowed.has(cpu) ? "ghost" : holder ? "held" : reserved.has(cpu) ? "reserved" : "pool";
        cells.push({ cpu, state, holder, x: x + 2.5, y: top + 1.5 + thread * line, w: wide - 6, h: line - 1 });
      });
    });
    y += Math.ceil(members.length / columns) * (high + 3) + 4;
  }
  const summary = y + 10;
  y += 20;
  const frame = y;
  const placed = deviceBoxes(devices, holders, ghost, inner, frame, compact);
  return {
    height: placed.bottom + 2,
    frame,
    memory,
    segments,
    caches,
    cores,
    cells,
    summary,
    counts,
    devices: placed.boxes,
    switches: placed.switches,
    nvlinks: placed.nvlinks,
  };
}

const DEVICE_HIGH = 32;
const DEVICE_WIDE = 130;
const DEVICE_NARROW = 87;

/** Devices in rows below the frame, under the switch that they share, with NVLinks drawn above them. */
function deviceBoxes(
  devices: NumberedDevice[],
  holders: Map<string, Holder>,
  ghost: Ghost,
  inner: number,
  frame: number,
  compact: boolean,
): { boxes: DeviceBox[]; switches: Bond[]; nvlinks: Bond[]; bottom: number } {
  const boxes: DeviceBox[] = [];
  const switches: Bond[] = [];
  const nvlinks: Bond[] = [];
  if (!devices.length) return { boxes, switches, nvlinks, bottom: frame };
  const joined = (one: NumberedDevice | undefined, other: NumberedDevice | undefined): string => (one && other && one.links.get(key(other))) || "";
  const switched = !compact && devices.some((device, place) => joined(device, devices[place + 1]) === "PIX");
  const linked = !compact && devices.some((device, place) => joined(device, devices[place + 1]).startsWith("NV"));
  const top = 18 + (switched ? 24 : 0) + (linked ? 14 : 0);
  // As many in a row as have room for "free to pin" and for an address, and the same number in each.
  const rows = Math.ceil(devices.length / Math.max(1, Math.floor(inner / DEVICE_NARROW)));
  const per = Math.ceil(devices.length / rows);
  const wide = Math.min(DEVICE_WIDE, inner / per);
  const pitch = DEVICE_HIGH + top - 12;
  devices.forEach((device, place) => {
    const y = frame + top + Math.floor(place / per) * pitch;
    const box = { x: PAD + (place % per) * wide + 1, y, w: wide - 6, h: DEVICE_HIGH };
    boxes.push({ ...box, device, number: device.number, holder: holders.get(device.pod) ?? null, ghost: ghost?.devices.includes(device.id) ?? false });
    const before = place % per ? devices[place - 1] : undefined;
    const word = joined(before, device);
    const grow = (bonds: Bond[], made: Bond, more: boolean): void => {
      const last = bonds.at(-1);
      if (more && last) last.w = made.x + made.w - last.x;
      else bonds.push(made);
    };
    if (switched && device.links.size) grow(switches, { x: box.x, y: y - (linked ? 38 : 24), w: box.w, h: 16, word: "PIX" }, word === "PIX");
    if (word.startsWith("NV")) {
      const middle = box.x + box.w / 2 - wide;
      grow(
        nvlinks,
        { x: middle, y: y - 8, w: wide, h: 3, word },
        nvlinks.at(-1)?.word === word && nvlinks.at(-1)!.y === y - 8 && Math.abs(nvlinks.at(-1)!.x + nvlinks.at(-1)!.w - middle) < 1,
      );
    }
  });
  // A switch with a single device under it says nothing.
  const shared = switches.filter((bond) => bond.w > wide);
  return { boxes, switches: shared, nvlinks, bottom: frame + top + Math.ceil(devices.length / per) * pitch - (pitch - DEVICE_HIGH) + 4 };
}

/** As many columns as there is room for, evenly filled where that is possible. */
function columnsFor(cores: number, width: number): number {
  const most = Math.max(1, Math.min(cores, Math.floor(width / 43)));
  for (let columns = most; columns > most / 2; columns--) if (cores % columns === 0) return columns;
  return most;
}

function memorySegments(numa: NumaView, bar: Box, holders: Map<string, Holder>, ghost: Ghost): Segment[] {
  const scale = numa.memory ? bar.w / numa.memory : 0;
  const found: Segment[] = [];
  let x = bar.x;
  for (const held of numa.held.filter((one) => one.size)) {
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

/** Pod -> its letter, of the pods that own something. */
export function held(pods: readonly { pod: string; slot: number | null }[]): Map<string, Holder> {
  return new Map(pods.flatMap(({ pod, slot }) => (slot === null ? [] : [[pod, { slot, pod }]])));
}
