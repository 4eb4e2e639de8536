// What every thread was doing at the instant that is chosen, and the stretch that is.

import { element, named } from "./dom";
import { asArgument, exact, grouped, withUnit } from "./format";
import type { Doing, Store } from "./store";
import type { Timeline } from "./timeline";

const MOST = 200;

export class InstantPanel {
  readonly root = element("aside", { id: "instant", "aria-label": "At the chosen instant", "aria-live": "polite" });
  private turn = 0;

  constructor(private readonly store: Store, private readonly timeline: Timeline) {
    for (const event of ["instant", "filter", "stretch"] as const) store.on(event, () => void this.fill());
    void this.fill();
  }

  private async fill(): Promise<void> {
    const turn = ++this.turn;
    const { store } = this;
    const { instant, report } = store;
    this.root.classList.toggle("empty", instant === null);
    if (instant === null) {
      this.root.replaceChildren(element("h2", {}, "An instant"),
        element("p", { class: "dim" }, store.slices
          ? "Click on the timeline: here stands what every thread was doing then."
          : "Click on the timeline: here stands what the threads were doing about then."));
      return;
    }
    const unit = report.time_unit;
    const argument = asArgument(instant, unit);
    const made: Node[] = [element("h2", {}, unit === "ns" ? argument : `cycle ${grouped(Math.floor(instant))}`)];
    if (store.slices) {
      const found = await store.at(Math.floor(instant));
      if (turn !== this.turn) return;
      if (store.stretch) made.push(this.chosen());
      made.push(this.counts(found), this.list(found));
      if (report.source === "recording") {
        made.push(element("p", { class: "dim" }, "the same from the recording: ", element("code", {}, `headway at RUN.hw ${argument}`)));
      }
    } else made.push(this.about(instant));
    this.root.replaceChildren(...made);
  }

  private chosen(): HTMLElement {
    const { store, timeline } = this;
    const { time_unit: unit, processors } = store.report;
    const chosen = store.stretch!;
    const waker = store.wakerName(chosen.waker);
    return element("div", { class: "stretch" },
      element("div", {}, this.state(chosen.state), " ", chosen.lane >= 0 ? named(store.threadLabel(chosen.lane)) : ""),
      element("dl", {},
        element("dt", {}, "from"), element("dd", {}, asArgument(chosen.start, unit)),
        element("dt", {}, "for"), element("dd", { title: exact(chosen.end - chosen.start, unit) }, withUnit(chosen.end - chosen.start, unit)),
        chosen.cpu >= 0 && element("dt", {}, "on"), chosen.cpu >= 0 && element("dd", {}, `cpu ${processors[chosen.cpu]?.cpu ?? chosen.cpu}`),
        waker && element("dt", {}, "ended by"), waker && element("dd", {}, named(waker), " ",
          store.wakerThread(chosen.waker) !== null && element("button", { type: "button", title: "Go to who ended it (e)", click: () => void timeline.toWaker() }, "go there"))),
      element("div", { class: "steps" },
        element("button", { type: "button", title: "The stretch before (,)", click: () => void timeline.step(-1) }, "‹ before"),
        element("button", { type: "button", title: "The next stretch (.)", click: () => void timeline.step(1) }, "next ›")));
  }

  private state(state: number): HTMLElement {
    const { store } = this;
    const kind = store.kindOf(state);
    return element("span", { class: "state" }, element("span", { class: "key", "data-kind": kind, title: store.report.kinds[kind].name }, store.report.kinds[kind].letter), " ", named(store.stateName(state)));
  }

  private counts(found: Doing[]): HTMLElement {
    const { kinds } = this.store.report;
    const unknown = kinds.findIndex((kind) => kind.name === "unknown");
    const many = kinds.map(() => 0);
    for (const { stretch } of found) many[stretch ? this.store.kindOf(stretch.state) : unknown]++;
    const text = many.flatMap((count, kind) => (count ? [`${grouped(count)} ${kinds[kind].name}`] : [])).join(", ");
    return element("p", { class: "counts" }, `${grouped(found.length)} threads${text ? `: ${text}` : ""}`);
  }

  private list(found: Doing[]): HTMLElement {
    const { store, timeline } = this;
    const { time_unit: unit, processors } = store.report;
    const rank = ({ stretch }: Doing) => (stretch ? (stretch.cpu >= 0 ? stretch.cpu - 10_000 : store.kindOf(stretch.state)) : 99);
    const listed = found.filter(({ thread }) => store.matches(thread)).sort((a, b) => rank(a) - rank(b) || a.thread - b.thread);
    const now = store.instant ?? 0;
    const table = element("table", { class: "at" });
    for (const { thread, stretch } of listed.slice(0, MOST)) {
      const waker = stretch ? store.wakerName(stretch.waker) : "";
      const go = () => {
        if (stretch) void timeline.goTo(stretch);
        else timeline.reveal(thread);
      };
      table.append(element("tr", { class: thread === store.lane ? "chosen" : "", "data-thread": thread, tabindex: 0, click: go,
        keydown: (event: KeyboardEvent) => { if (event.key === "Enter") go(); } },
        element("td", {}, named(store.threadName(thread)), " ", element("span", { class: "dim" }, String(store.report.threads.tid[thread]))),
        element("td", {}, stretch ? this.state(stretch.state) : element("span", { class: "state dim" }, "not known"),
          waker && element("div", { class: "dim" }, "until ", named(waker))),
        element("td", { class: "figure", title: stretch ? exact(Math.floor(now) - stretch.start, unit) : "" }, stretch ? withUnit(Math.max(Math.floor(now) - stretch.start, 0), unit) : ""),
        element("td", { class: "figure dim" }, stretch && stretch.cpu >= 0 ? `cpu ${processors[stretch.cpu]?.cpu ?? stretch.cpu}` : "")));
    }
    const rest = listed.length - MOST;
    return element("div", { class: "scrolls" }, table, rest > 0 && element("p", { class: "dim" }, `${grouped(rest)} more: filter them by name`));
  }

  /** Where single transitions are not in the page: what threads had in the bucket. */
  private about(instant: number): HTMLElement {
    const { store } = this;
    const { kinds, time_unit: unit } = store.report;
    const levels = store.levels!;
    const from = Math.floor(instant / levels.width) * levels.width;
    const table = element("table", { class: "at" });
    let shown = 0;
    for (let thread = 0; thread < store.threads && shown < MOST; thread++) {
      const shares = new Float32Array(kinds.length);
      levels.shares(thread, from, levels.width, 1, shares, kinds.length);
      const text = kinds.flatMap((kind, at) => (shares[at] > 0.005 ? [`${(shares[at] * 100).toFixed(0)} % ${kind.name}`] : [])).join(", ");
      if (!text || !store.matches(thread)) continue;
      shown++;
      table.append(element("tr", {}, element("td", {}, named(store.threadName(thread)), " ", element("span", { class: "dim" }, String(store.report.threads.tid[thread]))), element("td", {}, text)));
    }
    return element("div", {}, element("p", {}, `in the ${withUnit(levels.width, unit)} around it:`), element("div", { class: "scrolls" }, table));
  }
}
