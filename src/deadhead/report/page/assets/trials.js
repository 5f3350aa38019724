// All trials in one table that draws only the visible rows, so that 20,000 of them stay fast.

const TALL = 30, SPARE = 12; // pixels of a row; rows drawn beyond the edge

function drawTrials(study) {
  const { fields = [], rows = [] } = study.trials || {};
  if (!rows.length) return null;
  const state = remembered("trials", study.name, { column: null, down: true, filter: "", state: "", top: 0, row: 0 });
  const numeric = fields.map((_, at) => rows.some((row) => isNumber(row[at])) && rows.every((row) => row[at] === null || isNumber(row[at])));
  const digits = fields.map((_, at) => (numeric[at] && rows.some((row) => isNumber(row[at]) && !Number.isInteger(row[at])) ? 2 : 0));
  const view = { digits, study, fields, rows, state, numeric, order: [] };
  view.status = el("span", { class: "status", role: "status" });
  view.body = el("tbody");
  view.table = el("table", { role: "grid", "aria-label": "Trials" }, el("colgroup", {}, fields.map((name, at) => widthOf(name, at, rows))), el("thead", {}, el("tr", {}, fields.map((name, at) => trialHead(view, name, at)))), view.body);
  view.box = el("div", { class: "rows", id: "trial-rows" }, view.table);
  view.box.addEventListener("scroll", () => { state.top = view.box.scrollTop; paint(view); });
  view.box.addEventListener("keydown", (event) => moveRow(view, event));
  view.box.addEventListener("click", (event) => { const row = event.target.closest("tr[data-at]"); if (row) go(`trial=${encodeURIComponent(row.dataset.id)}`); });
  arrange(view);
  requestAnimationFrame(() => { view.box.scrollTop = state.top; paint(view); });
  return section("trials", "Trials", null, trialControls(view), view.box);
}
function widthOf(name, at, rows) {
  const longest = rows.slice(0, 400).reduce((most, row) => Math.max(most, worded(row[at]).length), String(name).length + 2);
  const col = el("col");
  col.style.width = `${Math.min(34, Math.max(7, longest * 0.62 + 2))}rem`;
  return col;
}
function trialHead(view, name, at) {
  const turn = () => {
    const { state } = view;
    if (state.column !== at) [state.column, state.down] = [at, view.numeric[at]];
    else state.down = !state.down;
    arrange(view);
  };
  return el("th", { scope: "col", class: view.numeric[at] ? "number" : null, "aria-sort": "none" }, el("button", { type: "button", class: "sort", "data-focus": `trials/sort${at}`, onclick: turn }, bdi(name === "score" ? view.study.words?.score || name : name)));
}
function trialControls(view) {
  const { state, rows, fields } = view, at = fields.indexOf("state");
  const search = el("input", { type: "search", id: "trial-filter", placeholder: "filter: words, or field:value", "aria-label": "Filter trials", "data-focus": "trials/filter", value: state.filter, oninput: (event) => { state.filter = event.target.value; arrange(view); } });
  const states = at < 0 ? [] : [...new Set(rows.map((row) => row[at]))].sort();
  const pick = states.length > 1 && el("label", {}, "state", el("select", { "data-focus": "trials/state", onchange: (event) => { state.state = event.target.value; arrange(view); } }, ["", ...states].map((one) => el("option", { value: one, selected: one === state.state }, one || "all"))));
  return el("div", { class: "controls" }, search, pick, view.status);
}
/** Filter and sort again. */
function arrange(view) {
  const { state, fields, rows } = view, at = fields.indexOf("state");
  const terms = state.filter.toLowerCase().match(/(?:[^\s"]|"[^"]*")+/g)?.map((one) => one.replaceAll('"', "")) || [];
  if (terms.length) view.words ||= rows.map((row) => row.map(typed).join("\u0001")); // built once, when first needed
  const tests = terms.map((one) => {
    const colon = one.indexOf(":"), field = colon > 0 ? fields.findIndex((name) => name.toLowerCase() === one.slice(0, colon)) : -1;
    return field < 0 ? (nth) => view.words[nth].includes(one) : (nth) => typed(rows[nth][field]) === one.slice(colon + 1);
  });
  const kept = rows.map((_, nth) => nth).filter((nth) => (!state.state || rows[nth][at] === state.state) && tests.every((test) => test(nth)));
  view.order = state.column === null ? kept : sorted(kept, (nth) => rows[nth][state.column], state.down);
  [...view.table.tHead.rows[0].cells].forEach((head, nth) => head.setAttribute("aria-sort", nth === state.column ? (state.down ? "descending" : "ascending") : "none"));
  view.table.setAttribute("aria-rowcount", view.order.length + 1);
  view.status.textContent = view.order.length === rows.length ? count(rows.length, "trial") : `${view.order.length.toLocaleString("en")} of ${count(rows.length, "trial")}`;
  paint(view);
}
/** Draw the visible rows; the rest is empty space of the right height. */
function paint(view) {
  const { box, order, state, fields } = view, height = Math.max(box.clientHeight, 600);
  const room = Math.ceil(height / TALL), at = Math.min(Math.floor(box.scrollTop / TALL), Math.max(0, order.length - room)); // fewer rows than before may be left
  const first = Math.max(0, at - SPARE), last = Math.min(order.length, at + room + SPARE);
  const pad = (rows) => { const cell = el("td", { colspan: fields.length }); cell.style.height = `${rows * TALL}px`; return el("tr", { class: "pad", "aria-hidden": "true" }, cell); };
  const focused = view.body.contains(document.activeElement);
  state.row = Math.min(state.row, Math.max(0, order.length - 1));
  const stop = state.row >= first && state.row < last ? state.row : first;
  const rows = order.slice(first, last).map((nth, offset) => trialRow(view, view.rows[nth], first + offset, first + offset === stop));
  view.body.replaceChildren(...(first ? [pad(first)] : []), ...rows, ...(last < order.length ? [pad(order.length - last)] : []));
  if (focused) view.body.querySelector(`tr[data-at="${stop}"]`)?.focus({ preventScroll: true });
}
function trialRow(view, row, at, stop) {
  const idAt = view.fields.indexOf("id"), id = String(row[idAt < 0 ? 0 : idAt]);
  return el("tr", { "data-at": at, "data-id": id, tabindex: stop ? 0 : -1, "aria-rowindex": at + 2 }, row.map((value, nth) => el("td", { class: view.numeric[nth] ? "number" : null, title: typeof value === "string" && value.length > 30 ? value : null }, view.fields[nth] === "state" ? chip(value) : view.numeric[nth] ? (view.digits[nth] ? fixed(value, 2) : short(value)) : bdi(worded(value)))));
}
function moveRow(view, event) {
  const row = event.target.closest("tr[data-at]");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    row.click();
    return;
  }
  const page = Math.max(1, Math.floor(view.box.clientHeight / TALL) - 2), at = Number(row.dataset.at), end = view.order.length - 1;
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: end }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  view.state.row = Math.min(Math.max(next, 0), end);
  const top = view.state.row * TALL, room = view.box.clientHeight - 36 - TALL;
  if (top < view.box.scrollTop) view.box.scrollTop = top;
  else if (top > view.box.scrollTop + room) view.box.scrollTop = top - room;
  paint(view);
}
function chip(state) {
  const sign = { done: "\u2713", failed: "\u2715" }[state] || "\u00b7";
  return el("span", { class: `chip ${["done", "failed"].includes(state) ? state : "left"}` }, el("span", { "aria-hidden": "true" }, sign), worded(state));
}
