// The table of threads: what each had, as figures and as a bar; and every state of one that is opened.

import { type Figure, type Threads, asNumber } from "./document";
import { bar, ofKinds } from "./bars";
import { element, named } from "./dom";
import { exact, grouped, share, withUnit } from "./format";
import type { Store } from "./store";

const AT_ONCE = 100;
const MARKS: Record<string, string> = { e: "", b: "≤", s: "~", u: "" };

interface Column {
  title: string;
  words: string;
  text: (place: number) => string;
  title_of?: (place: number) => string;
  sort: (place: number) => number | string;
}

export function threadsTable(store: Store): HTMLElement {
  const { report } = store;
  const { threads } = report;
  const names = report.indices.map((index) => index.name);
  const kind = (name: string) => report.kinds.findIndex((one) => one.name === name);
  const index = (name: string): Column => {
    const at = names.indexOf(name);
    const values = threads[name as keyof Threads] as Figure[];
    const { share: isShare, title, words } = report.indices[at];
    return {
      title,
      words,
      text: (place) => {
        const value = values[place];
        if (value === null) return "–";
        const text = isShare ? (threads.rpi[place] === 0 ? "·" : share(value)) : withUnit(value, report.unit);
        return text === "·" ? text : MARKS[threads.quality[place][at]] + text;
      },
      title_of: (place) => (isShare ? String(values[place] ?? "not known") : exact(values[place], report.unit)),
      sort: (place) => (values[place] === null ? -1 : asNumber(values[place])),
    };
  };
  const time = (name: string): Column => {
    const at = kind(name);
    return {
      title: name,
      words: report.kinds[at].words,
      text: (place) => withUnit(threads.times[place][at], report.time_unit),
      title_of: (place) => exact(threads.times[place][at], report.time_unit),
      sort: (place) => asNumber(threads.times[place][at]),
    };
  };
  const has = (at: number) => threads.times.some((times) => asNumber(times[at]) > 0);
  const columns: Column[] = [
    { title: "tid", words: "thread id", text: (place) => String(threads.tid[place]), sort: (place) => threads.tid[place] },
    ...["rpi", "epi", "te", "mpi", "kpi", "iopi"].map(index),
    ...["stall", "stolen", "ready", "wait"].filter((name) => name === "ready" || name === "wait" || has(kind(name))).map(time),
  ];
  let sorted = columns.findIndex((column) => column.title === "RPI");
  let descending = true;
  let shown = AT_ONCE;
  const opened = new Set<number>();
  const body = element("tbody");
  const more = element("button", { type: "button", class: "more", click: () => { shown *= 10; fill(); } });
  const count = element("span", { class: "dim" });

  function fill(): void {
    const places = threads.tid.map((_, place) => place).filter((place) => store.matches(place));
    const { sort } = columns[sorted];
    places.sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      return ((x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1)) || a - b;
    });
    body.replaceChildren();
    for (const place of places.slice(0, shown)) {
      body.append(row(place));
      if (opened.has(place)) body.append(details(place));
    }
    more.hidden = places.length <= shown;
    more.textContent = `${grouped(places.length - shown)} more threads`;
    count.textContent = places.length === threads.tid.length ? grouped(places.length) : `${grouped(places.length)} of ${grouped(threads.tid.length)}`;
  }

  function row(place: number): HTMLElement {
    const cells = columns.map((column) => {
      const text = column.text(place);
      return element("td", { class: text === "·" || text === "–" ? "figure nothing" : "figure", title: column.title_of?.(place) ?? "" }, text);
    });
    const made = element("tr", { class: store.lane === place ? "thread chosen" : "thread", "data-thread": place, tabindex: 0, "aria-expanded": String(opened.has(place)) },
      element("th", { scope: "row" }, named(threads.name[place])),
      cells[0],
      element("td", { class: "wide" }, bar(store, threads.times[place])),
      ...cells.slice(1));
    const toggle = () => {
      if (!opened.delete(place)) opened.add(place);
      store.lane = place;
      store.tell("lane");
    };
    made.addEventListener("click", toggle);
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); toggle(); }
    });
    return made;
  }

  function details(place: number): HTMLElement {
    const span = asNumber(threads.span[place]);
    const unit = report.time_unit;
    const list = element("table", { class: "states" });
    for (const [state, spent, times] of threads.states[place]) {
      const causes = threads.causes[place].filter((cause) => cause[0] === state);
      const each = asNumber(spent) && asNumber(times) > 1 ? `${withUnit(Math.round(asNumber(spent) / asNumber(times)), unit)} each` : "";
      list.append(element("tr", {},
        element("td", {}, element("span", { class: "key", "data-kind": report.state_kinds[state] }, report.kinds[report.state_kinds[state]].letter)),
        element("th", { scope: "row" }, named(report.states[state])),
        element("td", { class: "figure", title: exact(spent, unit), "data-value": String(spent) }, withUnit(spent, unit)),
        element("td", { class: "figure" }, span ? `${((asNumber(spent) / span) * 100).toFixed(1)} %` : ""),
        element("td", { class: "figure", title: times === null ? "" : grouped(times) }, asNumber(times) ? `× ${grouped(times)}` : ""),
        element("td", { class: "figure dim" }, each),
        element("td", { class: "dim" }, ...causes.flatMap(([, behind, name, tid, took]) => [
          element("span", { class: "cause" }, behind === "waker" ? "ended by " : behind === "holder" ? "held by " : "", named(name), tid === null ? "" : ` ${tid}`, ` ${withUnit(took, unit)}`),
        ]))));
    }
    const facts = `pid ${threads.pid[place]}, measured for ${withUnit(threads.span[place], unit)}${threads.end[place] === null ? "" : ", then it ended"}`;
    return element("tr", { class: "details" }, element("td", { colspan: columns.length + 2 },
      element("div", { class: "full" }, named(threads.name[place])), element("div", { class: "dim" }, facts), list));
  }

  const head = element("tr", {}, element("th", { scope: "col" }, "thread"));
  columns.forEach((column, at) => {
    const button = element("button", { type: "button", title: column.words, click: () => {
      descending = sorted === at ? !descending : true;
      sorted = at;
      for (const other of head.querySelectorAll("th")) other.removeAttribute("aria-sort");
      button.parentElement?.setAttribute("aria-sort", descending ? "descending" : "ascending");
      fill();
    } }, column.title);
    head.append(element("th", { scope: "col", class: "figure", ...(at === sorted ? { "aria-sort": "descending" } : {}) }, button));
    if (at === 0) head.append(element("th", { scope: "col", class: "wide" }, "where its time went"));
  });
  fill();
  store.on("filter", fill);
  store.on("lane", fill);
  window.addEventListener("beforeprint", () => { shown = Math.max(shown, 2000); fill(); });
  return element("section", { id: "threads" }, element("h2", {}, "Threads ", count),
    element("div", { class: "scrolls" }, element("table", { class: "list" }, element("thead", {}, head), body)), more);
}

export function processorsTable(store: Store): HTMLElement | null {
  const { report } = store;
  if (!report.processors.length) return null;
  const body = element("tbody");
  for (const { cpu, span, states } of report.processors) {
    const idle = states.filter(([state]) => report.states[state] === "idle" || report.states[state].startsWith("idle."));
    const stolen = states.filter(([state]) => report.kinds[report.state_kinds[state]].name === "stolen");
    const sum = (some: typeof states) => some.reduce((total, [, time]) => total + asNumber(time), 0);
    const busy = asNumber(span) - sum(idle) - sum(stolen);
    const most = states.filter((one) => !idle.includes(one)).slice(0, 5);
    body.append(element("tr", {},
      element("th", { scope: "row" }, `cpu ${cpu}`),
      element("td", { class: "wide" }, bar(store, ofKinds(store, states))),
      element("td", { class: "figure", title: exact(span, report.time_unit) }, asNumber(span) ? `${((busy / asNumber(span)) * 100).toFixed(0)} %` : "–"),
      element("td", { class: "figure" }, withUnit(sum(idle), report.time_unit)),
      element("td", { class: "dim" }, ...most.flatMap(([state, time]) => [element("span", { class: "cause" }, named(report.states[state]), ` ${withUnit(time, report.time_unit)}`)]))));
  }
  return element("section", { id: "processors" }, element("h2", {}, "Processors"),
    element("div", { class: "scrolls" }, element("table", { class: "list" },
      element("thead", {}, element("tr", {},
        ...["processor", "where its time went", "busy", "idle", "mostly"].map((title, at) => element("th", { scope: "col", class: at === 1 ? "wide" : at === 2 || at === 3 ? "figure" : "" }, title)))),
      body)));
}
