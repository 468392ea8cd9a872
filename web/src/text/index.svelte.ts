// Sentences with slots, in two languages. Whole sentences are translated, never glued from pieces.

import { en } from "./en";
import { zh } from "./zh";

export type Key = keyof typeof en;
export type Message = string | readonly [string, string];
export type Language = "en" | "zh";

const KEY = "numaware-language";
const TEXTS: Record<Language, Record<Key, Message>> = { en, zh };

function initial(): Language {
  const asked = new URLSearchParams(location.search).get("lang") ?? localStorage.getItem(KEY) ?? navigator.language;
  return asked.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const language = $state({ name: initial() });

export function setLanguage(name: Language): void {
  language.name = name;
  localStorage.setItem(KEY, name);
}

/** The sentence of that name with its slots filled; `n` chooses between one and many. */
export function t(key: Key, slots: Record<string, string | number> = {}): string {
  const message = TEXTS[language.name][key];
  const text = typeof message === "string" ? message : message[slots.n === 1 ? 0 : 1];
  const filled = text.replace(/\{(\w+)\}/g, (_, name: string) => String(slots[name] ?? ""));
  // A slot stands apart from Chinese words when it holds Latin ones or digits, and not when it holds Chinese.
  return language.name === "zh" ? filled.replace(/(?<=\p{Script=Han}) (?=\p{Script=Han})/gu, "") : filled;
}

export function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return t("seconds", { n: seconds });
  if (seconds < 7200) return t("minutes", { n: Math.round(seconds / 60) });
  return t("hours", { n: Math.round(seconds / 3600) });
}

export function isKey(text: string): text is Key {
  return text in en;
}
