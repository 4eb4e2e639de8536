// What each processor's power was used for, over time: stacked shares of running and of each kind of halt, a lane each.

import type { PowerFacts } from "./document";
import { element } from "./dom";
import { grouped, share, withUnit } from "./format";
import type { Store } from "./store";

const HEIGHT = 16;

const sum = (numbers: number[]): number => numbers.reduce((all, one) => all + one, 0);

export function power(store: Store): HTMLElement | null {
  const facts = store.report.power;
  if (!facts || !facts.processors.length) return null;
  const { states, processors } = facts;
  const steps = Math.max(...processors.map(({ cycles }) => cycles.length));
  const head = element("tr", {}, element("th", {}, "cpu"), element("th", { class: "wide" }, "over time"),
    ...states.map(([name, words]) => element("th", { class: "figure", title: words }, name.replace("idle.", ""))),
    element("th", { class: "figure", title: "cycles of its clock for each cycle of the machine's, while it ran" }, "clock"));
  const body = element("tbody");
  for (const one of processors) {
    const totals = one.times.map(sum);
    const all = sum(totals);
    const words = states.map(([name], at) => (totals[at] ? `${name} ${share(totals[at] / all)}` : "")).filter(Boolean).join(", ");
    const picture = element("canvas", { role: "img", class: "power", "aria-label": `cpu ${one.cpu}: ${words}` });
    picture.addEventListener("mousemove", (event) => {
      picture.title = about(facts, one, Math.min(Math.floor((event.offsetX / picture.clientWidth) * steps), one.cycles.length - 1));
    });
    const draw = () => paint(picture, states.map(([name]) => name), one.times, steps, facts.width);
    store.on("theme", draw);
    new ResizeObserver(draw).observe(picture);
    body.append(element("tr", {}, element("th", {}, String(one.cpu)), element("td", { class: "wide" }, picture),
      ...totals.map((time) => element("td", { class: `figure${time ? "" : " nothing"}`, title: grouped(time) }, time ? percent(time / all) : "·")),
      element("td", { class: "figure" }, totals[0] ? percent(sum(one.cycles) / totals[0]) : "–")));
  }
  return element("section", { id: "power" }, element("h2", {}, "Power"),
    element("ul", { class: "legend" }, ...states.map(([name, words]) =>
      element("li", { title: words }, element("span", { class: "key", "data-power": name }), ` ${name.replace("idle.", "")}: ${words}`))),
    element("div", { class: "scrolls" }, element("table", { class: "list" }, element("thead", {}, head), body)));
}

const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;

function about({ width, states }: PowerFacts, { cpu, times, cycles }: PowerFacts["processors"][number], step: number): string {
  const lines = states.flatMap(([name], at) => (times[at]?.[step] ? [`${name} ${withUnit(times[at][step], "cycles")}`] : []));
  const clock = times[0]?.[step] ? [`clock ${percent(cycles[step] / times[0][step])}`] : [];
  return [`cpu ${cpu}, from cycle ${grouped(step * width)}`, ...lines, ...clock].join("\n");
}

/** Each step a column: what it was used for, the first state at the bottom. */
function paint(canvas: HTMLCanvasElement, names: string[], times: number[][], steps: number, whole: number): void {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth;
  if (!width) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(HEIGHT * ratio);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const css = getComputedStyle(canvas);
  const colours = names.map((name) => css.getPropertyValue(`--power-${name.replace(".", "-")}`).trim());
  for (let step = 0; step < steps; step++) {
    const from = Math.round((step / steps) * canvas.width);
    const until = Math.round(((step + 1) / steps) * canvas.width);
    let top = canvas.height;
    times.forEach((row, at) => {
      const high = ((row[step] ?? 0) / whole) * canvas.height;
      if (high <= 0) return;
      context.fillStyle = colours[at];
      context.fillRect(from, top - high, until - from, high);
      top -= high;
    });
  }
}
