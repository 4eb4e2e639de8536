// Each cycle of a window: who had the issue slot, and what the other hardware threads waited for.

import type { PipelineFacts } from "./document";
import { element } from "./dom";
import { grouped } from "./format";
import type { Store } from "./store";

const WIDE = 9; // pixels of a cycle
const HIGH = 17; // and of a hardware thread
const AXIS = 18;
const MARK = 10; // cycles between two marks of the scale

export function pipeline(store: Store): HTMLElement | null {
  const facts = store.report.pipeline;
  if (!facts || !facts.cycles) return null;
  const rows = facts.harts.map(([hart, runs]) => ({ hart, states: runs.flatMap(([state, cycles]) => Array<number>(cycles).fill(state)) }));
  const slots = Array<number>(facts.cycles).fill(-1); // places in `issued`
  facts.issued.forEach(([cycle], at) => (slots[cycle - facts.first] = at));
  const used = slots.filter((at) => at >= 0).length;
  const counts = facts.states.map((_, state) => rows.reduce((all, row) => all + row.states.filter((one) => one === state).length, 0));
  const words = `the slot was used in ${grouped(used)} of ${grouped(facts.cycles)} cycles (${((used / facts.cycles) * 100).toFixed(0)} %)`;
  const picture = element("canvas", { role: "img", "aria-label": words });
  const detail = element("p", { class: "detail" }, "Point at a cycle: here stands what it was used for.");
  const draw = () => paint(store, facts, rows.map((row) => row.states), slots, picture);
  store.on("theme", draw);
  picture.addEventListener("mousemove", (event) => {
    const at = Math.floor(event.offsetX / WIDE);
    const row = Math.floor((event.offsetY - AXIS) / HIGH);
    if (at < 0 || at >= facts.cycles) return;
    const issue = slots[at] < 0 ? null : facts.issued[slots[at]];
    const slot = issue ? `slot: hart ${issue[1]}, ${issue[2]} ${facts.places[issue[3]]}` : "slot: nobody";
    const doing = rows[row] ? ` · hart ${rows[row].hart}: ${facts.states[rows[row].states[at]][2]}` : "";
    detail.textContent = `cycle ${grouped(facts.first + at)} · ${slot}${doing}`;
  });
  const labels = element("div", { class: "harts", "aria-hidden": "true" },
    ...rows.map(({ hart }) => element("span", {}, `hart ${hart}`)), element("span", {}, "slot"));
  draw();
  return element("section", { id: "pipeline" },
    element("h2", {}, `Each cycle of core ${facts.core}, from ${grouped(facts.first)} to ${grouped(facts.first + facts.cycles)}`),
    element("p", { class: "dim" }, `${words}.`),
    element("ul", { class: "legend" }, ...facts.states.map(([letter, kind, said], state) =>
      counts[state] > 0 && element("li", {}, element("span", letter === " " ? { class: "key", "data-power": "" } : { class: "key", "data-kind": kind }, letter.trim()), ` ${said}: ${grouped(counts[state])}`))),
    element("div", { class: "window" }, labels, element("div", { class: "scrolls" }, picture)), detail);
}

function paint(store: Store, facts: PipelineFacts, rows: number[][], slots: number[], canvas: HTMLCanvasElement): void {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = facts.cycles * WIDE;
  const height = AXIS + (rows.length + 1) * HIGH;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const css = getComputedStyle(document.documentElement);
  const look = (name: string) => css.getPropertyValue(name).trim();
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  context.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
  for (let at = 0; at < facts.cycles; at += MARK) {
    context.fillStyle = look("--line");
    context.fillRect(at * WIDE, AXIS - 5, 1, 5);
    context.fillStyle = look("--dim");
    if (at % (MARK * 2) === 0) context.fillText(grouped(facts.first + at), at * WIDE + 3, AXIS / 2 - 1);
  }
  context.textAlign = "center";
  rows.forEach((states, row) => {
    const top = AXIS + row * HIGH;
    states.forEach((state, at) => {
      const [letter, kind] = facts.states[state];
      const [ground, ink] = letter === " " ? [look("--track"), ""] : [store.colour(kind), store.ink(kind)];
      context.fillStyle = ground;
      context.fillRect(at * WIDE, top + 1, WIDE - (states[at + 1] === state ? 0 : 0.5), HIGH - 2);
      if (!ink) return;
      context.fillStyle = ink;
      context.fillText(letter, (at + 0.5) * WIDE, top + HIGH / 2 + 0.5);
    });
  });
  const top = AXIS + rows.length * HIGH;
  context.fillStyle = look("--ink");
  slots.forEach((issue, at) => {
    context.fillText(issue < 0 ? "\u00b7" : String(facts.issued[issue][1] % 10), (at + 0.5) * WIDE, top + HIGH / 2 + 0.5);
  });
}
