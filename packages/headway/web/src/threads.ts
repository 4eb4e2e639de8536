// The table of threads: what each had, as figures and as a bar; and every state of one that is opened. Where there are
// more threads than rows, the threads of one name are one row, which opens.

import { type Figure, type Figures, asNumber } from "./document";
import { bar } from "./bars";
import { element, named, put } from "./dom";
import { durations, scaleOf, scaleWords } from "./durations";
import { exact, grouped, share, withUnit } from "./format";
import { MARKS, QUALITY } from "./quality";
import type { Store } from "./store";

const AT_ONCE = 100;

interface Column {
  title: string;
  words: string;
  text: (row: Row) => string;
  title_of?: (row: Row) => string;
  sort: (row: Row) => number | string;
}

/** A thread, or the threads of one name: the figures that it is in, and its place there. */
interface Row {
  of: Figures;
  place: number;
  /** The places of the threads of a name. */
  members: number[] | null;
}

export function threadsTable(store: Store): HTMLElement {
  const { report } = store;
  const { threads, groups } = report;
  const names = report.indices.map((index) => index.name);
  const kind = (name: string) => report.kinds.findIndex((one) => one.name === name);
  const index = (name: string): Column => {
    const at = names.indexOf(name);
    const value = ({ of, place }: Row) => (of[name as keyof Figures] as Figure[])[place];
    const { share: isShare, title, words } = report.indices[at];
    return {
      title,
      words,
      text: (row) => {
        const found = value(row);
        if (found === null) return "–";
        const text = isShare ? (row.of.rpi[row.place] === 0 ? "·" : share(found)) : withUnit(found, report.unit);
        return text === "·" ? text : MARKS[QUALITY[row.of.quality[row.place][at]]] + text;
      },
      title_of: (row) => (isShare ? String(value(row) ?? "not known") : exact(value(row), report.unit)),
      sort: (row) => (value(row) === null ? -1 : asNumber(value(row))),
    };
  };
  const time = (name: string): Column => {
    const at = kind(name);
    return {
      title: name,
      words: report.kinds[at].words,
      text: ({ of, place }) => withUnit(of.times[place][at], report.time_unit),
      title_of: ({ of, place }) => exact(of.times[place][at], report.time_unit),
      sort: ({ of, place }) => asNumber(of.times[place][at]),
    };
  };
  const has = (at: number) => threads.times.some((times) => asNumber(times[at]) > 0);
  const columns: Column[] = [
    { title: "tid", words: "thread id", text: ({ place, members }) => (members ? "" : String(threads.tid[place])), sort: ({ place, members }) => threads.tid[members ? members[0] : place] },
    ...["rpi", "epi", "te", "mpi", "kpi", "iopi"].map(index),
    ...["stall", "stolen", "ready", "wait"].filter((name) => name === "ready" || name === "wait" || has(kind(name))).map(time),
  ];
  let sorted = columns.findIndex((column) => column.title === "RPI");
  let descending = true;
  let shown = AT_ONCE;
  const opened = new Set<number>();
  const unfolded = new Set<number>();
  let byName = threads.tid.length > AT_ONCE && groups.name.length > 0;
  const body = element("tbody");
  const more = element("button", { type: "button", class: "more", click: () => { shown *= 10; fill(); } });
  const count = element("span", { class: "dim" });
  const together = element("button", { type: "button", id: "by-name", click: () => { byName = !byName; fill(); } });

  const single = (place: number): Row => ({ of: threads, place, members: null });

  /** The rows of these threads. Figures of a name are of all its threads, so what is filtered is not grouped. */
  function rowsOf(places: number[]): Row[] {
    if (!byName || places.length < threads.tid.length) return places.map(single);
    const inGroups = new Set(groups.places.flat());
    return [...groups.places.map((members, place) => ({ of: groups, place, members })), ...places.filter((place) => !inGroups.has(place)).map(single)];
  }

  function inOrder(rows: Row[]): Row[] {
    const { sort } = columns[sorted];
    const first = ({ place, members }: Row) => (members ? members[0] : place);
    return rows.sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      return ((x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1)) || first(a) - first(b);
    });
  }

  function fill(): void {
    const places = threads.tid.map((_, place) => place).filter((place) => store.matches(place));
    const rows = inOrder(rowsOf(places));
    body.replaceChildren();
    let left = places.length;
    for (const one of rows.slice(0, shown)) {
      left -= one.members?.length ?? 1;
      put(body, row(one, false), isOpen(one) && details(one));
      if (one.members && isOpen(one)) unfold(one.members);
    }
    more.hidden = rows.length <= shown;
    more.textContent = `${grouped(left)} more threads`;
    together.hidden = groups.name.length === 0 || places.length < threads.tid.length;
    together.textContent = byName ? "each thread by itself" : "threads of one name together";
    count.textContent = places.length === threads.tid.length ? grouped(places.length) : `${grouped(places.length)} of ${grouped(threads.tid.length)}`;
  }

  function unfold(members: number[]): void {
    for (const one of inOrder(members.map(single)).slice(0, AT_ONCE)) put(body, row(one, true), isOpen(one) && details(one));
    const rest = members.length - AT_ONCE;
    if (rest > 0) body.append(element("tr", {}, element("td", { colspan: columns.length + 2, class: "dim inside" }, `${grouped(rest)} more: find them by name or tid`)));
  }

  const isOpen = ({ place, members }: Row) => (members ? unfolded : opened).has(place);

  function row(one: Row, inside: boolean): HTMLElement {
    const { of, place, members } = one;
    const cells = columns.map((column) => {
      const text = column.text(one);
      return element("td", { class: text === "·" || text === "–" ? "figure nothing" : "figure", title: column.title_of?.(one) ?? "" }, text);
    });
    const what: Record<string, string | number> = members ? { class: "group", "data-group": place } : { class: store.lane === place ? "thread chosen" : "thread", "data-thread": place };
    const made = element("tr", { ...what, tabindex: 0, "aria-expanded": String(isOpen(one)) },
      element("th", { scope: "row", class: inside ? "inside" : "" }, named(of.name[place]), members && element("span", { class: "dim" }, ` × ${grouped(members.length)}`)),
      cells[0],
      element("td", { class: "wide" }, bar(store, of.times[place])),
      ...cells.slice(1));
    const toggle = () => {
      const open = members ? unfolded : opened;
      if (!open.delete(place)) open.add(place);
      if (members) { fill(); return; }
      store.lane = place;
      store.tell("lane");
    };
    made.addEventListener("click", toggle);
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); toggle(); }
    });
    return made;
  }

  function details({ of, place, members }: Row): HTMLElement {
    const whole = asNumber(report.window.duration);
    const unit = report.time_unit;
    const list = element("table", { class: "states" });
    const scale = scaleOf(of.durations[place]);
    for (const [state, spent, times, sampled] of of.states[place]) {
      const causes = of.causes[place].filter((cause) => cause[0] === state);
      const lasted = of.durations[place].find((one) => one[0] === state);
      const each = asNumber(spent) && asNumber(times) > 1 ? `${withUnit(Math.round(asNumber(spent) / asNumber(times)), unit)} each` : "";
      list.append(element("tr", {},
        element("td", {}, element("span", { class: "key", "data-kind": report.state_kinds[state] }, report.kinds[report.state_kinds[state]].letter)),
        element("th", { scope: "row" }, named(report.states[state])),
        element("td", {
          class: "figure",
          title: exact(spent, unit) + (sampled ? `, of which samples divided ${exact(sampled, unit)}` : ""),
          "data-value": String(spent),
        }, (sampled ? MARKS.sampled : "") + withUnit(spent, unit)),
        element("td", { class: "figure", title: "of the time measured: 100 % is one processor, or off it one thread, for all of it" }, whole ? `${((asNumber(spent) / whole) * 100).toFixed(1)} %` : ""),
        element("td", { class: "figure", title: times === null ? "" : grouped(times) }, asNumber(times) ? `× ${grouped(times)}` : ""),
        element("td", { class: "figure dim" }, each),
        ...(scale ? durations(lasted, scale, unit) : [])));
      if (causes.length) {
        list.append(element("tr", {}, element("td"), element("td", { colspan: 10, class: "dim" }, ...causes.map(([, behind, name, tid, took]) =>
          element("span", { class: "cause" }, behind === "waker" ? "ended by " : behind === "holder" ? "held by " : "", named(name), tid === null ? "" : ` ${tid}`, ` ${withUnit(took, unit)}`)))));
      }
    }
    const facts = members
      ? `${grouped(members.length)} threads, measured for ${withUnit(of.span[place], unit)} together`
      : `pid ${threads.pid[place]}, measured for ${withUnit(of.span[place], unit)}${threads.end[place] === null ? "" : ", then it ended"}`;
    return element("tr", { class: "details" }, element("td", { colspan: columns.length + 2 },
      element("div", { class: "full" }, named(of.name[place])), element("div", { class: "dim" }, facts),
      scale && element("div", { class: "dim" }, scaleWords(scale, unit)),
      element("div", { class: "scrolls" }, list)));
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
  return element("section", { id: "threads" }, element("h2", {}, "Threads ", count, " ", together),
    element("div", { class: "scrolls" }, element("table", { class: "list" }, element("thead", {}, head), body)), more);
}

export function processorsTable(store: Store): HTMLElement | null {
  const { report } = store;
  if (!report.processors.length) return null;
  const body = element("tbody");
  for (const { cpu, span, times, states } of report.processors) {
    const idle = states.filter(([state]) => report.states[state] === "idle" || report.states[state].startsWith("idle."));
    const stolen = states.filter(([state]) => report.kinds[report.state_kinds[state]].name === "stolen");
    const sum = (some: typeof states) => some.reduce((total, [, time]) => total + asNumber(time), 0);
    const unknown = states.filter(([state]) => report.kinds[report.state_kinds[state]].name === "unknown");
    const busy = asNumber(span) - sum(idle) - sum(stolen) - sum(unknown);
    const most = states.filter((one) => !idle.includes(one)).slice(0, 5);
    body.append(element("tr", {},
      element("th", { scope: "row" }, `cpu ${cpu}`),
      element("td", { class: "wide" }, bar(store, times)),
      element("td", { class: "figure", title: `of ${exact(span, report.time_unit)}` }, asNumber(span) ? `${sum(unknown) ? MARKS.partial : ""}${((busy / asNumber(span)) * 100).toFixed(0)} %` : "–"),
      element("td", { class: "figure" }, withUnit(sum(idle), report.time_unit)),
      element("td", { class: "dim" }, ...most.flatMap(([state, time]) => [element("span", { class: "cause" }, named(report.states[state]), ` ${withUnit(time, report.time_unit)}`)]))));
  }
  return element("section", { id: "processors" }, element("h2", {}, "Processors"),
    element("div", { class: "scrolls" }, element("table", { class: "list" },
      element("thead", {}, element("tr", {},
        ...["processor", "where its time went", "busy", "idle", "mostly"].map((title, at) => element("th", { scope: "col", class: at === 1 ? "wide" : at === 2 || at === 3 ? "figure" : "" }, title)))),
      body)));
}
