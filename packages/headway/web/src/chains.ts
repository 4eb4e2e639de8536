// Wait chains: who waited for whom, and what that one waited for in turn.

import { asNumber } from "./document";
import { element, named } from "./dom";
import { exact, grouped, withUnit } from "./format";
import type { Store } from "./store";

const AT_ONCE = 25;

export function waitChains(store: Store): HTMLElement | null {
  const { chains, time_unit: unit, kinds } = store.report;
  if (!chains) return null;
  const most = asNumber(chains.rows[0]?.[0] ?? 0);
  const wait = kinds.findIndex((kind) => kind.name === "wait");
  const body = element("tbody");
  let shown = AT_ONCE;
  const more = element("button", { type: "button", class: "more", click: () => { shown = Infinity; fill(); } });
  function fill(): void {
    const text = store.filter.trim().toLowerCase();
    const rows = chains!.rows.filter((row) => !text || row[3].toLowerCase().includes(text) || row[2].some((link) => link.join(" ").toLowerCase().includes(text)));
    body.replaceChildren(...rows.slice(0, shown).map(([time, count, links, end]) => {
      const size = element("span", { class: "part", "data-kind": wait });
      size.style.width = `${most ? (asNumber(time) / most) * 100 : 0}%`;
      const path = element("td", { class: "chain" });
      links.forEach(([thread, state], at) => {
        if (at) path.append(element("span", { class: "arrow" }, " ← "));
        path.append(element("span", { class: "link" }, named(thread), " ", element("code", {}, named(state))));
      });
      path.append(element("span", { class: "arrow" }, " ← "), element("span", { class: "link end" }, named(end)));
      return element("tr", {},
        element("td", { class: "figure", title: exact(time, unit) }, withUnit(time, unit)),
        element("td", { class: "small" }, element("div", { class: "bar" }, size)),
        element("td", { class: "figure" }, `× ${grouped(count)}`), path);
    }));
    const rest = Math.max(rows.length - shown, 0);
    more.hidden = !rest;
    more.textContent = `${rest} more`;
  }
  fill();
  store.on("filter", fill);
  window.addEventListener("beforeprint", () => { shown = Infinity; fill(); });
  const { more: beyond } = chains;
  return element("section", { id: "waits" }, element("h2", {}, "Who waited for whom"),
    element("p", { class: "dim" }, "Each line is a kind of wait, from the thread that waited to who ended it; where that one had been waiting too, to what for. The whole wait is charged to its chain."),
    chains.rows.length
      ? element("div", { class: "scrolls" }, element("table", { class: "list" },
          element("thead", {}, element("tr", {}, ...["time", "", "waits", "who ← ended by"].map((title, at) => element("th", { scope: "col", class: at === 0 || at === 2 ? "figure" : "" }, title)))), body))
      : element("p", {}, "Nothing waited."),
    more, beyond.rows > 0 && element("p", { class: "dim" }, `${grouped(beyond.rows)} rarer chains, ${withUnit(beyond.time, unit)} together, are not listed.`));
}
