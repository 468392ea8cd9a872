// The question on the screen as a line for the terminal; each page writes its own.

import { asOf } from "./api";
import { route } from "./route.svelte";

/** What a command of numaware tells: of a cluster what the page tells of its own, the same as the page anywhere, or what comes nearest. */
export type Told = "cluster" | "same" | "nearest";

/** `line` is what is shown; `call` the same question to this very console, where the line is a command of numaware. */
export const command = $state<{ line: string; call: string; told: Told }>({ line: "", call: "", told: "same" });

/** Show a call of this console, and before it the command of numaware that tells as much, of the moment. */
export function show(call: string, numaware = "", told: Told = "cluster"): void {
  const now = numaware !== "" && !route.at;
  command.line = now ? numaware : call;
  command.call = now ? call : "";
  command.told = now ? told : "same";
}

/** A word of a command, quoted where a shell would take it for more. */
export const word = (text: string): string => (/^[\w.,:@/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A call of the API as a line that can be pasted anywhere. */
export function curl(path: string, body?: unknown): string {
  const url = `'${location.origin}${asOf(path, body === undefined ? "GET" : "POST")}'`;
  if (body === undefined) return `curl -s ${url}`;
  const text = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -s -H 'content-type: application/json' -d '${text}' ${url}`;
}
