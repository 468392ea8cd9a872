// The question on the screen as a line for the terminal; each page writes its own.

import { asOf } from "./api";
import { route } from "./route.svelte";

/** `line` is what is shown; `call` the same question to this very console, where the line asks a cluster. */
export const command = $state({ line: "", call: "" });

/** Show a call of this console, and before it the command of numaware that tells the same of a cluster as it is now. */
export function show(call: string, numaware = ""): void {
  const now = numaware !== "" && !route.at;
  command.line = now ? numaware : call;
  command.call = now ? call : "";
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
