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

/** A bar for each power of two; its height is the number of occurrences, at least a line where there are any. */
function histogram(first: number, counts: number[], unit: string): SVGElement {
  const most = Math.max(...counts);
  const limit = (bucket: number) => withUnit(2 ** bucket, unit);
  const words = counts.map((count, at) => (count ? `${grouped(count)} up to ${limit(first + at)}` : "")).filter(Boolean).join(", ");
  const picture = drawn("svg", { width: counts.length * WIDTH, height: HEIGHT, role: "img", "aria-label": words, class: "histogram" });
  counts.forEach((count, at) => {
    const height = count ? Math.max((count / most) * HEIGHT, 1) : 0;
    const bar = drawn("rect", { x: at * WIDTH, y: HEIGHT - height, width: WIDTH - 1, height, fill: "currentColor" });
    bar.append(drawn("title", {}, `${grouped(count)} lasted up to ${limit(first + at)}`));
    picture.append(bar);
  });
  return picture;
}

export function durations([, p50, p90, p99, longest, end, first, counts]: DurationRow, unit: string): Node[] {
  const numbers = counts.map(asNumber);
  if (numbers.reduce((sum, number) => sum + number, 0) < 2) return [];
  const percentiles = [["p50", p50], ["p90", p90], ["p99", p99]] as const;
  return [
    histogram(first, numbers, unit),
    ...percentiles.map(([name, limit]) => element("span", { class: "cause", title: "at most: the limit of the bucket that it is in" }, `${name} ≤ ${withUnit(limit, unit)}`)),
    element("span", { class: "cause", title: end === null ? "" : `it ended ${withUnit(end, unit)} after the beginning` }, `max ${withUnit(longest, unit)}`),
  ];
}
