// The address is the state: what is seen can be sent as a link, and the back button returns to it.

export const route = $state({ path: location.pathname, query: new URLSearchParams(location.search) });

function read(): void {
  route.path = location.pathname;
  route.query = new URLSearchParams(location.search);
}

addEventListener("popstate", read);

export function go(to: string): void {
  if (to !== location.pathname + location.search) history.pushState(null, "", to);
  read();
  scrollTo(0, 0);
}

/** Change the query in place; an empty value takes the parameter away. */
export function put(changes: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  // Colons and commas are allowed in a query, and easier to read.
  const text = query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
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
