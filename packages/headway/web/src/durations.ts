// How long the single occurrences of a state lasted: percentiles, the longest one, and a histogram.

import { type DurationRow, asNumber } from "./document";
import { element } from "./dom";
import { grouped, withUnit } from "./format";

const WIDTH = 6;
const HEIGHT = 18;
const SVG = "http://www.w3.org/2000/svg";

function drawn(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text) made.textContent = text;
  return made;
}

/** The buckets that the histograms of a thread share, so that its states can be compared: the first, and their number. */
export interface Scale {
  first: number;
  buckets: number;
}

const numbersOf = ([, , , , , , , counts]: DurationRow): number[] => counts.map(asNumber);
const isDrawn = (row: DurationRow): boolean => numbersOf(row).reduce((sum, number) => sum + number, 0) > 1;

/** The scale of these states; null: none of them has more than one occurrence. */
export function scaleOf(rows: DurationRow[]): Scale | null {
  const drawn = rows.filter(isDrawn);
  if (!drawn.length) return null;
  const first = Math.min(...drawn.map(([, , , , , , at]) => at));
  return { first, buckets: Math.max(...drawn.map(([, , , , , , at, counts]) => at + counts.length)) - first };
}

/** What a scale is, in words. */
export const scaleWords = ({ first, buckets }: Scale, unit: string): string =>
  `how long each lasted: a bar for each doubling, from ${first ? withUnit(2 ** (first - 1), unit) : "0"} to ${withUnit(2 ** (first + buckets - 1), unit)}`;

/** A bar for each power of two; its height is the number of occurrences, at least a line where there are any. */
function histogram(scale: Scale, first: number, counts: number[], unit: string): SVGElement {
  const most = Math.max(...counts);
  const limit = (bucket: number) => withUnit(2 ** bucket, unit);
  const words = counts.map((count, at) => (count ? `${grouped(count)} up to ${limit(first + at)}` : "")).filter(Boolean).join(", ");
  const width = scale.buckets * WIDTH;
  const picture = drawn("svg", { width, height: HEIGHT, role: "img", "aria-label": words, class: "histogram" });
  picture.append(drawn("line", { x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5, class: "base" }));
  counts.forEach((count, at) => {
    if (!count) return;
    const height = Math.max((count / most) * (HEIGHT - 1), 2);
    const bar = drawn("rect", { x: (first - scale.first + at) * WIDTH, y: HEIGHT - height, width: WIDTH - 1, height, fill: "currentColor" });
    bar.append(drawn("title", {}, `${grouped(count)} lasted up to ${limit(first + at)}`));
    picture.append(bar);
  });
  return picture;
}

/** The cells of a state: its histogram, percentiles and the longest; five empty ones where there is nothing to compare. */
export function durations(row: DurationRow | undefined, scale: Scale, unit: string): Node[] {
  if (!row || !isDrawn(row)) return [element("td", { colspan: 5 })];
  const [, p50, p90, p99, longest, end, first] = row;
  const percentiles = [["p50", p50], ["p90", p90], ["p99", p99]] as const;
  return [
    element("td", { class: "dim lasted" }, histogram(scale, first, numbersOf(row), unit)),
    ...percentiles.map(([name, limit]) => element("td", { class: "figure dim", title: "at most: the limit of the bucket that it is in" }, `${name} ≤ ${withUnit(limit, unit)}`)),
    element("td", { class: "figure dim", title: end === null ? "" : `it ended ${withUnit(end, unit)} after the beginning` }, `max ${withUnit(longest, unit)}`),
  ];
}
