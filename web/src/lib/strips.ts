// The geometry of NUMA strips: a handful of paths for a whole tile, however many NUMA nodes it has.

import type { Strip } from "./types";

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
}

const bar = (x: number, y: number, width: number, height: number): string =>
  width > 0 ? `M${x.toFixed(1)} ${y.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}h${(-width).toFixed(1)}z` : "";

/** Strips in a box of that size; where there are more than fit, those with least free are shown. */
export function drawn(strips: readonly Strip[], width: number, height: number): Drawn {
  const found: Drawn = { boxes: "", reserved: "", exclusive: "", shared: "", used: "", unused: "", memory: "", memoryBox: "", more: 0 };
  const free = (strip: Strip): number => strip[1] - strip[2] - strip[3] - strip[4];
  const shown =
    strips.length > MOST_STRIPS
      ? [...strips].sort((one, other) => free(one) - free(other)).slice(0, MOST_STRIPS).sort((one, other) => one[0] - other[0])
      : strips;
  found.more = strips.length - shown.length;
  if (!shown.length) return found;
  const gap = shown.length > 4 ? 1 : 2;
  const tall = Math.min(11, (height - gap * (shown.length - 1)) / shown.length);
  const gpus = Math.min(8, Math.max(...shown.map((strip) => strip[6])));
  const dot = Math.min(4.4, tall - 0.5);
  const memoryWide = 4;
  const dotsWide = gpus * (dot + 1);
  const wide = width - memoryWide - 3 - (gpus ? dotsWide + 2 : 0);
  let memory = 0;
  shown.forEach((strip, place) => {
    const [, cpus, reserved, exclusive, shared, used, devices, inUse] = strip;
    const y = place * (tall + gap);
    const scale = cpus ? (wide - 1) / cpus : 0;
    found.boxes += bar(0.5, y + 0.5, wide - 1, tall - 1);
    found.reserved += bar(0.5, y + 0.5, reserved * scale, tall - 1);
    found.exclusive += bar(0.5 + reserved * scale, y + 0.5, exclusive * scale, tall - 1);
    found.shared += bar(0.5 + (reserved + exclusive) * scale, y + 0.5, shared * scale, tall - 1);
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
