import { language, t } from "../text/index.svelte";
import { route } from "./route.svelte";
import type { Problem } from "./types";

/** What went wrong; words that the server has none for are left out. */
type Failure = Pick<Problem, "title" | "status"> & Partial<Problem>;

const TOKEN = "numaware-token";

/** An answer that is no answer: what the server said about it. */
export class ApiError extends Error {
  constructor(
    readonly problem: Failure,
    readonly offline = false,
    /** How the server wants to be shown who asks. */
    readonly challenge = "",
  ) {
    super(problem.detail ?? problem.title);
  }
}

/** Kept for this tab only; without one, none is sent any more. */
export function setToken(token = ""): void {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken(): boolean {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** Who asks, and in which language; whoever asks in an effect asks again when the language changes. */
export function headers(more: Record<string, string> = {}): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN);
  const spoken = { ...more, "accept-language": language.name };
  return token ? { ...spoken, authorization: `Bearer ${token}` } : spoken;
}

export async function call<T>(path: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(asOf(path, init.method ?? "GET"), { ...init, headers: headers(init.headers as Record<string, string>) });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError({ title: t("noAnswer"), status: 0 }, true);
  }
  if (!answer.ok) {
    let problem: Failure = { title: answer.statusText, status: answer.status };
    try {
      problem = { ...problem, ...((await answer.json()) as Partial<Problem>) };
    } catch (error) {
      // Nobody waits for it any more; or it is not JSON, and the status alone has to do.
      if (init.signal?.aborted) throw error;
    }
    throw new ApiError(problem, false, answer.headers.get("www-authenticate") ?? "");
  }
  return (await answer.json()) as T;
}

// Questions that can be asked of a moment that is over.
const OF_ANY_MOMENT = /^\/api\/v1\/(cluster|wall|nodes(\/.*)?|pods(\/.*)?|explain|whatif|headroom|events|monitoring|policies)$/;

/** The same question about the moment that is looked at. */
export function asOf(path: string, method: string): string {
  if (!route.at || method === "PUT") return path;
  const url = new URL(path, location.origin);
  if (!OF_ANY_MOMENT.test(url.pathname) || url.searchParams.has("at")) return path;
  url.searchParams.set("at", route.at);
  return (url.pathname + url.search).replaceAll("%3A", ":");
}

export function get<T>(path: string, query: Record<string, string | number | undefined> = {}, signal?: AbortSignal): Promise<T> {
  return call<T>(path + search(query), signal ? { signal } : {});
}

export function send<T>(method: "POST" | "PUT", path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return call<T>(path, { method, body: JSON.stringify(body), headers: { "content-type": "application/json" }, ...(signal ? { signal } : {}) });
}

export function search(query: Record<string, string | number | undefined>): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return pairs.length ? `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString()}` : "";
}
