// Tasks: what the threads worked on, and where the time of each went. They add up to the threads that had one.

import { asNumber } from "./document";
import { bar } from "./bars";
import { element, named } from "./dom";
import { exact, grouped, withUnit } from "./format";
import { MARKS } from "./quality";
import type { Store } from "./store";

const AT_ONCE = 25;
const STATES = 3;

export function tasksTable(store: Store): HTMLElement | null {
  const { tasks, time_unit: unit, states, kinds } = store.report;
  if (!tasks) return null;
  const kind = (name: string) => kinds.findIndex((one) => one.name === name);
  const [ready, wait] = [kind("ready"), kind("wait")];
  const body = element("tbody");
  const figure = (value: Parameters<typeof withUnit>[0], mark = "") => {
    const text = withUnit(value, unit);
    const nothing = text === "·" || text === "–";
    return element("td", { class: nothing ? "figure nothing" : "figure", title: exact(value, unit) }, nothing ? text : mark + text);
  };
  let shown = AT_ONCE;
  const more = element("button", { type: "button", class: "more", click: () => { shown = Infinity; fill(); } });
  function fill(): void {
    body.replaceChildren(...tasks!.rows.slice(0, shown).map(([title, changes, rpi, epi, times, cells]) =>
      element("tr", { "data-task": title },
        element("th", { scope: "row" }, named(title)),
        element("td", { class: "wide" }, bar(store, times)),
        element("td", { class: changes ? "figure" : "figure nothing", title: "how often a thread began to work on it" }, changes ? grouped(changes) : "·"),
        figure(rpi),
        figure(epi, MARKS[tasks!.quality]),
        figure(times[ready]),
        figure(times[wait]),
        element("td", { class: "dim" }, ...cells.slice(0, STATES).flatMap(([state, time]) => [
          element("span", { class: "cause", title: exact(time, unit) }, named(states[state]), ` ${withUnit(time, unit)}`)])))));
    const rest = Math.max(tasks!.rows.length - shown, 0);
    more.hidden = !rest;
    more.textContent = `${grouped(rest)} more`;
  }
  fill();
  window.addEventListener("beforeprint", () => { shown = Infinity; fill(); });
  const titles = ["task", "where its time went", "changes", "RPI", "EPI", "ready", "wait", "mostly"];
  const { rest } = tasks;
  return element("section", { id: "tasks" }, element("h2", {}, "Tasks"),
    element("p", { class: "dim" }, "What the threads worked on. The tasks of a thread, and its time between them, add up to its time in every state."),
    element("div", { class: "scrolls" }, element("table", { class: "list" },
      element("thead", {}, element("tr", {}, ...titles.map((title, at) => element("th", { scope: "col", class: at === 1 ? "wide" : at > 1 && at < titles.length - 1 ? "figure" : "" }, title)))),
      body)),
    more,
    asNumber(rest.time) > 0 && element("p", { class: "dim" }, `${grouped(rest.tasks)} tasks with less time, ${withUnit(rest.time, unit)} together, are not listed.`));
}
