// The filter of the wall: words joined by blanks, all of which must hold; `-word` must not.

import { type Tile, type Verdict, WORST_FIRST } from "./types";

/** gpu-2 before gpu-10; made once, as making one costs more than a hundred comparisons. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

export function matches(tile: Tile, query: string): boolean {
  return query
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((word) => (word.startsWith("-") && word.length > 1 ? !holds(tile, word.slice(1)) : holds(tile, word)));
}

function holds(tile: Tile, word: string): boolean {
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
  return tile.name.toLowerCase().includes(word) || tile.pool.toLowerCase().includes(word) || tile.policy.includes(word);
}

/** Worst first: storms and refusals, then stranded, then stale, then name. */
export function worse(one: Tile, other: Tile): number {
  return (
    Number(other.storm) - Number(one.storm) ||
    other.refusals - one.refusals ||
    other.stranded - one.stranded ||
    Number(other.stale) - Number(one.stale) ||
    byName(one.name, other.name)
  );
}

export interface Group {
  key: string;
  verdict: Verdict | null;
  tiles: Tile[];
}

export function grouped(tiles: Iterable<Tile>, by: string, query: string): Group[] {
  const groups = new Map<string, Group>();
  for (const tile of tiles) {
    if (!matches(tile, query)) continue;
    const key = by === "pool" ? tile.pool : by === "none" ? "" : tile.verdict;
    let group = groups.get(key);
    if (!group) groups.set(key, (group = { key, verdict: by === "pool" || by === "none" ? null : tile.verdict, tiles: [] }));
    group.tiles.push(tile);
  }
  const rank = (verdict: Verdict): number => WORST_FIRST.indexOf(verdict);
  for (const group of groups.values())
    group.tiles.sort((one, other) => (by === "verdict" ? 0 : rank(one.verdict) - rank(other.verdict)) || worse(one, other));
  return [...groups.values()].sort((one, other) =>
    one.verdict && other.verdict ? rank(one.verdict) - rank(other.verdict) : byName(one.key, other.key),
  );
}
