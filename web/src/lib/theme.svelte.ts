type Theme = "light" | "dark";
const KEY = "numaware-theme";

const wanted = matchMedia("(prefers-color-scheme: dark)");

function initial(): Theme {
  const asked = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem(KEY);
  return asked === "dark" || asked === "light" ? asked : wanted.matches ? "dark" : "light";
}

export const theme = $state({ name: initial() });

wanted.addEventListener("change", () => {
  if (!localStorage.getItem(KEY)) theme.name = wanted.matches ? "dark" : "light";
});

export function toggleTheme(): void {
  theme.name = theme.name === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, theme.name);
}
