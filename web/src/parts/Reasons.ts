import { amount, short } from "../lib/units";
import type { Reason } from "../lib/types";
import { t } from "../text/index.svelte";

/** A resource as people call it. */
export function named(resource: string): string {
  return resource === "memory" ? t("memory") : resource === "cpu" ? t("cpu") : short(resource);
}

/** One reason in the language of the page. */
export function reason(found: Reason): string {
  const name = named(found.resource ?? "");
  // The resource is named already: only bytes need their unit.
  const lacking = found.resource === "memory" ? amount("memory", found.amount ?? 0) : String(found.amount ?? 0);
  switch (found.code) {
    case "only-on":
      return t("onlyOn", { resource: name, numa: (found.numa ?? []).join(",") });
    case "short-on-every":
      return t("shortOnEvery", { resource: name, amount: lacking });
    case "short-on-node":
      return t("shortOnNode", { resource: name, amount: lacking });
    case "too-small":
      return t("tooSmall", { resource: name, amount: lacking });
    default:
      return found.text ?? "";
  }
}

export function reasons(found: readonly Reason[]): string {
  return found.map(reason).join(t("clauses"));
}
