// The shape of a pod, and how it is written in an address: shape=cpu:24,mem:96Gi,gpu:2

export interface Shape {
  cpu: number;
  memory: number;
  gpu: number;
}

export const PRESETS: { key: "web" | "database" | "inference" | "training2" | "training4"; shape: Shape }[] = [
  { key: "web", shape: { cpu: 4, memory: 8, gpu: 0 } },
  { key: "database", shape: { cpu: 10, memory: 120, gpu: 0 } },
  { key: "inference", shape: { cpu: 8, memory: 48, gpu: 1 } },
  { key: "training2", shape: { cpu: 24, memory: 96, gpu: 2 } },
  { key: "training4", shape: { cpu: 48, memory: 192, gpu: 4 } },
];
export const DEFAULT = PRESETS[3]!.shape;
export const LIMITS: Shape = { cpu: 128, memory: 512, gpu: 8 };

export function parse(text: string | null): Shape {
  const shape = { ...DEFAULT };
  for (const part of (text ?? "").split(",")) {
    const [key, value = ""] = part.split(":");
    const number = Number.parseFloat(value);
    if (!Number.isFinite(number) || number < 0) continue;
    if (key === "cpu") shape.cpu = number;
    if (key === "mem") shape.memory = number;
    if (key === "gpu") shape.gpu = Math.round(number);
  }
  return shape;
}

export function written(shape: Shape): string {
  return `cpu:${shape.cpu},mem:${shape.memory}Gi,gpu:${shape.gpu}`;
}

export function asQuery(shape: Shape): { cpu: string; memory: string; gpu: number } {
  return { cpu: String(shape.cpu), memory: `${shape.memory}Gi`, gpu: shape.gpu };
}

/** As `numaware whatif` takes it in the place of a file. */
export function asAmounts(shape: Shape): string {
  return `cpu=${shape.cpu},memory=${shape.memory}Gi${shape.gpu ? `,nvidia.com/gpu=${shape.gpu}` : ""}`;
}

export function same(one: Shape, other: Shape): boolean {
  return one.cpu === other.cpu && one.memory === other.memory && one.gpu === other.gpu;
}
