// Undoes src/headway/views/html/packing.py.

export type Directory = { sections: Record<string, [number, number]>; slices: [number, number][] };

/** The packed sections of the page: each is unpacked when it is asked for. */
export class Payload {
  readonly directory: Directory;
  private readonly data: string;

  constructor() {
    this.directory = JSON.parse(document.getElementById("directory")?.textContent ?? "");
    this.data = document.getElementById("data")?.textContent ?? "";
  }

  has(name: string): boolean {
    return name in this.directory.sections;
  }

  async bytes(name: string): Promise<Uint8Array> {
    return inflate(this.packed(this.directory.sections[name]));
  }

  async json<T>(name: string): Promise<T> {
    return JSON.parse(new TextDecoder().decode(await this.bytes(name))) as T;
  }

  /** A slice, packed as it is. */
  slice(at: number): Uint8Array<ArrayBuffer> {
    return this.packed(this.directory.slices[at]);
  }

  private packed([from, length]: [number, number]): Uint8Array<ArrayBuffer> {
    const text = atob(this.data.slice(from, from + length));
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    return packed;
  }
}

export async function inflate(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads what `varints`, `zigzag` and `low_and_high` wrote. */
export class Reader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  number(): number {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127;
    let scale = 128;
    do {
      byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128);
    return value;
  }

  signed(): number {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  numbers<T extends Float64Array | Uint32Array | Uint16Array>(into: T): T {
    const { bytes } = this;
    let { at } = this;
    for (let i = 0; i < into.length; i++) {
      let byte = bytes[at++];
      let value = byte;
      if (byte >= 128) {
        value &= 127;
        let scale = 128;
        do {
          byte = bytes[at++];
          value += (byte & 127) * scale;
          scale *= 128;
        } while (byte >= 128);
      }
      into[i] = value;
    }
    this.at = at;
    return into;
  }

  lowAndHigh(count: number): Float64Array {
    const low = this.bytes.subarray(this.at, this.at + count);
    this.at += count;
    const found = this.numbers(new Float64Array(count));
    for (let i = 0; i < count; i++) found[i] = found[i] * 256 + low[i];
    return found;
  }
}
