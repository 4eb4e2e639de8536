// The live picture: asks for live.json again and again and shows what it says. Text is only ever set as text.
"use strict";

const PERIOD = 1000;
const LOST_AFTER = 3;
const byId = (id) => document.getElementById(id);
const settings = { sort: "rpi", down: true, filter: "", paused: false };
let last = null;
let kinds = []; // of time: name, letter, meaning; as headway says them
let failures = 0;

function element(tag, text, ...classes) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (classes.length) made.classList.add(...classes);
  return made;
}

const percent = (share) => share === null || share === undefined ? "–" :
  share === 0 ? "·" : share >= 0.0995 ? `${(share * 100).toFixed(0)} %` : `${(share * 100).toFixed(1)} %`;

function bar(shares) {
  const made = element("div", null, "bar");
  made.setAttribute("role", "img");
  const words = [];
  for (const [kind, letter, meaning] of kinds) {
    const share = shares[kind];
    if (!share) continue;
    const part = element("span", share >= 0.04 ? letter : "", kind);
    part.style.width = `${share * 100}%`;
    part.title = `${kind}: ${percent(share)} (${meaning})`;
    words.push(`${kind} ${percent(share)}`);
    made.append(part);
  }
  made.setAttribute("aria-label", words.join(", ") || "nothing");
  return made;
}

function legend(told) {
  kinds = told;
  byId("legend").replaceChildren(...kinds.map(([kind, letter, meaning]) => {
    const item = element("li");
    item.append(element("span", letter, "sign", kind), element("span", `${kind}: ${meaning}`));
    return item;
  }));
}

// In few letters; the rest is in the cell's title, and the filter finds it.
const place = (labels) => labels.container_id !== undefined ? `container ${labels.container_id.slice(0, 12)}` :
  labels.k8s_pod_uid !== undefined ? `pod ${labels.k8s_pod_uid}` :
  labels.systemd_user_unit_name ?? labels.systemd_unit_name ?? labels.cgroup ?? null;
const PLACES = ["k8s_pod_uid", "container_id", "systemd_unit_name", "systemd_user_unit_name", "systemd_slice_name", "cgroup"];
const allOfPlace = (labels) => PLACES.filter((name) => labels[name] !== undefined).map((name) => `${name}=${labels[name]}`).join("\n");

const COLUMNS = [
  { key: "process", title: "process", text: true, of: (row) => row.labels.process ?? "" },
  { key: "pid", title: "pid", of: (row) => row.labels.pid === undefined ? null : Number(row.labels.pid), optional: true },
  { key: "thread", title: "thread", text: true, of: (row) => row.labels.thread ?? "" },
  { key: "tid", title: "tid", of: (row) => row.labels.tid === undefined ? null : Number(row.labels.tid), optional: true },
  { key: "place", title: "container or unit", text: true, of: (row) => place(row.labels), optional: true,
    all: (row) => allOfPlace(row.labels) },
  { key: "threads", title: "threads", of: (row) => row.threads },
  { key: "rpi", title: "RPI", of: (row) => row.rpi, index: "rpi", help: "processor time, of one processor" },
  { key: "epi", title: "EPI", of: (row) => row.epi, index: "epi", help: "effective progress, of one processor" },
  { key: "te", title: "TE", of: (row) => row.te, index: "epi", help: "EPI / RPI" },
];

const marked = (value, quality) => value === null ? "–" :
  (value ? { bound: "≤ ", sampled: "~ " }[quality] ?? "" : "") + percent(value);

function columns(document_) {
  return COLUMNS.filter((column) => !column.optional || document_.rows.some((row) => column.of(row) !== null));
}

function head(document_) {
  const line = element("tr");
  for (const column of columns(document_)) {
    const cell = element("th", null, ...(column.text ? ["text"] : []));
    const button = element("button", column.title);
    button.type = "button";
    button.dataset.key = column.key;
    if (column.help) button.title = column.help;
    const sorted = settings.sort === column.key;
    cell.setAttribute("aria-sort", sorted ? (settings.down ? "descending" : "ascending") : "none");
    if (sorted) button.textContent += settings.down ? " ▾" : " ▴";
    cell.append(button);
    line.append(cell);
  }
  line.append(element("th", "of its time", "text"), element("th", "most in", "text"));
  const focused = document.activeElement?.dataset?.key;
  byId("head").replaceChildren(line);
  if (focused) line.querySelector(`[data-key="${focused}"]`)?.focus();
}

function compare(a, b, column) {
  const [left, right] = [column.of(a), column.of(b)];
  if (left === right) return 0;
  if (left === null || left === undefined) return 1;
  if (right === null || right === undefined) return -1;
  const order = left < right ? -1 : 1;
  return settings.down ? -order : order;
}

function matches(row, wanted) {
  const words = [...Object.values(row.labels), ...row.states.map(([name]) => name)];
  return words.some((word) => word.toLowerCase().includes(wanted));
}

function line(row, document_, shown) {
  const made = element("tr");
  for (const column of shown) {
    const value = column.of(row);
    const text = column.index ? marked(value, document_.quality[column.index]) : value;
    const cell = element("td", text, ...(column.text ? ["text", "name"] : []));
    if (column.text) cell.title = column.all ? column.all(row) : value;
    made.append(cell);
  }
  const time = element("td");
  time.append(bar(row.kinds));
  const states = row.states.map(([name, , share]) => `${name} ${percent(share)}`).join(", ");
  const named = element("td", states, "text", "states");
  named.title = states;
  made.append(time, named);
  return made;
}

function others(document_, shown) {
  const rest = document_.others;
  byId("others").replaceChildren();
  if (!rest) return;
  const made = element("tr");
  for (const column of shown) {
    const text = column.key === "process" ? `… ${rest.rows} more rows` : column.key === "threads" ? rest.threads :
      column.index ? marked(rest[column.key], document_.quality[column.index]) : "";
    made.append(element("td", text, ...(column.text ? ["text"] : [])));
  }
  const time = element("td");
  time.append(bar(rest.kinds));
  made.append(time, element("td", "", "text"));
  byId("others").append(made);
}

function processors(document_) {
  byId("processors").replaceChildren(...document_.processors.map((one) => {
    const busy = Object.entries(one.kinds).reduce((sum, [kind, share]) => kind === "wait" || kind === "stolen" ? sum : sum + share, 0);
    const made = element("div", null, "cpu");
    made.append(element("span", `cpu ${one.cpu}`), bar(one.kinds), element("span", percent(busy)));
    return made;
  }));
  byId("processors").parentElement.hidden = document_.processors.length === 0;
}

function notes(document_) {
  const said = document_.work === null ? [] : [document_.work.words];
  for (const [index, quality] of Object.entries(document_.quality)) {
    if (quality === "exact") continue;
    const name = index.toUpperCase();
    const words = { bound: "at most (≤)", sampled: "sampled (~)", unavailable: "not to be had" }[quality];
    said.push(`${name} ${words}${document_.reasons[index] ? `: ${document_.reasons[index]}` : ""}`);
  }
  for (const [name, reason] of Object.entries(document_.reasons)) {
    if (!(name in document_.quality)) said.push(`${name}: ${reason}`);
  }
  if (document_.overhead !== null) said.push(`measuring takes ${percent(document_.overhead)} of one processor` +
    (document_.source === "bpf" ? " in the threads measured, taken out of their time" : ""));
  said.push(`headway itself takes ${percent(document_.cost)} of one processor`);
  said.push(`${document_.seen.toLocaleString("en")} threads seen, ${document_.ended.toLocaleString("en")} of them ended; ` +
    `${document_.series[0].toLocaleString("en")} of ${document_.series[1].toLocaleString("en")} series`);
  const made = said.map((text) => element("li", text));
  made.push(element("li", `lost: ${document_.losses || "nothing"}`, ...(document_.losses ? ["warn"] : [])));
  byId("notes").replaceChildren(...made);
}

function show(document_) {
  const source = { bpf: "every change of state, by eBPF", proc: "sampled, by /proc" }[document_.source] ?? document_.source;
  const at = new Date(document_.at / 1e6).toLocaleTimeString();
  byId("state").textContent = `${document_.living.toLocaleString("en")} threads, ${source}; the ` +
    `${(document_.span / 1e9).toFixed(1)} s before ${at}${settings.paused ? " (paused)" : ""}`;
  byId("state").classList.remove("warn");
  if (!kinds.length) legend(document_.legend);
  const shown = columns(document_);
  head(document_);
  const wanted = settings.filter.trim().toLowerCase();
  const chosen = wanted ? document_.rows.filter((row) => matches(row, wanted)) : [...document_.rows];
  const column = COLUMNS.find((one) => one.key === settings.sort);
  chosen.sort((a, b) => compare(a, b, column));
  byId("shown").textContent = wanted ? `${chosen.length} of ${document_.rows.length} rows` : "";
  byId("rows").replaceChildren(...chosen.map((row) => line(row, document_, shown)));
  others(document_, shown);
  processors(document_);
  notes(document_);
}

async function ask() {
  if (!settings.paused && !document.hidden) {
    try {
      const answer = await fetch("live.json", { cache: "no-store", signal: AbortSignal.timeout(15000) });
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      last = await answer.json();
      failures = 0;
      show(last);
    } catch (error) {
      failures += 1;
      if (failures >= LOST_AFTER) {
        byId("state").textContent = `no answer from headway (${error.message}); trying on`;
        byId("state").classList.add("warn");
      }
    }
  }
  setTimeout(ask, PERIOD);
}

byId("head").addEventListener("click", (event) => {
  const key = event.target.dataset?.key;
  if (!key) return;
  const text = COLUMNS.find((column) => column.key === key).text ?? false;
  settings.down = settings.sort === key ? !settings.down : !text;
  settings.sort = key;
  if (last) show(last);
});
byId("filter").addEventListener("input", (event) => {
  settings.filter = event.target.value;
  if (last) show(last);
});
byId("pause").addEventListener("click", () => {
  settings.paused = !settings.paused;
  byId("pause").setAttribute("aria-pressed", String(settings.paused));
  byId("pause").textContent = settings.paused ? "Go on" : "Pause";
  if (last) show(last);
});
ask();
