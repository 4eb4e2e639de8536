// Figures as the tables of headway write them (src/headway/views/figures.py), and the exact ones beside them.

import type { Figure } from "./document";

export const NOTHING = "·";

const TIMES: [string, number, number][] = [
  ["ns", 1, 1000],
  ["µs", 1e3, 1000],
  ["ms", 1e6, 1000],
  ["s", 1e9, 10_000],
  ["h", 3.6e12, Infinity],
];
const NUMBERS: [string, number, number][] = [
  ["", 1, 1e6],
  ["k", 1e3, 1000],
  ["M", 1e6, 1000],
  ["G", 1e9, 1000],
  ["T", 1e12, Infinity],
];

/** A time or a number in seven columns: the digits that count, and the unit. */
export function withUnit(figure: Figure, unit: string): string {
  if (figure === null) return "–";
  const value = Number(figure);
  if (value === 0) return NOTHING;
  const width = 7;
  const scales = unit === "ns" ? TIMES : NUMBERS;
  for (const [name, scale, largest] of scales) {
    if (value >= largest * scale) continue;
    const tail = unit === "ns" ? ` ${name}` : name;
    for (const digits of scale > 1 ? [3, 2, 1, 0] : [0]) {
      const text = name ? (value / scale).toFixed(digits) : grouped(Math.round(value / scale));
      if (text.length + tail.length <= width && Number(text.replaceAll(",", "")) < largest) return text + tail;
    }
  }
  return value.toExponential(1);
}

export const share = (part: Figure): string => (part === null ? "–" : `${(Number(part) * 100).toFixed(0)} %`);

/** Every digit, for who wants to know: in groups of three. */
export const grouped = (figure: Figure): string =>
  figure === null ? "not known" : String(figure).replace(/\B(?=(\d{3})+(?!\d))/g, ",");

export const exact = (figure: Figure, unit: string): string =>
  figure === null ? "not known" : `${grouped(figure)} ${unit}`.trim();

/** An instant since the beginning, with as many digits as a view that is so wide needs. */
export function instant(time: number, span: number, unit: string): string {
  if (unit !== "ns") return `cycle ${grouped(Math.round(time))}`;
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(span / 1e9)) + 3, 0), 9);
  return `${(time / 1e9).toFixed(digits)} s`;
}

/** For a command line: to the nanosecond, or the cycle. */
export function asArgument(time: number, unit: string): string {
  const whole = Math.floor(time);
  if (unit !== "ns") return String(whole);
  const seconds = Math.floor(whole / 1e9);
  return `${seconds}.${String(whole - seconds * 1e9).padStart(9, "0")}s`;
}
