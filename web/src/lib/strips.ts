// The geometry of NUMA strips: a handful of paths for a whole tile, however many NUMA nodes it has.

import type { PackedStrip } from "./types";

export const MOST_STRIPS = 8;

export interface Drawn {
  boxes: string;
  reserved: string;
  exclusive: string;
  shared: string;
  used: string;
  unused: string;
  memory: string;
  memoryBox: string;
  more: number;
  /** Too low for a frame around each strip. */
  thin: boolean;
}

const bar = (x: number, y: number, width: number, height: number): string =>
  width > 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z` : "";

/** Strips in a box of that size; where there are more than fit, those with least free are shown. */
export function drawn(strips: readonly PackedStrip[], width: number, height: number, tallest = 11): Drawn {
  const found: Drawn = { boxes: "", reserved: "", exclusive: "", shared: "", used: "", unused: "", memory: "", memoryBox: "", more: 0, thin: false };
  const shown =
    strips.length > MOST_STRIPS
      ? strips
          .toSorted((one, other) => one[8] - other[8])
          .slice(0, MOST_STRIPS)
          .sort((one, other) => one[0] - other[0])
      : strips;
  found.more = strips.length - shown.length;
  if (!shown.length) return found;
  const gap = shown.length > 4 ? 1 : 2;
  const tall = Math.min(tallest, (height - gap * (shown.length - 1)) / shown.length);
  found.thin = tall < 5;
  const edge = found.thin ? 0 : 0.5;
  const gpus = Math.min(8, Math.max(...shown.map((strip) => strip[6])));
  const dot = Math.min(0.4 * tallest, tall - 0.5);
  const memoryWide = 4 * Math.max(1, tallest / 16);
  const dotsWide = gpus * (dot + 1);
  const wide = width - memoryWide - 3 - (gpus ? dotsWide + 2 : 0);
  let memory = 0;
  shown.forEach((strip, place) => {
    const [, cpus, reserved, exclusive, shared, used, devices, inUse] = strip;
    const y = place * (tall + gap);
    const [room, high] = [wide - 2 * edge, tall - 2 * edge];
    const scale = cpus ? room / cpus : 0;
    const part = (from: number, count: number): string => bar(edge + from * scale, y + edge, count * scale, high);
    found.boxes += bar(edge, y + edge, room, high);
    found.reserved += part(0, reserved);
    found.exclusive += part(reserved, exclusive);
    found.shared += part(reserved + exclusive, shared);
    const r = dot / 2;
    for (let device = 0; device < Math.min(devices, 8); device++) {
      const x = wide + 2 + device * (dot + 1);
      const ring = `M${x.toFixed(1)} ${(y + tall / 2).toFixed(1)}a${r} ${r} 0 1 0 ${dot} 0a${r} ${r} 0 1 0 ${-dot} 0`;
      if (device < inUse) found.used += ring;
      else found.unused += ring;
    }
    memory += used;
  });
  const all = shown.length * (tall + gap) - gap;
  const level = ((all - 2) * memory) / (1000 * shown.length);
  found.memoryBox = bar(width - memoryWide - 0.5, 0.5, memoryWide, all - 1);
  found.memory = bar(width - memoryWide + 0.5, all - 1 - level, memoryWide - 2, level);
  return found;
}
