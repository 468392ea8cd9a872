// Several files as one: the oldest archive there is, which the server can read.

const BLOCK = 512;

export function tar(files: File[]): Blob {
  const parts: BlobPart[] = [];
  for (const file of files) {
    parts.push(header(file.webkitRelativePath || file.name, file.size), file);
    const rest = file.size % BLOCK;
    if (rest) parts.push(new Uint8Array(BLOCK - rest));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts);
}

function header(name: string, size: number): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const write = (text: string, at: number, most: number): void => block.set(new TextEncoder().encode(text).slice(0, most), at);
  write(name, 0, 100);
  write("0000644\0", 100, 8);
  write("0000000\0", 108, 8);
  write("0000000\0", 116, 8);
  write(size.toString(8).padStart(11, "0") + "\0", 124, 12);
  write("00000000000\0", 136, 12);
  write("        ", 148, 8);
  write("0", 156, 1);
  write("ustar\0" + "00", 257, 8);
  write(
    block
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, "0") + "\0 ",
    148,
    8,
  );
  return block;
}
