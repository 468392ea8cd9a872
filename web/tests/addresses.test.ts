import { describe, expect, it } from "vitest";
import { packed, unpacked } from "../src/lib/carried";
import { word } from "../src/lib/command.svelte";
import { podMatches } from "../src/lib/filter";
import { within } from "../src/lib/ranges";
import { type Column, pressed, sorted } from "../src/lib/sort";
import type { PodSummary } from "../src/lib/types";

describe("what an address carries", () => {
  it("comes back as it was, under its name", async () => {
    const hash = await packed("kubelet log=1", new Blob(["TopologyAffinityError ".repeat(1000)]));
    expect(hash).toMatch(/^[\w%-]+=[\w-]+$/);
    const found = await unpacked(hash);
    expect([found?.name, await found?.data.text()]).toEqual(["kubelet log=1", "TopologyAffinityError ".repeat(1000)]);
  });
  it("is nothing where it would be too long", async () => {
    const noise = Uint8Array.from({ length: 100_000 }, (_, place) => (place * place * 2654435761) >>> 13);
    expect(await packed("a", new Blob([noise]))).toBe("");
    expect(await packed("a", new Blob([new Uint8Array(5 << 20)]))).toBe("");
  });
  it.each(["", "a", "a=", "a=!", "a=AAAA", "%E0%A4%A=AAAA"])("is nothing where %j cannot be read", async (hash) => expect(await unpacked(hash)).toBeNull());
  it("does not grow beyond bounds when it is unpacked", async () => {
    const bomb = new Blob([new Uint8Array(32 << 20)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const letters = Buffer.from(await new Response(bomb).arrayBuffer()).toString("base64url");
    expect([letters.length < 60_000, await unpacked(`a=${letters}`)]).toEqual([true, null]);
  });
});

describe("a table", () => {
  const columns: Column<[string, number | null]>[] = [
    { key: "name", label: "", value: ([name]) => name },
    { key: "size", label: "", value: ([, size]) => size },
  ];
  const rows: [string, number | null][] = [
    ["gpu-10", 2],
    ["gpu-2", null],
    ["box", 2],
    ["a", 10],
  ];
  const names = (sort: string): string[] => sorted(rows, columns, sort).map(([name]) => name);
  it("is in its usual order until a head is pressed", () =>
    expect([names(""), names("zzz")]).toEqual([rows.map(([name]) => name), rows.map(([name]) => name)]));
  it("sorts names as people do", () => expect(names("name")).toEqual(["a", "box", "gpu-2", "gpu-10"]));
  it("keeps equals in order, and what is unknown at the end", () =>
    expect([names("size"), names("-size")]).toEqual([
      ["gpu-10", "box", "a", "gpu-2"],
      ["a", "gpu-10", "box", "gpu-2"],
    ]));
  it("goes up, down and back", () => expect([pressed("", "a"), pressed("a", "a"), pressed("-a", "a"), pressed("a", "b")]).toEqual(["a", "-a", "", "b"]));
});

describe("pods", () => {
  const pod = { namespace: "ml", name: "train-0", node: "gpu-1", qos: "Guaranteed" } as PodSummary;
  it.each([
    ["", true],
    ["node:gpu-1", true],
    ["node:GPU-1 train", true],
    ["node:gpu", false],
    ["-node:gpu-1", false],
    ["ml/ guaranteed", true],
    ["-train", false],
  ])("are found by %j: %s", (query, found) => expect(podMatches(pod, query)).toBe(found));
});

describe("a moment", () => {
  const spans = [
    { fromMs: 10, toMs: 20 },
    { fromMs: 40, toMs: 50 },
  ];
  it("is moved to where something is kept", () => expect([5, 15, 24, 36, 60].map((time) => within(spans, time))).toEqual([10, 15, 20, 40, 50]));
});

describe("a word of a command", () => {
  it("is quoted where a shell would take it for more", () => expect([word("ml/a-0"), word("a b"), word("it's")]).toEqual(["ml/a-0", "'a b'", "'it'\\''s'"]));
});
