import type { Key } from "../text/index.svelte";
import type { NodeAnswer } from "./types";

export type Verdict = NodeAnswer["verdict"];

/** A sentence for each. */
export const SAYS = { aligned: "sayAligned", split: "saySplit", refused: "sayRefused", full: "sayFull", never: "sayNever" } as const satisfies Record<
  Verdict,
  Key
>;
