// The filter of the wall: words joined by blanks, all of which must hold; `-word` must not.

import type { WallTile } from "./live.svelte";
import type { PodSummary } from "./types";
import type { Verdict } from "./verdict";

/** gpu-2 before gpu-10; made once, as making one costs more than a hundred comparisons. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

const all = (query: string, holds: (word: string) => boolean): boolean =>
  query
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((word) => (word.startsWith("-") && word.length > 1 ? !holds(word.slice(1)) : holds(word)));

export const matches = (tile: WallTile, query: string): boolean => all(query, (word) => holds(tile, word));

/** The same language for pods: words of its name, node and QoS class, or `node:` with the whole name of one. */
export const podMatches = (pod: PodSummary, query: string): boolean =>
  all(query, (word) =>
    word.startsWith("node:") ? pod.node.toLowerCase() === word.slice(5) : `${pod.namespace}/${pod.name} ${pod.node} ${pod.qos}`.toLowerCase().includes(word),
  );

function holds(tile: WallTile, word: string): boolean {
  const [field, value] = word.split(":", 2);
  if (value !== undefined) {
    if (field === "pool") return tile.pool.toLowerCase() === value;
    if (field === "policy") return tile.policy.toLowerCase() === value;
    if (field === "numa") return tile.strips.length === Number(value);
    if (field === "verdict") return tile.verdict === value;
  }
  if (word === "stranded") return tile.stranded > 0;
  if (word === "stale") return tile.stale;
  if (word === "storm") return tile.storm;
  return [tile.name, tile.pool, tile.policy].some((text) => text.toLowerCase().includes(word));
}

/** In the server's order, the worst first. */
export function ranked(tiles: Iterable<WallTile>, query: string): WallTile[] {
  return [...tiles].filter((tile) => matches(tile, query)).sort((one, other) => one.rank - other.rank || byName(one.name, other.name));
}

export interface Group {
  key: string;
  verdict: Verdict | null;
  tiles: WallTile[];
}

export function grouped(tiles: Iterable<WallTile>, by: string, query: string): Group[] {
  const groups = new Map<string, Group>();
  for (const tile of ranked(tiles, query)) {
    const verdict = by === "pool" || by === "none" ? null : tile.verdict;
    const key = verdict ?? (by === "pool" ? tile.pool : "");
    const group = groups.get(key);
    if (group) group.tiles.push(tile);
    else groups.set(key, { key, verdict, tiles: [tile] });
  }
  // Verdicts come as their first tiles do, pools by name.
  return by === "pool" ? [...groups.values()].sort((one, other) => byName(one.key, other.key)) : [...groups.values()];
}
