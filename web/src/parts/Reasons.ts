import { amount, short } from "../lib/units";
import type { Reason } from "../lib/types";
import { language, t } from "../text/index.svelte";

/** One reason in the language of the page. */
export function reason(found: Reason): string {
  const resource = found.resource === "memory" ? t("memory") : short(found.resource ?? "");
  const name = resource === "cpu" ? t("cpu") : resource;
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
  return found.map(reason).join(language.name === "zh" ? "，" : ", ");
}
