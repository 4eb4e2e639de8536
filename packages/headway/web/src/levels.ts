// What each lane had of each kind, in buckets (src/headway/views/html/levels.py). Sums from each lane's beginning make
// the share of any stretch, however long, a difference of two: so every zoom costs the same.

import { type TimelineFacts, asNumber } from "./document";

const WHOLE = 255;
const KEPT = 512; // lanes whose sums are kept

export class Levels {
  readonly width: number;
  readonly kinds: number[];
  private readonly offset: number[];
  private readonly cells: number;
  private readonly sums = new Map<number, Uint32Array[]>();

  constructor(
    private readonly facts: TimelineFacts,
    private readonly bytes: Uint8Array,
  ) {
    this.width = asNumber(facts.width);
    this.kinds = facts.kinds;
    this.offset = [0];
    facts.first.forEach((first, lane) => this.offset.push(this.offset[lane] + facts.until[lane] - first));
    this.cells = this.offset[facts.first.length];
  }

  /** When a lane's first bucket begins, and its last one ends. */
  life(lane: number): [number, number] {
    return [this.facts.first[lane] * this.width, this.facts.until[lane] * this.width];
  }

  private sumsOf(lane: number): Uint32Array[] {
    let found = this.sums.get(lane);
    if (!found) {
      const from = this.offset[lane];
      const size = this.offset[lane + 1] - from;
      found = this.kinds.map((_, plane) => {
        const sums = new Uint32Array(size + 1);
        const base = plane * this.cells + from;
        for (let i = 0; i < size; i++) sums[i + 1] = sums[i] + this.bytes[base + i];
        return sums;
      });
      this.sums.set(lane, found);
      for (const old of this.sums.keys()) {
        if (this.sums.size <= KEPT) break;
        this.sums.delete(old);
      }
    }
    return found;
  }

  /**
   * Adds to `into` (columns x kinds) the shares of columns that are `step` wide, the first at `start`; `stride` is the
   * number of kinds that there are.
   */
  shares(lane: number, start: number, step: number, columns: number, into: Float32Array, stride: number): void {
    const sums = this.sumsOf(lane);
    const first = this.facts.first[lane];
    const size = this.offset[lane + 1] - this.offset[lane];
    const scale = this.width / (step * WHOLE);
    // Most threads live for a part of the time only.
    const [born, gone] = this.life(lane);
    const from = Math.max(Math.floor((born - start) / step), 0);
    const until = Math.min(Math.ceil((gone - start) / step), columns);
    if (from >= until) return;
    this.kinds.forEach((kind, plane) => {
      const of = sums[plane];
      if (!of[size]) return;
      const at = (time: number) => {
        const place = time / this.width - first;
        if (place <= 0) return 0;
        if (place >= size) return of[size];
        const whole = Math.floor(place);
        return of[whole] + (of[whole + 1] - of[whole]) * (place - whole);
      };
      let before = at(start + from * step);
      for (let column = from; column < until; column++) {
        const after = at(start + (column + 1) * step);
        if (after > before) into[column * stride + kind] += (after - before) * scale;
        before = after;
      }
    });
  }
}
