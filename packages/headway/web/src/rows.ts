// The rows of a slice of time, from how src/headway/views/html/slices.py packs them.

import { Reader } from "./packing";

/** Rows sorted by lane and time. A lane is a thread's place, or -1 - the place of a processor. */
export interface Rows {
  start: Float64Array;
  end: Float64Array;
  state: Uint32Array;
  cpu: Int16Array;
  waker: Float64Array;
  lane: Int32Array;
  /** Lane -> its first row, and the one after its last. */
  of: Map<number, [number, number]>;
  /** Processor -> its rows, in the order in which they are here. */
  readonly byProcessor: Map<number, Uint32Array>;
}

/** What of the states must be known to read rows: by place, whether they are waits, and whether they are off a processor. */
export interface Off {
  waits: boolean[];
  off: boolean[];
}

export function decode(bytes: Uint8Array, begin: number, { waits, off }: Off): Rows {
  const reader = new Reader(bytes);
  const segments = reader.number();
  const used = reader.number();
  const lanes = new Int32Array(segments);
  for (let i = 0, lane = 0; i < segments; i++) lanes[i] = lane += reader.signed();
  const counts = reader.numbers(new Uint32Array(segments));
  const heads = new Float64Array(segments);
  for (let i = 0; i < segments; i++) heads[i] = begin + reader.signed();
  const states = new Uint32Array(used);
  for (let i = 0, state = 0; i < used; i++) states[i] = state += reader.number();
  const count = counts.reduce((sum, one) => sum + one, 0);
  const local = reader.numbers(new Uint32Array(count));
  const gaps = new Float64Array(Math.max(count - segments, 0));
  for (let i = 0; i < gaps.length; i++) gaps[i] = reader.signed();
  const processors = reader.numbers(new Uint32Array(count));
  const state = new Uint32Array(count);
  const many = new Uint32Array(used);
  const waker = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    many[local[i]]++;
    state[i] = states[local[i]];
    if (waits[state[i]]) waker[i] = reader.number();
  }
  const durations = Array.from(many, (number) => reader.lowAndHigh(number));

  const cursor = new Uint32Array(used);
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  const cpu = new Int16Array(count);
  const lane = new Int32Array(count);
  const of = new Map<number, [number, number]>();
  let at = 0;
  let gap = 0;
  for (let segment = 0; segment < segments; segment++) {
    const first = at;
    const whose = lanes[segment];
    let time = heads[segment];
    let last = -1;
    for (let i = 0; i < counts[segment]; i++, at++) {
      if (i) time += gaps[gap++];
      start[at] = time;
      const kind = local[at];
      time += durations[kind][cursor[kind]++];
      end[at] = time;
      const code = processors[at];
      cpu[at] = code ? code - 2 : whose < 0 ? -1 - whose : off[state[at]] ? -1 : last;
      if (cpu[at] >= 0) last = cpu[at];
      lane[at] = whose;
    }
    of.set(whose, [first, at]);
  }
  return { start, end, state, cpu, waker, lane, of, byProcessor: ofProcessors(cpu) };
}

/** The rows of each processor, in the order in which they are there. */
function ofProcessors(cpu: Int16Array): Map<number, Uint32Array> {
  let most = -1;
  for (let i = 0; i < cpu.length; i++) if (cpu[i] > most) most = cpu[i];
  const many = new Uint32Array(most + 1);
  for (let i = 0; i < cpu.length; i++) if (cpu[i] >= 0) many[cpu[i]]++;
  const lists = Array.from(many, (size) => new Uint32Array(size));
  many.fill(0);
  for (let i = 0; i < cpu.length; i++) if (cpu[i] >= 0) lists[cpu[i]][many[cpu[i]]++] = i;
  return new Map(lists.flatMap((list, number) => (list.length ? [[number, list]] : [])));
}
