// Every transition, slice by slice of time (src/headway/views/html/slices.py): unpacked when it is looked at.

import type { Payload } from "./packing";
import { type Off, type Rows, decode } from "./rows";
import type { Answer, Order } from "./unpacker";
import unpackerScript from "worker:unpacker.ts";

const KEPT = 48; // slices that stay unpacked

/** The thread that unpacks. */
class Unpacker {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, { done: (rows: Rows) => void; failed: (why: Error) => void }>();
  private asked = 0;

  constructor(private readonly states: Off) {
    const address = URL.createObjectURL(new Blob([unpackerScript], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.addEventListener("message", ({ data: { number, rows, why } }: MessageEvent<Answer>) => {
      if (rows) this.waiting.get(number)?.done(rows);
      else this.waiting.get(number)?.failed(new Error(why));
      this.waiting.delete(number);
    });
    this.worker.addEventListener("error", ({ message }) => {
      for (const { failed } of this.waiting.values()) failed(new Error(message));
      this.waiting.clear();
    });
  }

  unpack(packed: Uint8Array<ArrayBuffer>, begin: number): Promise<Rows> {
    return new Promise((done, failed) => {
      const number = this.asked++;
      this.waiting.set(number, { done, failed });
      const order: Order = { number, packed, begin, states: this.states };
      this.worker.postMessage(order, [packed.buffer]);
    });
  }
}

export class Slices {
  private readonly loaded = new Map<number, Rows>();
  private readonly loading = new Map<number, Promise<Rows>>();
  private readonly unpacker: Unpacker;
  over!: Rows;

  constructor(
    private readonly payload: Payload,
    readonly edges: number[],
    private readonly states: Off,
  ) {
    this.unpacker = new Unpacker(states);
  }

  async open(): Promise<void> {
    this.over = decode(await this.payload.bytes("over_edges"), 0, this.states);
  }

  get count(): number {
    return this.edges.length - 1;
  }

  /** The slice that an instant is in. */
  place(time: number): number {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.edges[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The slice, if it is unpacked. */
  ready(at: number): Rows | undefined {
    const found = this.loaded.get(at);
    if (found) {
      this.loaded.delete(at); // the last one used is the last to go
      this.loaded.set(at, found);
    }
    return found;
  }

  load(at: number): Promise<Rows> {
    const ready = this.ready(at);
    if (ready) return Promise.resolve(ready);
    let coming = this.loading.get(at);
    if (!coming) {
      coming = this.unpacker.unpack(this.payload.slice(at), this.edges[at]).then((rows) => {
        this.loaded.set(at, rows);
        this.loading.delete(at);
        for (const old of this.loaded.keys()) {
          if (this.loaded.size <= KEPT) break;
          this.loaded.delete(old);
        }
        return rows;
      });
      this.loading.set(at, coming);
    }
    return coming;
  }
}

