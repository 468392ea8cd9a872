// What modules of the page look at when they are loaded, as far as there is no browser.

import { vi } from "vitest";

const memory = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
vi.stubGlobal("location", { pathname: "/overview", search: "", hash: "", origin: "http://127.0.0.1:8080", href: "http://127.0.0.1:8080/overview" });
vi.stubGlobal("navigator", { language: "en-US" });
vi.stubGlobal("localStorage", memory);
vi.stubGlobal("sessionStorage", memory);
vi.stubGlobal("addEventListener", () => {});
