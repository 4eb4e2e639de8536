// Runs beside the page, so that it can draw meanwhile: unpacks slices in the order in which they are asked for.

import { inflate } from "./packing";
import { type Off, type Rows, decode } from "./rows";

export interface Order {
  number: number;
  packed: Uint8Array<ArrayBuffer>;
  begin: number;
  states: Off;
}

/** `why`: of an order that could not be carried out. */
export interface Answer {
  number: number;
  rows: Rows | null;
  why: string;
}

let last: Promise<void> = Promise.resolve();

function answer({ number, rows, why }: Answer): void {
  const columns = rows ? [rows.start, rows.end, rows.state, rows.cpu, rows.waker, rows.lane] : [];
  const lists = rows ? [...rows.byProcessor.values()] : [];
  postMessage({ number, rows, why }, { transfer: [...columns, ...lists].map((array) => array.buffer) });
}

addEventListener("message", ({ data }: MessageEvent<Order>) => {
  last = last.then(async () => {
    try {
      const rows = decode(await inflate(data.packed), data.begin, data.states);
      answer({ number: data.number, rows, why: "" });
    } catch (error) {
      answer({ number: data.number, rows: null, why: String(error) });
    }
  });
});
