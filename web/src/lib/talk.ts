// Where the pods of a node are drawn, and the lines between those that talk; see parts/TalkPicture.svelte.

import type { NodeReport } from "./types";

export interface Box {
  key: string;
  /** The NUMA nodes of the pods in it; null for those that float. */
  numa: number[] | null;
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Dot {
  key: string;
  name: string;
  x: number;
  y: number;
  moves: boolean;
}
export interface Line {
  key: string;
  path: string;
  wide: number;
  across: boolean;
}
export interface Picture {
  width: number;
  height: number;
  /** Boxes that stand below each other: with many of them lines lead everywhere. */
  rows: number;
  boxes: Box[];
  pods: Dot[];
  lines: Line[];
}

/** More pods than that are a thicket; the matrix tells more. */
export const MOST_DRAWN = 40;
const LEAST_WIDTH = 210;
const GAP = 28;
const ROW = 22;
const HEAD = 30;
const LETTER = 6.3;
const THICKEST = 8;

/** Boxes beside each other as far as there is room, then below. */
export function laid(report: NodeReport, room: number): Picture {
  const width = Math.max(280, room);
  const groups = new Map<string, number[]>();
  report.pods.forEach((pod, place) => {
    const key = pod.numa.join(",");
    groups.set(key, [...(groups.get(key) ?? []), place]);
  });
  const numas = report.numa.map(String);
  const keys = [
    ...numas.filter((key) => groups.has(key)),
    ...[...groups.keys()].filter((key) => key !== "" && !numas.includes(key)).sort(),
    ...(groups.has("") ? [""] : []),
  ];
  const columns = Math.max(1, Math.min(keys.length, Math.floor((width + GAP) / (LEAST_WIDTH + GAP))));
  const each = (width - GAP * (columns - 1)) / columns;
  const boxes: Box[] = [];
  const pods: Dot[] = [];
  const at: { x: number; y: number; box: number }[] = [];
  let top = 0;
  for (let first = 0; first < keys.length; first += columns) {
    const row = keys.slice(first, first + columns);
    const most = Math.max(...row.map((key) => groups.get(key)?.length ?? 0));
    const height = HEAD + ROW * Math.max(1, most) + 6;
    row.forEach((key, column) => {
      const box = { key, numa: key === "" ? null : key.split(",").map(Number), x: column * (each + GAP), y: top, width: each, height };
      boxes.push(box);
      (groups.get(key) ?? []).forEach((place, index) => {
        const pod = report.pods[place]!;
        const dot = { x: box.x + 26, y: box.y + HEAD + ROW * index + ROW / 2 };
        at[place] = { ...dot, box: boxes.length };
        const name = `${pod.namespace}/${pod.name}`;
        pods.push({ key: name, name: clipped(name, (each - 46) / LETTER), ...dot, moves: pod.answer === "move" });
      });
    });
    top += height + GAP;
  }
  const most = Math.max(1, ...report.edges.map((edge) => edge.rate));
  const lines = report.edges.map((edge): Line => {
    const [one, other] = [at[edge.one]!, at[edge.other]!];
    return { key: `${edge.one} ${edge.other}`, path: path(one, other), wide: 1 + ((THICKEST - 1) * edge.rate) / most, across: edge.across > 0 };
  });
  return { width, height: Math.max(0, top - GAP), rows: Math.ceil(keys.length / columns), boxes, pods, lines };
}

/** Within a box lines go round the names; to another one straight through the gap. */
function path(one: { x: number; y: number; box: number }, other: { x: number; y: number; box: number }): string {
  if (one.x === other.x) {
    const out = one.x - 10 - Math.min(14, Math.abs(one.y - other.y) / 4);
    return `M${one.x} ${one.y}C${out} ${one.y} ${out} ${other.y} ${other.x} ${other.y}`;
  }
  const [left, right] = one.x < other.x ? [one, other] : [other, one];
  const middle = right.x - 40;
  return `M${left.x} ${left.y}C${middle} ${left.y} ${middle} ${right.y} ${right.x} ${right.y}`;
}

const clipped = (text: string, most: number): string => (text.length <= most ? text : text.slice(0, Math.max(1, Math.floor(most) - 1)) + "…");
