import { describe, expect, it } from "vitest";
import { grouped, matches, ranked } from "../src/lib/filter";
import type { WallTile } from "../src/lib/live.svelte";
import { drawn, MOST_STRIPS } from "../src/lib/strips";
import { type PackedStrip, type PackedTile, unpackedTile } from "../src/lib/types";

const strip = (id: number, free: number): PackedStrip => [id, 32, 2, 30 - free, 0, 500, 4, 1, free];

function tile(name: string, more: Partial<WallTile> = {}): WallTile {
  const packed: PackedTile = [name, "gpu", "restricted", 0, 0, 0, false, false, [strip(0, 4), strip(1, 8)], [1], "reported", 0, 100];
  return { ...unpackedTile(packed), verdict: "aligned", ...more };
}

describe("the filter", () => {
  const one = tile("gpu-7", { stranded: 2, stale: true });

  it.each(["", "gpu", "GPU-7", "pool:gpu policy:restricted", "numa:2", "verdict:aligned", "stranded stale", "-storm", "-pool:box gpu"])(
    "lets %j through",
    (query) => expect(matches(one, query)).toBe(true),
  );
  it.each(["box", "pool:box", "numa:8", "verdict:refused", "storm", "-gpu", "gpu -stale"])("keeps %j out", (query) => expect(matches(one, query)).toBe(false));
});

describe("the order", () => {
  const tiles = [tile("b-10", { rank: 5 }), tile("b-2", { rank: 5 }), tile("a", { rank: 9, pool: "box" }), tile("c", { rank: 1, verdict: "refused" })];
  const names = (found: WallTile[]): string[] => found.map((one) => one.name);

  it("is the server's, names only part equals", () => expect(names(ranked(tiles, ""))).toEqual(["c", "b-2", "b-10", "a"]));
  it("groups verdicts as their worst tiles stand", () =>
    expect(grouped(tiles, "verdict", "").map((group) => [group.key, names(group.tiles)])).toEqual([
      ["refused", ["c"]],
      ["aligned", ["b-2", "b-10", "a"]],
    ]));
  it("groups pools by name", () => expect(grouped(tiles, "pool", "").map((group) => group.key)).toEqual(["box", "gpu"]));
  it("can be one wall", () => expect(grouped(tiles, "none", "").map((group) => names(group.tiles))).toEqual([["c", "b-2", "b-10", "a"]]));
});

describe("strips", () => {
  it("are one path per kind, whatever their number", () => {
    const found = drawn([strip(0, 4), strip(1, 8)], 100, 30);
    expect(found.boxes.match(/M/g)).toHaveLength(2);
    expect(found.used.match(/M/g)).toHaveLength(2);
    expect(found.unused.match(/M/g)).toHaveLength(6);
    expect(found.more).toBe(0);
  });
  it("leave out those with most free where there are too many", () => {
    const found = drawn(
      Array.from({ length: MOST_STRIPS + 3 }, (_, id) => strip(id, id)),
      100,
      40,
    );
    expect(found.boxes.match(/M/g)).toHaveLength(MOST_STRIPS);
    expect(found.more).toBe(3);
  });
  it("of no NUMA node are nothing", () => expect(drawn([], 100, 40).boxes).toBe(""));
});
