import { describe, expect, it } from "vitest";
import { asOf, search } from "../src/lib/api";
import { buckets, moments, spanOf, thousands } from "../src/lib/ranges";
import { route } from "../src/lib/route.svelte";
import { asQuery, DEFAULT, parse, PRESETS, same, written } from "../src/lib/shape";
import { tar } from "../src/lib/tar";
import { amount, amounts, cpuList, gib, letter, listed, podPath } from "../src/lib/units";
import { en } from "../src/text/en";
import { t } from "../src/text/index.svelte";
import { zh } from "../src/text/zh";

describe("units", () => {
  it.each(["", "0", "0-3,8", "1,3,5-7"])("reads and writes %j", (text) => expect(listed(cpuList(text))).toBe(text));
  it("says amounts as people do", () => {
    expect([gib(2 ** 30), gib(1.5 * 2 ** 30), gib(100.4 * 2 ** 30)]).toEqual(["1", "1.5", "100"]);
    expect([amount("cpu", 24), amount("memory", 96 * 2 ** 30), amount("nvidia.com/gpu", 2)]).toEqual(["24 CPU", "96 GiB", "2 GPU"]);
    expect(amounts({ cpu: 1500 }, true)).toBe("1.5 CPU");
    expect(thousands(999) + thousands(1200) + thousands(3e6)).toBe("9991.2 k3 M");
  });
  it("has a letter for every pod", () => expect([0, 7, 8, 17].map(letter)).toEqual(["A", "H", "A2", "B3"]));
  it("escapes names", () => expect(podPath("a b/c?d")).toBe("/pods/a%20b/c%3Fd"));
});

describe("a shape", () => {
  it.each(PRESETS)("$key is read from its own address", ({ shape }) => expect(same(parse(written(shape)), shape)).toBe(true));
  it("is the usual one where nothing can be read", () => expect([parse(null), parse("cpu:x,mem:-1")]).toEqual([DEFAULT, DEFAULT]));
  it("is asked for in Kubernetes' units", () => expect(asQuery(parse("cpu:4,mem:8Gi,gpu:0"))).toEqual({ cpu: "4", memory: "8Gi", gpu: 0 }));
});

describe("addresses", () => {
  it("leave out what is empty", () => expect(search({ a: "1 2", b: "", c: undefined, d: 0 })).toBe("?a=1+2&d=0"));
  it("carry the moment that is looked at, where that can be asked", () => {
    route.at = "2026-09-15T03:12:00Z";
    expect(asOf("/api/v1/wall?cpu=1", "GET")).toBe("/api/v1/wall?cpu=1&at=2026-09-15T03:12:00Z");
    expect([asOf("/api/v1/simulate", "GET"), asOf("/api/v1/policies", "PUT")]).toEqual(["/api/v1/simulate", "/api/v1/policies"]);
    route.at = "";
    expect(asOf("/api/v1/wall", "GET")).toBe("/api/v1/wall");
  });
});

describe("a span of time", () => {
  it("has round moments, and not too many", () => {
    const span = spanOf(1_000_007_000, 60, 30);
    expect([span.step, span.end % span.step, moments(span).length]).toEqual([120, 0, 31]);
  });
});

describe("what was counted", () => {
  const counted = (...refusals: (number | null)[]): ({ refusals: number } | null)[] => refusals.map((n) => (n === null ? null : { refusals: n }));
  it("stands in bars of round times, wherever the series begins", () => {
    const bars = buckets([30, 45, 60, 75, 90, 105], counted(1, 2, 4, 8, 16, 32), 15, 2);
    expect(bars).toEqual({ times: [0, 45, 90], values: [3, 28, 32], step: 45 });
  });
  it("is missing where nobody looked, and nought where nothing happened", () =>
    expect(buckets([15, 30, 45, 60], counted(null, null, null, 0), 15, 2).values).toEqual([null, 0]));
});

describe("an archive", () => {
  it("is one that any tar reads", async () => {
    const data = new Uint8Array(await tar([new File(["hello"], "a.log")]).arrayBuffer());
    const text = (from: number, to: number): string => new TextDecoder().decode(data.slice(from, to));
    expect([data.length % 512, text(0, 5), text(124, 135), text(257, 262), text(512, 517)]).toEqual([0, "a.log", "00000000005", "ustar", "hello"]);
    const sum = data.slice(0, 512).reduce((total, byte, place) => total + (place >= 148 && place < 156 ? 32 : byte), 0);
    expect(Number.parseInt(text(148, 154), 8)).toBe(sum);
  });
});

describe("sentences", () => {
  const slots = (message: string | readonly string[]): string[] =>
    [
      ...new Set(
        [message]
          .flat()
          .join(" ")
          .match(/\{\w+\}/g) ?? [],
      ),
    ].sort();

  it("fill their slots and know one from many", () => {
    expect(t("findings", { n: 1 })).toBe("1 finding");
    expect(t("findings", { n: 2 })).toBe("2 findings");
  });
  it("tell the same in Chinese", () => {
    for (const key of Object.keys(en) as (keyof typeof en)[]) expect([key, slots(zh[key])]).toEqual([key, slots(en[key])]);
  });
});
