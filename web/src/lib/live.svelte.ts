// The cluster as the server last told it, kept up by one stream of changes.

import { ApiError, get, hasToken, headers, search } from "./api";
import { asQuery, type Shape, written } from "./shape";
import { type Changed, type Numbers, type PackedTile, type Tile, unpackedTile, type Wall } from "./types";
import type { Verdict } from "./verdict";

export type Source = Tile["source"];
/** A node of the wall, its verdict by name. */
export type WallTile = Omit<Tile, "verdict"> & { verdict: Verdict };

const BEATS_MISSED = 25_000;

export const live = $state({
  tiles: new Map<string, WallTile>(),
  /** Grows with every change, so that whoever shows all tiles knows when to look again. */
  version: 0,
  numbers: null as Numbers | null,
  connected: false,
  everConnected: false,
  /** What the server's clock showed, and ours at that moment. */
  serverTime: 0,
  heardAt: 0,
  now: Date.now(),
  /** Whose token is asked for, if one is. */
  needsToken: null as "console" | "kubernetes" | null,
  /** Whether one was given that opens this page. */
  signedIn: false,
  /** Whether the one who is known by the token may not look. */
  forbidden: false,
  error: "",
  /** Whether what is shown is over. */
  past: false,
  /** Names of nodes that changed within the last moment. */
  fresh: new Set<string>(),
  loading: true,
});

let shape: Shape | null = null;
let at = "";
let abort: AbortController | null = null;
let numbersDue = 0;
let faded = 0;
const listeners = new Set<(names: string[]) => void>();

setInterval(() => {
  live.now = Date.now();
  if (!at && live.connected && Date.now() - live.heardAt > BEATS_MISSED) live.connected = false;
}, 1000);

/** The server's clock now, as far as it is known; in the past it stands still. */
export function serverNow(): number {
  if (live.past) return live.serverTime;
  return live.serverTime ? live.serverTime + (live.now - live.heardAt) : live.now;
}

/** How long ago a node was heard of; one whose state is current is as old as what the server said last. */
export function sinceReport(tile: WallTile): number {
  return Math.max(0, serverNow() - (tile.reportedAt || live.serverTime));
}

/** Whether what is shown is only what was known last: the server is not heard of any more. */
export const lost = (): boolean => live.everConnected && !live.connected && !live.past;

/** Whether a node was not heard of for too long, by the server or, while that is silent, by the clock. */
export const isStale = (tile: WallTile): boolean => tile.stale || (lost() && sinceReport(tile) > staleAfter);

/** Be told which nodes changed; returns how to stop. */
export function onChange(listener: (names: string[]) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Watch the cluster with the eyes of a shape, or look at it as it was at a moment. */
export function watch(next: Shape, moment: string): void {
  if (shape && written(shape) === written(next) && at === moment) return;
  shape = next;
  at = moment;
  abort?.abort();
  abort = new AbortController();
  void follow(next, abort.signal);
}

export function restart(): void {
  const again = shape;
  shape = null;
  if (again) watch(again, at);
}

async function follow(of: Shape, signal: AbortSignal): Promise<void> {
  for (let wait = 1000; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    try {
      await load(of, signal);
      // What is over does not change.
      if (at) return;
      wait = 1000;
      await listen(of, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.problem.status === 401) {
        live.needsToken = error.challenge.includes("kubernetes") ? "kubernetes" : "console";
        live.signedIn = false;
        return;
      }
      live.forbidden = error instanceof ApiError && error.problem.status === 403;
      live.error = error instanceof ApiError && !error.offline ? error.message : "";
      if (at && live.error) return;
    }
    if (signal.aborted) return;
    live.connected = false;
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function load(of: Shape, signal: AbortSignal): Promise<void> {
  const [wall, numbers] = await Promise.all([get<Wall>("/api/v1/wall", asQuery(of), signal), get<Numbers>("/api/v1/cluster", asQuery(of), signal)]);
  verdicts = wall.verdicts;
  staleAfter = wall.staleAfterMs;
  live.tiles = new Map(wall.tiles.map((tile) => [tile[0], unpacked(tile)]));
  live.numbers = numbers;
  live.past = at !== "";
  live.version++;
  live.loading = false;
  live.error = "";
  live.needsToken = null;
  live.forbidden = false;
  live.signedIn = hasToken();
  heard(numbers.time);
  for (const listener of listeners) listener([...live.tiles.keys()]);
}

let verdicts: Verdict[] = [];
let staleAfter = Infinity;

function unpacked(packed: PackedTile): WallTile {
  const tile = unpackedTile(packed);
  return { ...tile, verdict: verdicts[tile.verdict] ?? "never" };
}

async function listen(of: Shape, signal: AbortSignal): Promise<void> {
  const answer = await fetch("/api/v1/events" + search(asQuery(of)), { headers: headers({ accept: "text/event-stream" }), signal });
  if (!answer.ok || !answer.body) {
    throw new ApiError({ title: answer.statusText, status: answer.status }, false, answer.headers.get("www-authenticate") ?? "");
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1] ?? "";
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (name === "lost") return;
      if (data) take(name, JSON.parse(data) as Changed, of, signal);
    }
  }
}

function heard(time: number): void {
  live.connected = true;
  live.everConnected = true;
  live.serverTime = time;
  live.heardAt = live.now = Date.now();
}

function take(name: string, data: Changed, of: Shape, signal: AbortSignal): void {
  heard(data.time);
  if (name !== "changed") return;
  for (const tile of data.tiles) live.tiles.set(tile[0], unpacked(tile));
  for (const [node, reportedAt] of Object.entries(data.reports)) {
    const tile = live.tiles.get(node);
    if (tile) live.tiles.set(node, { ...tile, reportedAt });
  }
  for (const gone of data.gone) live.tiles.delete(gone);
  const names = data.tiles.map((tile) => tile[0]);
  live.version++;
  // That nodes are still there changes nothing else.
  if (!names.length && !data.gone.length && !data.events.length) return;
  live.fresh = new Set(names);
  clearTimeout(faded);
  faded = setTimeout(() => (live.fresh = new Set()), 600) as unknown as number;
  for (const listener of listeners) listener(names);
  if (!numbersDue) numbersDue = setTimeout(() => void renew(of, signal), 1000) as unknown as number;
}

async function renew(of: Shape, signal: AbortSignal): Promise<void> {
  numbersDue = 0;
  try {
    live.numbers = await get<Numbers>("/api/v1/cluster", asQuery(of), signal);
  } catch {
    // The stream will tell if the server is gone.
  }
}
