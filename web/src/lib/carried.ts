// What somebody pasted or dropped, packed into the address: who gets the link asks the same, and no server keeps it.

/** Longer addresses are cut by what they are sent with. */
const LONGEST = 60_000;
const MOST_BYTES = 4 << 20;

async function through(data: Blob, stream: CompressionStream | DecompressionStream): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = data.stream().pipeThrough(stream).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > MOST_BYTES) {
      await reader.cancel();
      throw new RangeError("larger than what is ever packed");
    }
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** As the part of an address behind `#`; empty for what is too large for one. */
export async function packed(name: string, data: Blob): Promise<string> {
  if (data.size > MOST_BYTES) return "";
  const small = await through(data, new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(small, (byte) => String.fromCharCode(byte)).join(""));
  const text = `${encodeURIComponent(name)}=${letters.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
  return text.length > LONGEST ? "" : text;
}

/** What an address carries; none where nothing can be read. */
export async function unpacked(hash: string): Promise<{ name: string; data: Blob } | null> {
  const [name = "", letters = ""] = hash.split("=", 2);
  if (!letters || hash.length > LONGEST) return null;
  try {
    const small = Uint8Array.from(atob(letters.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    return { name: decodeURIComponent(name), data: new Blob([await through(new Blob([small]), new DecompressionStream("deflate-raw"))]) };
  } catch {
    return null;
  }
}
