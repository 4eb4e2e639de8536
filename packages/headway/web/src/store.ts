// What the page is about, and what is chosen in it. Views look here, and are told when it changes.

import { type Flames, type Report, asNumber } from "./document";
import { Levels } from "./levels";
import type { Payload } from "./packing";
import type { Rows } from "./rows";
import { Slices } from "./slices";

/** A stretch of one thread (or of a processor that ran none of them). */
export interface Stretch {
  lane: number;
  state: number;
  start: number;
  end: number;
  cpu: number;
  waker: number;
}

/** What one thread was doing. */
export interface Doing {
  thread: number;
  stretch: Stretch | null;
}

type Event = "instant" | "stretch" | "lane" | "filter" | "theme";

export class Store {
  levels: Levels | null = null;
  slices: Slices | null = null;
  flames: Flames | null = null;
  instant: number | null = null;
  stretch: Stretch | null = null;
  lane: number | null = null;
  filter = "";
  dark = false;
  /** The places of the states that rows refer to, in the report's list. */
  readonly states: number[];
  readonly length: number;
  private readonly kinds: Uint8Array;
  private readonly starts: Float64Array;
  private readonly ends: Float64Array;
  private readonly listeners = new Map<Event, (() => void)[]>();

  constructor(readonly report: Report) {
    const begin = asNumber(report.window.start);
    const { start, end } = report.threads;
    this.states = report.timeline?.states ?? [];
    this.kinds = Uint8Array.from(this.states, (state) => report.state_kinds[state]);
    this.length = asNumber(report.timeline?.length ?? report.window.duration);
    this.starts = Float64Array.from(start, (time) => asNumber(time) - begin);
    this.ends = Float64Array.from(end, (time) => (time === null ? Infinity : asNumber(time) - begin));
  }

  async open(payload: Payload): Promise<void> {
    const { timeline, state_kinds, kinds } = this.report;
    if (timeline) {
      this.levels = new Levels(timeline, await payload.bytes("levels"));
      if (timeline.edges) {
        const names = this.states.map((state) => kinds[state_kinds[state]].name);
        const waits = names.map((kind) => kind === "wait");
        const off = names.map((kind) => kind === "wait" || kind === "ready");
        this.slices = new Slices(payload, timeline.edges, { waits, off });
        await this.slices.open();
      }
    }
    if (payload.has("profile")) this.flames = await payload.json<Flames>("profile");
  }

  on(event: Event, listener: () => void): void {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }

  tell(event: Event): void {
    for (const listener of this.listeners.get(event) ?? []) listener();
  }

  get threads(): number {
    return this.report.threads.tid.length;
  }

  threadName(place: number): string {
    return this.report.threads.name[place] ?? `thread ${place}`;
  }

  /** Name and tid, to tell threads of one name apart. */
  threadLabel(place: number): string {
    return `${this.threadName(place) || "(no name)"} ${this.report.threads.tid[place]}`;
  }

  stateName(state: number): string {
    return this.report.states[this.states[state]];
  }

  kindOf(state: number): number {
    return this.kinds[state];
  }

  /** When a thread's measuring began and when it ended, from the beginning of the window. */
  life(thread: number): [number, number] {
    return [this.starts[thread], Math.min(this.ends[thread], this.length)];
  }

  /** Who ended a wait, in words; "" where that is not known. */
  wakerName(code: number): string {
    if (!code) return "";
    const number = Math.floor((code - 1) / 3);
    const sort = (code - 1) % 3;
    return sort === 0 ? this.threadLabel(number) : sort === 1 ? `tid ${number}` : this.stateName(number);
  }

  /** The thread that ended a wait, if it is one of these. */
  wakerThread(code: number): number | null {
    return code && (code - 1) % 3 === 0 ? Math.floor((code - 1) / 3) : null;
  }

  matches(thread: number): boolean {
    const text = this.filter.trim().toLowerCase();
    if (!text) return true;
    const { tid, pid } = this.report.threads;
    return (
      this.threadName(thread).toLowerCase().includes(text) || String(tid[thread]) === text || String(pid[thread]) === text
    );
  }

  colour(kind: number): string {
    const look = this.report.kinds[kind];
    return (this.dark ? look.dark : look.light)[0];
  }

  ink(kind: number): string {
    const look = this.report.kinds[kind];
    return (this.dark ? look.dark : look.light)[1];
  }

  /** The stretch of a lane that an instant is in, from what is unpacked; of several the one that began last. */
  stretchAt(lane: number, time: number): Stretch | null {
    const slices = this.slices;
    if (!slices) return null;
    const rows = slices.ready(slices.place(time));
    const inside = rows && within(rows, rows.of.get(lane), time);
    const over = within(slices.over, slices.over.of.get(lane), time);
    return inside && over ? (over.start > inside.start ? over : inside) : inside || over || null;
  }

  /** The same of a processor. */
  stretchOn(cpu: number, time: number): Stretch | null {
    const slices = this.slices;
    if (!slices) return null;
    let found: Stretch | null = null;
    for (const rows of [slices.ready(slices.place(time)), slices.over]) {
      const list = rows?.byProcessor.get(cpu);
      if (!rows || !list) continue;
      for (const row of list) {
        if (rows.start[row] <= time && rows.end[row] > time && (!found || rows.start[row] > found.start)) found = stretch(rows, row);
      }
    }
    return found;
  }

  /** What every thread that was alive at an instant was doing then; as `headway at` says it. */
  async at(time: number): Promise<Doing[]> {
    if (this.slices) await this.slices.load(this.slices.place(time));
    const found: Doing[] = [];
    for (let thread = 0; thread < this.threads; thread++) {
      if (this.starts[thread] <= time && this.ends[thread] > time) {
        found.push({ thread, stretch: this.stretchAt(thread, time) });
      }
    }
    return found;
  }
}

export function stretch(rows: Rows, row: number): Stretch {
  return {
    lane: rows.lane[row],
    state: rows.state[row],
    start: rows.start[row],
    end: rows.end[row],
    cpu: rows.cpu[row],
    waker: rows.waker[row],
  };
}

/** The place of the last of some rows that begins at an instant or before it; from - 1: there is none. */
export function lastUntil(rows: Rows, [from, until]: [number, number], time: number): number {
  let low = from;
  let high = until;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows.start[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function within(rows: Rows, segment: [number, number] | undefined, time: number): Stretch | null {
  if (!segment) return null;
  const row = lastUntil(rows, segment, time);
  return row >= segment[0] && rows.end[row] > time ? stretch(rows, row) : null;
}
