// What Python put into the page (src/headway/views/html/document.py). Numbers that a double cannot hold are texts.

export type Figure = number | string | null;

export interface KindLook {
  name: string;
  letter: string;
  words: string;
  light: [string, string];
  dark: [string, string];
  on: boolean;
}

export interface IndexFigure {
  name: string;
  title: string;
  words: string;
  value: Figure;
  share: boolean;
  quality: string;
  means: string;
  reason: string;
}

/** [state, time, occurrences, and where samples divided a part of the time: that part] */
export type StateCell = [number, Figure, Figure, Figure?];
/** [state, how it stands behind it, name, tid, time, occurrences] */
export type CauseRow = [number, string, string, number | null, Figure, number];

/**
 * [state, p50, p90, p99, longest, its end since the window's start, first bucket, occurrences of that and the following buckets].
 * Bucket n has the durations above 2^(n-1) and up to 2^n units of time. Percentiles are limits of buckets.
 */
export type DurationRow = [number, Figure, Figure, Figure, Figure, Figure, number, Figure[]];

/** Rows of figures, as columns. */
export interface Figures {
  name: string[];
  span: Figure[];
  rpi: Figure[];
  epi: Figure[];
  td: Figure[];
  mpi: Figure[];
  kpi: Figure[];
  iopi: Figure[];
  te: Figure[];
  me: Figure[];
  ke: Figure[];
  ioe: Figure[];
  /** A letter an index, in the order of `indices`: e(xact), c(ost not known well), b(ound), s(ampled), p(artial), u(navailable). */
  quality: string[];
  times: Figure[][];
  states: StateCell[][];
  causes: CauseRow[][];
  durations: DurationRow[][];
}

export interface Threads extends Figures {
  tid: number[];
  pid: number[];
  start: Figure[];
  end: Figure[];
}

/** The names that several threads have, with the sums of their figures and the places of the threads. */
export interface Groups extends Figures {
  places: number[][];
}

/** [what threads worked on, how often they began to, RPI, EPI, times by kind, states] */
export type TaskRow = [string, number, Figure, Figure, Figure[], StateCell[]];

/** [time, waits, [[thread, state of its wait], ...], what ended the last] */
export type ChainRow = [Figure, number, [string, string][], string];

export interface TimelineFacts {
  length: Figure;
  states: number[];
  rows: number;
  amounts: number;
  unplaced: number;
  /** The lanes' time was read in steps of `width`: there are no transitions behind it. */
  sampled: boolean;
  width: Figure;
  first: number[];
  until: number[];
  kinds: number[];
  edges: number[] | null;
}

/** What each processor's power was used for, in steps of `width`. */
export interface PowerFacts {
  width: number;
  /** [name, words]; the first is that in which the processor runs. */
  states: [string, string][];
  /** For each state the time in each step (none: it never was in it), and the cycles of the processor's clock in the first. */
  processors: { cpu: number; times: number[][]; cycles: number[] }[];
}

/** Each cycle of a window. States of a hart are runs of [state, cycles]; an instruction is [cycle, hart, address, place]. */
export interface PipelineFacts {
  core: number;
  first: number;
  cycles: number;
  states: [string, number, string][];
  harts: [number, [number, number][]][];
  issued: [number, number, string, number][];
  places: string[];
}

export interface Report {
  schema: string;
  headway: string;
  title: string;
  host: string;
  when: string;
  command: string | null;
  exit_status: number | null;
  source: string;
  unit: string;
  time_unit: string;
  window: { start: Figure; end: Figure; duration: Figure };
  kinds: KindLook[];
  sentences: string[];
  indices: IndexFigure[];
  reasons: [string, string][];
  losses: [string, Figure][];
  /** The number of the recording's files that cannot be read. */
  damaged: number;
  overhead: { time: Figure; events: Figure };
  counted: [string, number][];
  threads: Threads;
  groups: Groups;
  /** What the threads worked on; null: no thread had a task. `rest`: what is in no row. */
  tasks: { quality: string; rows: TaskRow[]; rest: { tasks: number; time: Figure } } | null;
  processors: { cpu: number; span: Figure; times: Figure[]; states: StateCell[] }[];
  advice: { who: string; text: string; command: string | null; undo: string | null }[];
  chains: { rows: ChainRow[]; time: Figure; more: { rows: number; time: Figure } } | null;
  timeline: TimelineFacts | null;
  power: PowerFacts | null;
  pipeline: PipelineFacts | null;
  missing: { timeline: string; chains: string; profile: string };
  remarks: string[];
  states: string[];
  state_kinds: number[];
}

export interface Flames {
  period: number;
  states: string[];
  kinds: number[];
  exact: boolean[];
  /** [name, where it is, kind of frame] */
  frames: [string, string, string][];
  /** Places of frames, the innermost first. */
  stacks: number[][];
  /** [thread, state, stack, ns, occurrences]; -1: not known */
  rows: [number, number, number, number, number][];
  /** Waits by the stacks of those who ended them, likewise; empty: nobody looked at these. */
  wakers: [number, number, number, number, number][];
  left_out: { rows: number; time: number };
  notes: string[];
  losses: [string, number][];
}

export const asNumber = (figure: Figure): number => (figure === null ? 0 : Number(figure));
