import { describe, expect, it } from "vitest";
import type { NodeDevice, NumaView, Place } from "../src/lib/types";
import { held, numbered, zone } from "../src/lib/zone";

const numa: NumaView = {
  id: 0,
  cores: [0, 1, 2, 3].map((core) => [[core, core + 4], 0, 0]),
  cpus: "0-7",
  reservedCpus: "0,4",
  freeToPinCpus: "2-3,6-7",
  memory: 64,
  freeToPinMemory: 30,
  memoryReserved: 4,
  managed: true,
  held: [{ pod: "a/b", size: 30, cpus: "1,5", devices: ["g0"] }],
  gpus: 2,
  freeToPinDevices: ["g1"],
  hugepages: {},
  distances: [10],
};
const device = (id: string, pod = ""): NodeDevice => ({ id, resource: "nvidia.com/gpu", numa: [0], healthy: true, pod, left: null });
const devices = numbered(
  [device("g0", "a/b"), device("g1")],
  [
    ["X", "NV4"],
    ["NV4", "X"],
  ],
);
const holders = held([
  { pod: "a/b", slot: 0 },
  { pod: "c/d", slot: null },
]);
const states = (ghost?: Place): Record<string, number[]> => {
  const found: Record<string, number[]> = {};
  for (const { cpu, state } of zone(numa, devices, holders, 400, ghost).cells) (found[state] ??= []).push(cpu);
  return found;
};

describe("a NUMA node", () => {
  it("shows every CPU once, as the server tells it", () => expect(states()).toEqual({ reserved: [0, 4], held: [1, 5], pool: [2, 6, 3, 7] }));
  it("counts what the server counts", () => expect(zone(numa, devices, holders, 400, undefined).counts).toEqual({ reserved: 2, exclusive: 2, free: 4 }));
  it("shows the ghost where the server places it", () => {
    const ghost: Place = { numa: 0, cpus: "2,6", memory: 16, devices: ["g1"], alone: {} };
    expect(states(ghost)).toEqual({ reserved: [0, 4], held: [1, 5], ghost: [2, 6], pool: [3, 7] });
    const drawn = zone(numa, devices, holders, 400, ghost);
    expect(drawn.segments.map((segment) => segment.kind)).toEqual(["held", "ghost", "reserved"]);
    expect(drawn.devices.map((box) => [box.device.id, box.holder?.pod, box.ghost])).toEqual([
      ["g0", "a/b", false],
      ["g1", undefined, true],
    ]);
  });
  it("joins devices by NVLinks", () => expect(zone(numa, devices, holders, 400, undefined).nvlinks.map((bond) => bond.word)).toEqual(["NV4"]));
  it("gives devices room for their words, in rows of equal length", () => {
    const four = numbered(["g0", "g1", "g2", "g3"].map((id) => device(id)));
    for (const [width, per] of [
      [400, 4],
      [330, 2],
      [180, 1],
    ] as const) {
      const boxes = zone(numa, four, holders, width, undefined).devices;
      expect(boxes.filter((box) => box.y === boxes[0]!.y)).toHaveLength(per);
      for (const box of boxes) expect(box.w).toBeGreaterThan(80);
    }
  });
  it("keeps everything inside its width", () => {
    for (const width of [180, 400, 900])
      for (const box of zone(numa, devices, holders, width, undefined).cells) expect(box.x + box.w).toBeLessThanOrEqual(width);
  });
});
