// The address is the state: what is seen can be sent as a link, and the back button returns to it.

export const route = $state({
  path: location.pathname,
  query: new URLSearchParams(location.search),
  /** The moment that is looked at, empty for now. */
  at: new URLSearchParams(location.search).get("at") ?? "",
  /** What the address carries with it (`carried.ts`), which no server is ever sent. */
  hash: location.hash.slice(1),
});

function read(): void {
  route.path = location.pathname;
  route.query = new URLSearchParams(location.search);
  route.at = route.query.get("at") ?? "";
  route.hash = location.hash.slice(1);
}

addEventListener("popstate", read);

/** Go to another page; who looks at a moment that is over stays there. */
export function go(to: string): void {
  const next = new URL(to, location.href);
  if (route.at && !next.searchParams.has("at")) next.searchParams.set("at", route.at);
  push(next.pathname, next.searchParams);
  scrollTo(0, 0);
}

/** Look at another moment, an empty one for now, on the same page. */
export function travel(at: string): void {
  const query = new URLSearchParams(location.search);
  if (at) query.set("at", at);
  else query.delete("at");
  push(location.pathname, query, location.hash);
}

function push(path: string, query: URLSearchParams, hash = ""): void {
  const to = path + written(query) + hash;
  if (to !== location.pathname + location.search + location.hash) history.pushState(null, "", to);
  read();
}

/** A query as text; colons and commas are allowed there, and easier to read. */
function written(query: URLSearchParams): string {
  const text = query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  return text ? "?" + text : "";
}

/** Change the query in place; an empty value takes the parameter away. */
export function put(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  history.replaceState(null, "", location.pathname + written(query) + location.hash);
  read();
}

/** Let the address carry something with it; an empty text takes it away. */
export function carry(hash: string): void {
  history.replaceState(null, "", location.pathname + location.search + (hash ? "#" + hash : ""));
  read();
}

/** Let links within the page not load it anew. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin) return;
  if (/^\/(api|rest|openapi)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
