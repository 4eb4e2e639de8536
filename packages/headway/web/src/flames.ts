// The flame graph of a profile, by kind of time: where in the program each kind was spent. Drawn by d3-flame-graph.

import flamegraph, { type FlameNode } from "d3-flame-graph";
import { select } from "d3-selection";
import { element, named } from "./dom";
import { grouped, withUnit } from "./format";
import type { Store } from "./store";

interface Place {
  name: string;
  where: string;
  value: number;
  kinds: number[];
  sampled: boolean;
  children: Place[];
}

const CELL = 19;

export function flames(store: Store): HTMLElement | null {
  const profile = store.flames;
  if (!profile) return null;
  const { kinds } = store.report;
  const present = kinds.map((_, kind) => profile.rows.filter((row) => profile.kinds[row[1]] === kind).reduce((sum, row) => sum + row[3], 0));
  const chosen = new Set(kinds.flatMap((_, kind) => (present[kind] > 0 ? [kind] : [])));
  const thread = element("select", { "aria-label": "Threads", change: () => draw() }, element("option", { value: "" }, "all threads"),
    ...[...new Set(profile.rows.map((row) => row[0]))].filter((place) => place >= 0)
      .map((place) => element("option", { value: place }, store.threadLabel(place).slice(0, 60))));
  const state = element("select", { "aria-label": "States", change: () => draw() }, element("option", { value: "" }, "all states"),
    ...profile.states.map((name, at) => [name, at] as const).sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, at]) => element("option", { value: at }, name)));
  const side = element("select", { "aria-label": "Whose stacks", change: () => draw() },
    element("option", { value: "" }, "where threads were"), element("option", { value: "wakers" }, "who ended their waits"));
  const search = element("input", { type: "search", placeholder: "function", "aria-label": "Find a function", input: () => mark() });
  const matched = element("span", { class: "dim" });
  const detail = element("div", { class: "detail" });
  const stage = element("div", { class: "flame" });
  const boxes = element("span", { class: "kinds" }, ...kinds.map((kind, at) => {
    if (!present[at]) return null;
    const box = element("input", { type: "checkbox", checked: true, change: () => {
      if (box.checked) chosen.add(at); else chosen.delete(at);
      draw();
    } });
    return element("label", { title: kind.words }, box, element("span", { class: "key", "data-kind": at }, kind.letter), ` ${kind.name} ${withUnit(present[at], "ns")}`);
  }));
  let chart: ReturnType<typeof flamegraph<Place>> | null = null;

  function tree(): Place {
    const node = (name: string, where: string): Place => ({ name, where, value: 0, kinds: kinds.map(() => 0), sampled: false, children: [] });
    const root = node("all", "");
    const places = new Map<Place, Map<string, Place>>();
    const child = (of: Place, name: string, where: string): Place => {
      let known = places.get(of);
      if (!known) places.set(of, (known = new Map()));
      const key = `${name}\0${where}`;
      let found = known.get(key);
      if (!found) {
        known.set(key, (found = node(name, where)));
        of.children.push(found);
      }
      return found;
    };
    for (const [whose, which, stack, time] of side.value ? profile!.wakers : profile!.rows) {
      const kind = profile!.kinds[which];
      if (!chosen.has(kind) || (thread.value !== "" && whose !== Number(thread.value)) || (state.value !== "" && which !== Number(state.value))) continue;
      const path: [string, string][] = stack < 0 ? [["[stack not known]", ""]] : [...profile!.stacks[stack]].reverse().map((at) => [profile!.frames[at][0], profile!.frames[at][1]]);
      path.push([`[${profile!.states[which]}]`, ""]);
      let at = root;
      for (const [name, where] of [null, ...path].map((one) => one ?? ["", ""])) {
        if (at !== root || name) at = child(at, name, where);
        at.value += time;
        at.kinds[kind] += time;
        at.sampled ||= !profile!.exact[which];
      }
    }
    return root;
  }

  /** Its most frequent kind's colour, light enough for black letters. */
  function colour(place: Place): string {
    const kind = place.kinds.indexOf(Math.max(...place.kinds));
    const [ground, ink] = kinds[kind].light;
    const part = ink === "#FFFFFF" ? 0.55 : 0.15;
    const value = Number.parseInt(ground.slice(1), 16);
    const mixed = [value >> 16, (value >> 8) & 255, value & 255].map((one) => Math.round(one + (255 - one) * part));
    return `rgb(${mixed.join(",")})`;
  }

  function describe(place: Place, whole: number): string {
    const parts = place.kinds.flatMap((time, kind) => (time ? [`${kinds[kind].name} ${withUnit(time, "ns")}`] : []));
    return `${place.name}${place.where ? `  ${place.where}` : ""}: ${place.sampled ? "~" : ""}${withUnit(place.value, "ns")}, ${((place.value / whole) * 100).toFixed(1)} % (${parts.join(", ")})`;
  }

  function draw(): void {
    chart?.destroy();
    stage.replaceChildren();
    const root = tree();
    if (!root.value) {
      stage.append(element("p", { class: "dim" }, "Nothing of that."));
      return;
    }
    chart = flamegraph<Place>()
      .width(Math.max(stage.clientWidth, 300))
      .cellHeight(CELL)
      .inverted(true)
      .sort(true)
      .minFrameSize(1)
      .transitionDuration(0)
      .selfValue(false)
      .setColorMapper((found) => colour(found.data))
      .label((found: FlameNode<Place>) => describe(found.data, root.value))
      .setSearchMatch((found, term) => found.data.name.toLowerCase().includes(term.toLowerCase()))
      .setSearchHandler((_, sum, total) => { matched.textContent = total ? `${((sum / total) * 100).toFixed(1)} %` : ""; })
      .onHover((found) => { detail.textContent = describe(found.data, root.value); });
    select(stage as HTMLElement).datum(root).call(chart);
    detail.textContent = describe(root, root.value);
    mark();
  }

  function mark(): void {
    const term = search.value.trim();
    if (term) chart?.search(term);
    else {
      matched.textContent = "";
      chart?.clear();
    }
  }

  let width = 0;
  new ResizeObserver(() => {
    if (stage.clientWidth && stage.clientWidth !== width) {
      width = stage.clientWidth;
      draw();
    }
  }).observe(stage);
  const { left_out: left, losses, notes } = profile;
  return element("section", { id: "flames" }, element("h2", {}, "Where in the program"),
    element("div", { class: "toolbar" }, boxes, profile.wakers.length > 0 && side, thread, state, search, matched,
      element("button", { type: "button", click: () => chart?.resetZoom() }, "all")),
    detail, stage,
    element("p", { class: "dim" }, `A frame is as wide as the time under it. On the processor (~) time is sampled every ${withUnit(profile.period, "ns")}; off it, it is exact.`),
    left.rows > 0 && element("p", { class: "dim" }, `${grouped(left.rows)} rarer stacks, ${withUnit(left.time, "ns")} together, are not here.`),
    losses.length > 0 && element("p", { class: "warning" }, `lost: ${losses.map(([name, amount]) => `${name.replaceAll("_", " ")} ${grouped(amount)}`).join(", ")}`),
    ...notes.map((text) => element("p", { class: "dim" }, named(text))));
}
