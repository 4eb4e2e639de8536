// The timeline: lanes of threads and processors, from all of the time down to single transitions.
//
// Two sources are drawn alike, as shares of kinds in columns of pixels. Where a pixel is wider than a bucket these come
// from the levels; where it is narrower, from the rows of the slices in view, which are unpacked as they come into view.
// Until they are, and where the page has none, the buckets are drawn as wide as they are.

import { element, put } from "./dom";
import { exact, instant as instantText, withUnit } from "./format";
import type { Rows } from "./rows";
import { type Store, type Stretch, lastUntil, stretch as stretchOf } from "./store";

interface Lane {
  sort: "thread" | "processor" | "heading";
  /** The thread's place, or the processor's. */
  place: number;
  label: string;
  detail: string;
}

const LANE = 20;
const BAR = 15;
const HEADING = 22;
const AXIS = 24;
const OVERVIEW = 44;
const SLICES_AT_ONCE = 16;
const LEAST_SPAN = 20; // ns, or cycles
const TEXT_FROM = 34; // pixels that a stretch must have for its name

type Order = "time" | "process" | "name";

export class Timeline {
  readonly root: HTMLElement;
  start = 0;
  end: number;
  /** Milliseconds that the last picture took, and whether it was of single transitions. */
  lastPicture = { taken: 0, fine: false, complete: true };
  private lanes: Lane[] = [];
  private tops: number[] = [];
  private order: Order = "time";
  private readonly overview = element("canvas", { class: "overview", "aria-hidden": "true" });
  private readonly axis = element("canvas", { class: "axis", "aria-hidden": "true" });
  private readonly canvas = element("canvas", {
    class: "lanes",
    tabindex: 0,
    role: "application",
    "aria-label": "Timeline of threads and processors. Arrow keys move and zoom; press the question mark for all keys.",
  });
  private readonly spacer = element("div", { class: "spacer" });
  private readonly scroller = element("div", { class: "scroller" }, this.canvas, this.spacer);
  private readonly tip = element("div", { class: "tip", hidden: true });
  private readonly where = element("output", { class: "where" });
  private readonly found = element("span", { class: "found" });
  private pixels: ImageData | null = null;
  private overviewPicture: HTMLCanvasElement | null = null;
  private scheduled = false;
  private hover: { x: number; y: number } | null = null;
  private range: [number, number] | null = null;
  private pictured: (() => void)[] = [];
  private unpacking = "";

  constructor(private readonly store: Store) {
    this.end = store.length;
    const order = element("select", { title: "Order of the lanes", change: () => this.reorder(order.value as Order) },
      element("option", { value: "time" }, "by processor time"),
      element("option", { value: "process" }, "by process"),
      element("option", { value: "name" }, "by name"));
    const button = (text: string, title: string, does: () => void) =>
      element("button", { type: "button", title, "aria-label": title, click: does }, text);
    const bar = element("div", { class: "toolbar" },
      button("−", "Zoom out (s)", () => this.zoom(2)),
      button("+", "Zoom in (w)", () => this.zoom(0.5)),
      button("all", "Everything (0)", () => this.show(0, store.length)),
      this.where,
      element("label", {}, "lanes ", order),
      this.found);
    this.root = element("div", { class: "timeline" }, bar, this.overview, this.axis, this.scroller, this.tip);
    this.arrange();
    this.listen();
    for (const event of ["instant", "stretch", "lane", "theme"] as const) {
      store.on(event, () => {
        if (event === "theme") this.overviewPicture = null;
        this.draw();
      });
    }
    store.on("filter", () => this.arrange());
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  // ---- what is in view ----

  /** Show a stretch of time; resolves when all of it is drawn as finely as it can be. */
  show(start: number, end: number): Promise<void> {
    const span = Math.min(Math.max(end - start, LEAST_SPAN), this.store.length);
    const middle = (start + end) / 2;
    this.start = Math.min(Math.max(middle - span / 2, 0), this.store.length - span);
    this.end = this.start + span;
    this.draw();
    return new Promise((resolve) => this.pictured.push(resolve));
  }

  zoom(factor: number, around?: number): void {
    const at = around ?? this.store.instant ?? (this.start + this.end) / 2;
    const inside = at >= this.start && at <= this.end ? at : (this.start + this.end) / 2;
    const start = inside - (inside - this.start) * factor;
    void this.show(start, start + (this.end - this.start) * factor);
  }

  pan(part: number): void {
    const by = (this.end - this.start) * part;
    void this.show(this.start + by, this.end + by);
  }

  private reorder(order: Order): void {
    this.order = order;
    this.arrange();
  }

  private arrange(): void {
    const { threads, processors } = this.store.report;
    const rpi = (place: number) => Number(threads.rpi[place] ?? 0);
    const places = threads.tid.map((_, place) => place).filter((place) => this.store.matches(place));
    const by: Record<Order, (a: number, b: number) => number> = {
      time: (a, b) => rpi(b) - rpi(a) || a - b,
      process: (a, b) => threads.pid[a] - threads.pid[b] || threads.tid[a] - threads.tid[b],
      name: (a, b) => threads.name[a].localeCompare(threads.name[b]) || threads.tid[a] - threads.tid[b],
    };
    places.sort(by[this.order]);
    const lanes: Lane[] = [];
    const heading = (label: string, detail: string) => lanes.push({ sort: "heading", place: -1, label, detail });
    if (processors.length && !this.store.filter.trim()) {
      heading("processors", String(processors.length));
      processors.forEach(({ cpu }, place) => lanes.push({ sort: "processor", place, label: `cpu ${cpu}`, detail: "" }));
    }
    const thread = (place: number) =>
      lanes.push({ sort: "thread", place, label: threads.name[place] || "(no name)", detail: String(threads.tid[place]) });
    if (this.order === "process") {
      const mains = new Map(threads.tid.flatMap((tid, place) => (tid === threads.pid[place] ? [[tid, threads.name[place]]] : [])));
      let before = NaN;
      for (const place of places) {
        if (threads.pid[place] !== before) {
          before = threads.pid[place];
          heading(`process ${before}`, mains.get(before) ?? "");
        }
        thread(place);
      }
    } else {
      heading("threads", places.length === threads.tid.length ? String(places.length) : `${places.length} of ${threads.tid.length}`);
      places.forEach(thread);
    }
    this.lanes = lanes;
    this.tops = [0];
    for (const lane of lanes) this.tops.push(this.tops[this.tops.length - 1] + (lane.sort === "heading" ? HEADING : LANE));
    this.draw();
  }

  private get height(): number {
    return this.tops[this.tops.length - 1];
  }

  private get labels(): number {
    return this.root.clientWidth < 700 ? 110 : 210;
  }

  private get room(): number {
    return Math.max(this.root.clientWidth - this.labels - 14, 50);
  }

  private x(time: number): number {
    return this.labels + ((time - this.start) / (this.end - this.start)) * this.room;
  }

  private timeAt(x: number): number {
    return this.start + ((x - this.labels) / this.room) * (this.end - this.start);
  }

  private laneAt(y: number): Lane | undefined {
    const inside = y + this.scroller.scrollTop;
    let at = 0;
    while (at < this.lanes.length && this.tops[at + 1] <= inside) at++;
    return this.lanes[at];
  }

  /** Bring a thread's lane into view, and choose it. */
  reveal(thread: number): void {
    const at = this.lanes.findIndex((lane) => lane.sort === "thread" && lane.place === thread);
    this.store.lane = thread;
    if (at >= 0) {
      const top = this.tops[at];
      const { scrollTop, clientHeight } = this.scroller;
      if (top < scrollTop || top + LANE > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 2;
    }
    this.store.tell("lane");
  }

  /** Choose the lane of a thread above or below the chosen one. */
  neighbour(by: 1 | -1): void {
    const threads = this.lanes.filter((lane) => lane.sort === "thread").map((lane) => lane.place);
    const at = this.store.lane === null ? (by > 0 ? -1 : threads.length) : threads.indexOf(this.store.lane);
    const next = threads[at + by];
    if (next !== undefined) this.reveal(next);
  }

  // ---- drawing ----

  draw(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      const began = performance.now();
      this.paint();
      this.lastPicture.taken = performance.now() - began;
      if (this.lastPicture.complete) for (const done of this.pictured.splice(0)) done();
    });
  }

  /** The slices in view, if single transitions are to be drawn and all are unpacked. */
  private slicesInView(step: number): Rows[] | null {
    const { slices, levels } = this.store;
    this.lastPicture.complete = true;
    const first = slices?.place(this.start) ?? 0;
    const last = slices?.place(this.end) ?? 0;
    if (!slices || !levels || step >= levels.width || last - first >= SLICES_AT_ONCE) {
      this.unpacking = "";
      return null;
    }
    const found: Rows[] = [slices.over];
    const missing: number[] = [];
    for (let at = first; at <= last; at++) {
      const rows = slices.ready(at);
      if (rows) found.push(rows);
      else missing.push(at);
    }
    if (!missing.length) {
      this.unpacking = "";
      return found;
    }
    this.lastPicture.complete = false;
    const wanted = missing.join();
    if (wanted !== this.unpacking) void this.unpack(missing, (this.unpacking = wanted));
    return null;
  }

  /** One slice after the other; no more of them when others are wanted. */
  private async unpack(missing: number[], wanted: string): Promise<void> {
    for (const at of missing) {
      await this.store.slices?.load(at);
      if (this.unpacking !== wanted) return;
    }
    this.unpacking = "";
    this.draw();
  }

  private paint(): void {
    const { store, labels, room } = this;
    if (!store.levels || this.root.clientWidth === 0) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const shown = Math.min(this.height, Math.max(Math.round(window.innerHeight * 0.62), 240));
    this.scroller.style.height = `${shown}px`;
    this.spacer.style.height = `${Math.max(this.height - shown, 0)}px`;
    const context = fitted(this.canvas, this.root.clientWidth - 14, shown, ratio);
    const css = getComputedStyle(this.root);
    const look = (name: string) => css.getPropertyValue(name).trim();
    const ground = look("--ground");
    const track = look("--track");
    const ink = look("--ink");
    const dim = look("--dim");
    const accent = look("--accent");
    const columns = Math.round(room * ratio);
    const step = (this.end - this.start) / columns;
    const rows = this.slicesInView(step);
    this.lastPicture.fine = rows !== null;

    const pixelsHigh = Math.round(shown * ratio);
    if (!this.pixels || this.pixels.width !== columns || this.pixels.height !== pixelsHigh) {
      this.pixels = new ImageData(columns, pixelsHigh);
    }
    const pixels = new Uint32Array(this.pixels.data.buffer);
    pixels.fill(packedColour(ground));
    const colours = Uint32Array.from(store.report.kinds, (_, kind) => packedColour(store.colour(kind)));
    const trackColour = packedColour(track);
    const kinds = store.report.kinds.length;
    const shares = new Float32Array(columns * kinds);
    const texts: { x: number; width: number; y: number; stretch: Stretch; lane: Lane }[] = [];
    const scroll = this.scroller.scrollTop;
    const visible: [Lane, number][] = [];
    this.lanes.forEach((lane, at) => {
      const y = this.tops[at] - scroll;
      if (y + HEADING > 0 && y < shown) visible.push([lane, y]);
    });

    for (const [lane, y] of visible) {
      if (lane.sort === "heading") continue;
      const number = lane.sort === "thread" ? lane.place : store.threads + lane.place;
      const life = lane.sort === "thread" ? store.life(lane.place) : [0, store.length];
      shares.fill(0);
      if (rows) this.gather(rows, lane, y, step, columns, shares, kinds, texts, ratio);
      else store.levels.shares(number, this.start, step, columns, shares, kinds);
      const top = Math.round((y + (LANE - BAR) / 2) * ratio);
      const high = Math.round(BAR * ratio);
      const from = Math.max(Math.floor((life[0] - this.start) / step), 0);
      const until = Math.min(Math.ceil((life[1] - this.start) / step), columns);
      paintLane(pixels, columns, pixelsHigh, top, high, from, until, shares, kinds, colours, trackColour);
    }
    context.fillStyle = ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.putImageData(this.pixels, Math.round(labels * ratio), 0);
    context.scale(ratio, ratio);
    context.textBaseline = "middle";

    for (const { x, width, y, stretch, lane } of texts) {
      const kind = store.kindOf(stretch.state);
      const top = y + (LANE - BAR) / 2;
      context.fillStyle = ground;
      if (width > 4) context.fillRect(x + width - 0.5, top, 0.5, BAR);
      if (width < TEXT_FROM) continue;
      context.font = "11px system-ui, sans-serif";
      context.fillStyle = store.ink(kind);
      context.save();
      context.beginPath();
      context.rect(x, top, width - 2, BAR);
      context.clip();
      const name = store.stateName(stretch.state);
      const who = lane.sort === "processor" && stretch.lane >= 0 ? `${store.threadName(stretch.lane)} · ` : "";
      const long = `${who}${name}  ${withUnit(stretch.end - stretch.start, store.report.time_unit)}`;
      context.fillText(context.measureText(long).width < width - 8 ? long : who + name, x + 4, y + LANE / 2 + 0.5);
      context.restore();
    }

    for (const [lane, y] of visible) {
      const chosen = lane.sort === "thread" && lane.place === store.lane;
      if (chosen) {
        context.fillStyle = accent;
        context.fillRect(0, y + 1, 3, LANE - 2);
        context.strokeStyle = accent;
        context.lineWidth = 1;
        context.strokeRect(labels - 0.5, y + 0.5, room + 1, LANE - 1);
      }
      context.textAlign = "left";
      if (lane.sort === "heading") {
        context.font = "600 11px system-ui, sans-serif";
        context.fillStyle = dim;
        clipped(context, `${lane.label} ${lane.detail}`, 6, y + HEADING / 2 + 2, labels + room - 12);
        continue;
      }
      context.font = `${chosen ? 600 : 400} 12px system-ui, sans-serif`;
      context.fillStyle = ink;
      context.font = "11px ui-monospace, monospace";
      const width = context.measureText(lane.detail).width;
      context.font = `${chosen ? 600 : 400} 12px system-ui, sans-serif`;
      clipped(context, lane.label, 8, y + LANE / 2 + 0.5, labels - width - 26);
      context.font = "11px ui-monospace, monospace";
      context.fillStyle = dim;
      context.textAlign = "right";
      context.fillText(lane.detail, labels - 8, y + LANE / 2 + 0.5);
      context.textAlign = "left";
    }
    this.paintChosen(context, scroll, shown, ink, accent);
    this.paintAxis(ratio, ink, dim, look("--line"), accent);
    this.paintOverview(ratio, ground, accent, ink);
    const span = this.end - this.start;
    const unit = store.report.time_unit;
    const drawn = rows
      ? "every transition"
      : store.slices && !this.lastPicture.complete
        ? "unpacking transitions …"
        : `shares in buckets of ${withUnit(Math.max(Math.round(step * ratio), store.levels.width), unit)}`;
    this.where.textContent =
      `${instantText(this.start, span, unit)} to ${instantText(this.end, span, unit)} · ${withUnit(Math.round(span), unit)} · ${drawn}`;
    this.root.dataset.fine = String(rows !== null);
  }

  /** The rows of a lane that are in view: as shares, and those that are wide enough as they are. */
  private gather(
    parts: Rows[],
    lane: Lane,
    y: number,
    step: number,
    columns: number,
    shares: Float32Array,
    kinds: number,
    texts: { x: number; width: number; y: number; stretch: Stretch; lane: Lane }[],
    ratio: number,
  ): void {
    const { start, end, store } = this;
    const inverse = 1 / step;
    for (const rows of parts) {
      const list = lane.sort === "processor" ? rows.byProcessor.get(lane.place) : undefined;
      const segment: [number, number] | undefined =
        lane.sort === "processor" ? (list ? [0, list.length] : undefined) : rows.of.get(lane.place);
      if (!segment) continue;
      // A thread's rows are in the order of time; those of a processor are in that of its threads.
      let at = list ? 0 : Math.max(lastUntil(rows, segment, start), segment[0]);
      for (; at < segment[1]; at++) {
        const row = list ? list[at] : at;
        if (rows.start[row] >= end) {
          if (list) continue;
          break;
        }
        if (rows.end[row] <= start) continue;
        const kind = store.kindOf(rows.state[row]);
        const from = Math.max(rows.start[row] - start, 0) * inverse;
        const until = Math.min((Math.min(rows.end[row], end) - start) * inverse, columns);
        const first = Math.floor(from);
        const last = Math.min(Math.floor(until), columns - 1);
        if (first === last) shares[first * kinds + kind] += until - from;
        else {
          shares[first * kinds + kind] += first + 1 - from;
          for (let column = first + 1; column < last; column++) shares[column * kinds + kind] += 1;
          shares[last * kinds + kind] += until - last;
        }
        if (until - from > 4 * ratio) {
          texts.push({ x: this.labels + from / ratio, width: (until - from) / ratio, y, stretch: stretchOf(rows, row), lane });
        }
      }
    }
  }

  private paintChosen(
    context: CanvasRenderingContext2D,
    scroll: number,
    shown: number,
    ink: string,
    accent: string,
  ): void {
    const { store, labels, room } = this;
    const inside = (x: number) => x >= labels && x <= labels + room;
    const topOf = (thread: number) => {
      const at = this.lanes.findIndex((lane) => lane.sort === "thread" && lane.place === thread);
      return at < 0 ? null : this.tops[at] - scroll;
    };
    context.save();
    context.beginPath();
    context.rect(labels - 1, 0, room + 2, shown);
    context.clip();
    if (store.instant !== null && inside(this.x(store.instant))) {
      context.strokeStyle = accent;
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(this.x(store.instant), 0);
      context.lineTo(this.x(store.instant), shown);
      context.stroke();
    }
    const chosen = store.stretch;
    const top = chosen && topOf(chosen.lane);
    if (chosen && top !== null) {
      const from = Math.max(this.x(chosen.start), labels);
      const until = Math.min(this.x(chosen.end), labels + room);
      if (until > labels && from < labels + room) {
        context.strokeStyle = ink;
        context.lineWidth = 2;
        context.strokeRect(from, top + 2, Math.max(until - from, 2), LANE - 4);
      }
      const waker = store.wakerThread(chosen.waker);
      const other = waker === null ? null : topOf(waker);
      const x = this.x(chosen.end);
      if (other !== null && inside(x)) {
        // Who ended the wait: from the waker's lane to the one that was woken.
        const [a, b] = [other + LANE / 2, top + LANE / 2];
        const point = b > a ? -1 : 1;
        context.strokeStyle = context.fillStyle = ink;
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(x, a, 3, 0, 7);
        context.fill();
        context.beginPath();
        context.moveTo(x, a);
        context.lineTo(x, b + point * (BAR / 2 + 5));
        context.stroke();
        context.beginPath();
        context.moveTo(x, b + point * (BAR / 2));
        context.lineTo(x - 4, b + point * (BAR / 2 + 7));
        context.lineTo(x + 4, b + point * (BAR / 2 + 7));
        context.fill();
      }
    }
    if (this.hover && this.hover.x >= labels) {
      context.strokeStyle = ink;
      context.globalAlpha = 0.35;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(this.hover.x, 0);
      context.lineTo(this.hover.x, shown);
      context.stroke();
    }
    context.restore();
  }

  private paintAxis(ratio: number, ink: string, dim: string, line: string, accent: string): void {
    const context = fitted(this.axis, this.root.clientWidth - 14, AXIS, ratio);
    context.scale(ratio, ratio);
    const unit = this.store.report.time_unit;
    const span = this.end - this.start;
    const size = niceStep(span / Math.max(this.room / 130, 2));
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.strokeStyle = line;
    context.fillStyle = dim;
    context.textAlign = "left";
    clipped(context, unit === "ns" ? "since the beginning" : "cycle", 8, AXIS / 2, this.labels - 16);
    for (let time = Math.ceil(this.start / size) * size; time <= this.end; time += size) {
      const x = this.x(time);
      context.beginPath();
      context.moveTo(x + 0.5, AXIS - 6);
      context.lineTo(x + 0.5, AXIS);
      context.stroke();
      const text = tick(time, size, unit);
      const width = context.measureText(text).width;
      if (x + width + 4 < this.labels + this.room) context.fillText(text, x + 3, AXIS / 2);
    }
    if (this.range) {
      const [from, until] = this.range.map((time) => this.x(time));
      context.globalAlpha = 0.3;
      context.fillStyle = accent;
      context.fillRect(Math.min(from, until), 0, Math.abs(until - from), AXIS);
      context.globalAlpha = 1;
    }
    if (this.store.instant !== null && this.x(this.store.instant) >= this.labels) {
      context.fillStyle = accent;
      context.beginPath();
      const x = this.x(this.store.instant);
      context.moveTo(x, AXIS);
      context.lineTo(x - 5, AXIS - 8);
      context.lineTo(x + 5, AXIS - 8);
      context.fill();
    }
    context.fillStyle = ink;
  }

  /** All threads together over all of the time, and which part of it is in view. */
  private paintOverview(ratio: number, ground: string, accent: string, ink: string): void {
    const context = fitted(this.overview, this.root.clientWidth - 14, OVERVIEW, ratio);
    const columns = Math.round(this.room * ratio);
    const high = Math.round((OVERVIEW - 6) * ratio);
    const { store } = this;
    if (!this.overviewPicture || this.overviewPicture.width !== columns || this.overviewPicture.height !== high) {
      const kinds = store.report.kinds.length;
      const shares = new Float32Array(columns * kinds);
      const on = store.report.kinds.map((kind) => kind.on);
      for (let thread = 0; thread < store.threads; thread++) {
        store.levels?.shares(thread, 0, store.length / columns, columns, shares, kinds);
      }
      // What was on a processor, and what could have been: with waiting, a thousand idle threads would hide all else.
      const ready = store.report.kinds.findIndex((kind) => kind.name === "ready");
      let most = store.report.processors.length || 1;
      for (let column = 0; column < columns; column++) {
        let sum = 0;
        for (let kind = 0; kind < kinds; kind++) {
          if (on[kind] || kind === ready) sum += shares[column * kinds + kind];
          else shares[column * kinds + kind] = 0;
        }
        most = Math.max(most, sum);
      }
      for (let i = 0; i < shares.length; i++) shares[i] /= most;
      const picture = element("canvas", { width: columns, height: high });
      const image = new ImageData(columns, high);
      const pixels = new Uint32Array(image.data.buffer);
      const track = packedColour(getComputedStyle(this.root).getPropertyValue("--track").trim());
      const colours = Uint32Array.from(store.report.kinds, (_, kind) => packedColour(store.colour(kind)));
      paintLane(pixels, columns, high, 0, high, 0, columns, shares, kinds, colours, track);
      picture.getContext("2d")?.putImageData(image, 0, 0);
      this.overviewPicture = picture;
    }
    context.fillStyle = ground;
    context.fillRect(0, 0, this.overview.width, this.overview.height);
    context.drawImage(this.overviewPicture, Math.round(this.labels * ratio), 0);
    context.scale(ratio, ratio);
    const from = this.labels + (this.start / store.length) * this.room;
    const until = this.labels + (this.end / store.length) * this.room;
    context.fillStyle = ground;
    context.globalAlpha = 0.6;
    context.fillRect(this.labels, 0, from - this.labels, OVERVIEW - 6);
    context.fillRect(until, 0, this.labels + this.room - until, OVERVIEW - 6);
    context.globalAlpha = 1;
    context.strokeStyle = accent;
    context.lineWidth = 1.5;
    context.strokeRect(from, 0.75, Math.max(until - from, 2), OVERVIEW - 7);
    context.fillStyle = ink;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    clipped(context, "on a processor, or ready", 8, (OVERVIEW - 6) / 2, this.labels - 16);
  }

  // ---- what people do ----

  private listen(): void {
    const { canvas, axis, overview, scroller } = this;
    scroller.addEventListener("scroll", () => this.draw());
    for (const target of [canvas, axis, overview]) {
      target.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    }
    canvas.addEventListener("pointerdown", (event) => this.drag(event));
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.tip.hidden = true;
      this.draw();
    });
    canvas.addEventListener("dblclick", (event) => this.closeUp(event));
    axis.addEventListener("pointerdown", (event) => this.select(event, axis, (x) => this.timeAt(x)));
    const whole = (x: number) => ((x - this.labels) / this.room) * this.store.length;
    overview.addEventListener("pointerdown", (event) => this.select(event, overview, whole));
  }

  private wheel(event: WheelEvent): void {
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(Math.min(event.deltaY, 100), -100) * 0.004), this.timeAt(event.offsetX));
    } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      this.pan((sideways / this.room) * 0.8);
    }
  }

  /** Drag moves; what did not move was a click, on an instant and a lane. */
  private drag(event: PointerEvent): void {
    if (event.button !== 0) return;
    const from = { x: event.offsetX, y: event.offsetY, start: this.start, span: this.end - this.start, scroll: this.scroller.scrollTop };
    let moved = false;
    this.canvas.setPointerCapture(event.pointerId);
    const move = (to: PointerEvent) => {
      const by = to.offsetX - from.x;
      if (!moved && Math.abs(by) < 4 && Math.abs(to.offsetY - from.y) < 4) return;
      moved = true;
      this.tip.hidden = true;
      const start = from.start - (by / this.room) * from.span;
      void this.show(start, start + from.span);
    };
    const up = (to: PointerEvent) => {
      this.canvas.removeEventListener("pointermove", move);
      this.canvas.removeEventListener("pointerup", up);
      if (!moved) void this.choose(to.offsetX, to.offsetY);
    };
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("pointerup", up);
  }

  private async choose(x: number, y: number): Promise<void> {
    const { store } = this;
    const lane = this.laneAt(y);
    if (lane?.sort === "thread") store.lane = lane.place;
    if (x >= this.labels) {
      const time = this.timeAt(x);
      if (store.slices) await store.slices.load(store.slices.place(time));
      store.instant = time;
      store.stretch = (this.lastPicture.fine && lane && this.under(lane, time)) || null;
      if (store.stretch && store.stretch.lane >= 0) store.lane = store.stretch.lane;
      store.tell("instant");
    }
    store.tell("lane");
  }

  private under(lane: Lane, time: number): Stretch | null {
    if (lane.sort === "heading") return null;
    return lane.sort === "thread" ? this.store.stretchAt(lane.place, time) : this.store.stretchOn(lane.place, time);
  }

  /** A double click shows the stretch that it is on from end to end, or a quarter of what was in view. */
  private closeUp(event: MouseEvent): void {
    const time = this.timeAt(event.offsetX);
    const lane = this.laneAt(event.offsetY);
    const found = this.lastPicture.fine && lane ? this.under(lane, time) : null;
    if (found && found.end - found.start < this.end - this.start) {
      const around = (found.end - found.start) * 0.25;
      void this.show(found.start - around, found.end + around);
    } else this.zoom(0.25, time);
  }

  /** Dragging over the axis, or the overview, chooses what is to be in view. */
  private select(event: PointerEvent, on: HTMLElement, timeAt: (x: number) => number): void {
    const clamp = (time: number) => Math.min(Math.max(time, 0), this.store.length);
    const from = clamp(timeAt(event.offsetX));
    const began = event.offsetX;
    on.setPointerCapture(event.pointerId);
    const move = (to: PointerEvent) => {
      this.range = [from, clamp(timeAt(to.offsetX))];
      this.draw();
    };
    const up = (to: PointerEvent) => {
      on.removeEventListener("pointermove", move);
      on.removeEventListener("pointerup", up);
      this.range = null;
      const until = clamp(timeAt(to.offsetX));
      const span = this.end - this.start;
      if (Math.abs(to.offsetX - began) > 4) void this.show(Math.min(from, until), Math.max(from, until));
      else if (on === this.overview) void this.show(from - span / 2, from + span / 2);
      else this.draw();
    };
    on.addEventListener("pointermove", move);
    on.addEventListener("pointerup", up);
  }

  private point(event: PointerEvent): void {
    this.hover = { x: event.offsetX, y: event.offsetY };
    const lane = this.laneAt(event.offsetY);
    const time = this.timeAt(event.offsetX);
    this.tip.replaceChildren();
    if (lane && lane.sort !== "heading" && event.offsetX >= this.labels && event.buttons === 0) this.describe(lane, time);
    else if (lane && lane.sort !== "heading" && event.offsetX < this.labels) {
      put(this.tip, element("bdi", {}, lane.label), ` ${lane.detail}`);
    }
    this.tip.hidden = !this.tip.hasChildNodes();
    if (!this.tip.hidden) {
      const top = this.scroller.offsetTop + event.offsetY + 18;
      const width = this.root.clientWidth;
      const flip = event.offsetX > width - 330;
      this.tip.style.left = flip ? "auto" : `${event.offsetX + 14}px`;
      this.tip.style.right = flip ? `${width - event.offsetX + 10}px` : "auto";
      this.tip.style.top = `${top}px`;
    }
    this.draw();
  }

  private describe(lane: Lane, time: number): void {
    const { store } = this;
    const { kinds, time_unit: unit } = store.report;
    const found = this.lastPicture.fine ? this.under(lane, time) : null;
    if (found) {
      const kind = store.kindOf(found.state);
      const who = found.lane >= 0 ? store.threadLabel(found.lane) : lane.label;
      put(this.tip,
        element("b", {}, element("bdi", {}, store.stateName(found.state))), ` ${kinds[kind].name}`,
        element("div", {}, element("bdi", {}, who)),
        element("div", {}, `for ${withUnit(found.end - found.start, unit)} (${exact(found.end - found.start, unit)})`));
      if (found.cpu >= 0) put(this.tip, element("div", {}, `on cpu ${store.report.processors[found.cpu]?.cpu ?? found.cpu}`));
      const waker = store.wakerName(found.waker);
      if (waker) put(this.tip, element("div", {}, "ended by ", element("bdi", {}, waker)));
      return;
    }
    if (this.lastPicture.fine) {
      put(this.tip, element("b", {}, "nothing is known"), element("div", {}, "of what was then"));
      return;
    }
    const columns = Math.round(this.room);
    const step = (this.end - this.start) / columns;
    const shares = new Float32Array(kinds.length);
    const width = Math.max(step, store.levels?.width ?? step);
    const from = Math.floor(time / width) * width;
    store.levels?.shares(lane.sort === "thread" ? lane.place : store.threads + lane.place, from, width, 1, shares, kinds.length);
    put(this.tip, element("b", {}, element("bdi", {}, lane.label)), ` ${lane.detail}`,
      element("div", {}, `of ${withUnit(Math.round(width), unit)} from ${instantText(from, this.end - this.start, unit)}`));
    kinds.forEach((kind, at) => {
      if (shares[at] > 0.002) put(this.tip, element("div", {}, `${(shares[at] * 100).toFixed(0)} % ${kind.name}`));
    });
  }

  // ---- from stretch to stretch ----

  /** The next stretch of the chosen lane, or the one before. */
  async step(by: 1 | -1): Promise<void> {
    const { store } = this;
    const { slices } = store;
    if (!slices || store.lane === null) return;
    const from = store.stretch?.lane === store.lane ? store.stretch : null;
    const time = from ? (by > 0 ? from.end : from.start - 0.5) : (store.instant ?? this.start);
    if (time < 0 || time >= store.length) return;
    await slices.load(slices.place(Math.max(time, 0)));
    const found = store.stretchAt(store.lane, Math.max(time, 0));
    if (found) await this.goTo(found);
  }

  /** Choose a stretch, and bring it into view. */
  async goTo(found: Stretch): Promise<void> {
    const { store } = this;
    store.stretch = found;
    store.instant = found.start;
    if (found.lane >= 0) this.reveal(found.lane);
    const span = this.end - this.start;
    const width = found.end - found.start;
    if (found.start < this.start || found.end > this.end || width < span / this.room) {
      const wanted = width * 20 < span || width > span ? Math.max(width * 4, LEAST_SPAN) : span;
      await this.show((found.start + found.end - wanted) / 2, (found.start + found.end + wanted) / 2);
    }
    store.tell("instant");
  }

  /** To who ended the wait that is chosen. */
  async toWaker(): Promise<void> {
    const { store } = this;
    const chosen = store.stretch;
    const thread = chosen && store.wakerThread(chosen.waker);
    if (!chosen || thread === null || !store.slices) return;
    const time = Math.min(chosen.end, store.length - 1);
    await store.slices.load(store.slices.place(time));
    const found = store.stretchAt(thread, time);
    if (found) await this.goTo(found);
    else this.reveal(thread);
  }

  /** The next stretch (or the one before) in a state whose name has the text in it, of the threads that are listed. */
  async find(text: string, by: 1 | -1): Promise<Stretch | null> {
    const { store } = this;
    const { slices } = store;
    if (!slices || !text.trim()) return null;
    const wanted = store.states.map((state) => store.report.states[state].toLowerCase().includes(text.trim().toLowerCase()));
    if (!wanted.includes(true)) return null;
    const now = store.stretch?.start ?? store.instant ?? (by > 0 ? -1 : store.length);
    let best = search(slices.over, wanted, now, by);
    for (let at = slices.place(Math.max(now, 0)); at >= 0 && at < slices.count; at += by) {
      if (best && (by > 0 ? best.start < slices.edges[at] : best.start >= slices.edges[at + 1])) break;
      this.found.textContent = `looking at ${instantText(slices.edges[at], store.length, store.report.time_unit)} …`;
      const found = search(await slices.load(at), wanted, now, by);
      if (found) {
        if (!best || (by > 0 ? found.start < best.start : found.start > best.start)) best = found;
        break;
      }
    }
    this.found.textContent = best ? "" : `no ${by > 0 ? "further" : "earlier"} “${text.trim()}”`;
    if (best) await this.goTo(best);
    return best;
  }
}

function search(rows: Rows, wanted: boolean[], now: number, by: 1 | -1): Stretch | null {
  let best = -1;
  for (let row = 0; row < rows.start.length; row++) {
    if (!wanted[rows.state[row]] || rows.lane[row] < 0) continue;
    const start = rows.start[row];
    if (by > 0 ? start <= now : start >= now) continue;
    if (best < 0 || (by > 0 ? start < rows.start[best] : start > rows.start[best])) best = row;
  }
  return best < 0 ? null : stretchOf(rows, best);
}

function fitted(canvas: HTMLCanvasElement, width: number, height: number, ratio: number): CanvasRenderingContext2D {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, w, h);
  return context;
}

/** `#rrggbb` as a pixel. */
function packedColour(text: string): number {
  const value = Number.parseInt(text.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

/** Columns of shares as stacked pixels, the first kind at the bottom. */
function paintLane(
  pixels: Uint32Array,
  columns: number,
  rows: number,
  top: number,
  high: number,
  from: number,
  until: number,
  shares: Float32Array,
  kinds: number,
  colours: Uint32Array,
  track: number,
): void {
  for (let column = from; column < until; column++) {
    let y = top + high;
    let sum = 0;
    const base = column * kinds;
    for (let kind = 0; kind < kinds; kind++) {
      const part = shares[base + kind];
      if (part <= 0) continue;
      sum += part;
      const to = Math.max(top + high - Math.round(Math.min(sum, 1) * high), top);
      for (; y > to; ) {
        y--;
        if (y >= 0 && y < rows) pixels[y * columns + column] = colours[kind];
      }
    }
    for (; y > top; ) {
      y--;
      if (y >= 0 && y < rows) pixels[y * columns + column] = track;
    }
  }
}

/** Text that ends with an ellipsis where there is no room for all of it. */
function clipped(context: CanvasRenderingContext2D, text: string, x: number, y: number, room: number): void {
  let shown = text.slice(0, 200);
  if (context.measureText(shown).width > room) {
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (context.measureText(`${shown.slice(0, middle)}…`).width <= room) low = middle;
      else high = middle - 1;
    }
    shown = `${shown.slice(0, low)}…`;
  }
  context.fillText(shown, x, y);
}

function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}

/** A tick's label: as many digits as tell it from the next. */
function tick(time: number, size: number, unit: string): string {
  if (unit !== "ns") return Math.round(time).toLocaleString("en");
  const digits = Math.min(Math.max(Math.ceil(9 - Math.log10(size) - 1e-9), 0), 9);
  return `${(time / 1e9).toFixed(digits)} s`;
}
