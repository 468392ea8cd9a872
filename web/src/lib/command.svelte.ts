// The question on the screen as a line for the terminal; each page writes its own.

import { asOf } from "./api";

export const command = $state({ line: "" });

/** A call of the API as a line that can be pasted anywhere. */
export function curl(path: string, body?: unknown): string {
  const url = `'${location.origin}${asOf(path, body === undefined ? "GET" : "POST")}'`;
  if (body === undefined) return `curl -s ${url}`;
  const text = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -s -H 'content-type: application/json' -d '${text}' ${url}`;
}
