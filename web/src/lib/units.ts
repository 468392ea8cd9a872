const GIB = 2 ** 30;

export function gib(bytes: number): string {
  const amount = bytes / GIB;
  return amount >= 100 || Number.isInteger(amount) ? String(Math.round(amount)) : amount.toFixed(1).replace(/\.0$/, "");
}

/** Bytes a second, as the server's sentences have them. */
export function rate(bytes: number): string {
  const unit = bytes < 1 ? 0 : Math.min(4, Math.floor(Math.log2(bytes) / 10));
  const amount = bytes / 2 ** (10 * unit);
  return `${amount < 1000 ? Math.round(10 * amount) / 10 : Math.round(amount)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}/s`;
}

export function cpus(milli: number): string {
  return String(Math.round(milli / 100) / 10);
}

/** An amount of a resource as people say it: `24 CPU`, `96 GiB`, `2 GPU`. */
export function amount(resource: string, value: number): string {
  if (resource === "cpu") return `${value} CPU`;
  if (resource === "memory" || resource.startsWith("hugepages-")) return `${gib(value)} GiB`;
  return `${value} ${short(resource)}`;
}

/** Amounts as the API gives them, in one line; CPUs of containers come in thousandths. */
export function amounts(found: Record<string, number>, thousandths = false): string {
  return Object.entries(found)
    .map(([resource, value]) => amount(resource, thousandths && resource === "cpu" ? value / 1000 : value))
    .join(" · ");
}

/** Where the page of a pod is, by `namespace/name`. */
export function podPath(pod: string): string {
  return "/pods/" + pod.split("/").map(encodeURIComponent).join("/");
}

/** A resource as people call it. */
export function named(resource: string, memory: string): string {
  return resource === "memory" ? memory : resource === "cpu" ? "CPU" : short(resource);
}

export function short(resource: string): string {
  return /gpu/.test(resource) ? "GPU" : resource;
}

/** The CPUs of a kernel list such as `0-3,8`. */
export function cpuList(text: string): number[] {
  const found: number[] = [];
  for (const part of text ? text.split(",") : []) {
    const [from = 0, to = from] = part.split("-").map(Number);
    for (let cpu = from; cpu <= to; cpu++) found.push(cpu);
  }
  return found;
}

/** A, B, … H, A2, B2, …: eight colours, and a number where they come round again. */
export function letter(slot: number): string {
  const round = Math.floor(slot / 8);
  return "ABCDEFGH"[slot % 8]! + (round ? String(round + 1) : "");
}

export function podClass(slot: number): string {
  return `pod-${"abcdefgh"[slot % 8]}`;
}

export function clock(time: number): string {
  return new Date(time).toLocaleTimeString("en-GB");
}

/** A day and a time, as short as it stays clear. */
export function moment(time: number): string {
  const day = new Date(time).toLocaleDateString("sv");
  return `${day === new Date().toLocaleDateString("sv") ? "" : day + " "}${clock(time)}`;
}

/** Numbers in the kernel's form: `0-3,8`. */
export function listed(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < numbers.length; at++) {
    let to = at;
    while (numbers[to + 1] === numbers[to]! + 1) to++;
    parts.push(to > at + 1 ? `${numbers[at]}-${numbers[to]}` : numbers.slice(at, to + 1).join(","));
    at = to;
  }
  return parts.join(",");
}
