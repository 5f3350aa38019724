// Layer x head maps. A head under the pointer is outlined in all maps; the explorer shows a chosen head.

const RAMP = ["#2b1055", "#3f2f83", "#41568f", "#3c7a8e", "#3b9c87", "#62bd6f", "#a8d84f", "#f4e61e"];
const WHAT = { ranking: "importance", removed: "removed" };
const FEW = 12; // maps drawn before the reader opens the rest
const HEAD = /^(.+)\.(\d+)\.(\d+)$/;

function shade(share) {
  const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1), low = Math.floor(at), rest = at - low;
  const parts = [RAMP[low], RAMP[Math.min(low + 1, RAMP.length - 1)]].map((hex) => [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16)));
  return `rgb(${parts[0].map((value, nth) => Math.round(value + rest * (parts[1][nth] - value))).join(" ")})`;
}
function spoken(head) {
  const parts = HEAD.exec(head);
  return parts ? `${parts[1]} layer ${parts[2]} head ${parts[3]}` : head;
}
function drawMaps(study) {
  const maps = study.maps || [], hasHeads = Object.keys(study.heads || {}).length > 0;
  if (!maps.length && !hasHeads) return null;
  const state = remembered("maps", study.name, { what: "all", all: false });
  const kinds = [...new Set(maps.map((map) => map.what))], place = el("div", { class: "maps" });
  const more = el("button", { type: "button", onclick: () => { state.all = true; redraw(); } });
  const buttons = ["all", ...kinds].map((kind) => el("button", { type: "button", "aria-pressed": "false", "data-focus": `maps/${kind}`, onclick: () => { state.what = kind; redraw(); } }, kind === "all" ? "all maps" : WHAT[kind] || measureWords(kind, study).label));
  function redraw() {
    const matching = maps.filter((map) => state.what === "all" || map.what === state.what);
    const drawnMaps = state.all ? matching : matching.slice(0, FEW);
    place.replaceChildren(...drawnMaps.map((map) => drawMap(map, study)));
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(state.what === ["all", ...kinds][at])));
    more.hidden = drawnMaps.length === matching.length;
    more.textContent = `Show all ${matching.length} maps`;
  }
  redraw();
  return section("heads", "Heads", "Rows are layers, the input at the bottom; columns are heads. Point at a head to find it in every map; choose it to see everything that is known about it." + (outOf(study) ? ` Maps of rankings, measures and removals are${outOf(study).slice(1)}.` : ""),
    el("div", { class: "heads" }, el("div", {}, kinds.length > 1 ? el("div", { class: "controls", role: "group", "aria-label": "Which maps" }, buttons) : null, place, more), drawExplorer(study)));
}
function drawMap(stored, study, caption = stored.title) {
  const never = stored.what === "removed" ? Object.fromEntries(allHeads(study).map((head) => [head, 0])) : {}; // counts name only heads that were removed
  const map = { ...stored, scores: { ...never, ...stored.scores } };
  const values = Object.values(map.scores).filter(isNumber), [low, high] = [Math.min(...values), Math.max(...values)];
  const flags = map.what === "removed" && values.every((value) => value === 0 || value === 1);
  const order = sorted(Object.keys(map.scores).filter((head) => isNumber(map.scores[head])), (head) => map.scores[head], true);
  const rank = new Map(order.map((head, at) => [head, at + 1]));
  const facts = { map, alone: Object.keys(study.layout || {}).length < 2, low, high, flags, rank, count: order.length };
  const blocks = Object.entries(study.layout || {}).map(([block, sizes]) => drawBlock(block, sizes, facts));
  const figure = el("figure", { "aria-label": map.title, "data-map": map.id }, el("figcaption", {}, bdi(caption)), el("div", { class: "blocks" }, blocks), flags ? el("div", { class: "ramp" }, "\u2715 removed") : ramp(low, high));
  figure.addEventListener("pointerover", (event) => look(event.target.closest("td[data-head]"), facts, study));
  figure.addEventListener("focusin", (event) => look(event.target.closest("td[data-head]"), facts, study));
  for (const kind of ["pointerleave", "focusout"]) figure.addEventListener(kind, () => look(null));
  figure.addEventListener("click", (event) => {
    const cell = event.target.closest("td[data-head]");
    if (cell) chooseHead(cell.dataset.head);
  });
  return figure;
}
function ramp(low, high) {
  if (!Number.isFinite(low)) return el("div", { class: "ramp" }, "no scores");
  return el("div", { class: "ramp" }, short(low), el("i", { "aria-hidden": "true" }), short(high));
}
function drawBlock(block, sizes, facts) {
  const width = Math.max(0, ...sizes);
  const rows = sizes.map((size, layer) => el("tr", {}, el("th", { scope: "row" }, layer), Array.from({ length: size }, (_, index) => drawHead(`${block}.${layer}.${index}`, facts)))).reverse();
  const foot = el("tfoot", {}, el("tr", {}, el("th", {}), Array.from({ length: width }, (_, index) => el("th", { scope: "col" }, index))));
  return walkable(el("table", { class: width > 10 ? "map" : "map roomy", role: "grid", "aria-label": `${block} of ${facts.map.title}` }, el("caption", { class: facts.alone ? "unseen" : null }, block), el("tbody", {}, rows), foot));
}
function drawHead(head, { map, low, high, flags }) {
  const value = map.scores[head], known = isNumber(value), removed = flags && value === 1;
  const kind = !known ? "nothing" : flags ? (removed ? "gone" : "kept") : null;
  const cell = el("td", { "data-stop": true, "data-head": head, "data-focus": `${map.id}/${head}`, class: [kind, chosen.head === head && "chosen"].filter(Boolean).join(" ") || null, "aria-label": `${spoken(head)}: ${!known ? "no score" : flags ? (removed ? "removed" : "kept") : short(value)}` }, removed ? "\u2715" : null);
  if (known && !flags) cell.style.backgroundColor = shade(high > low ? (value - low) / (high - low) : 0.5);
  return cell;
}
/** Outline a head wherever it is drawn, and show its value in this map. */
function look(cell, facts, study) {
  for (const one of document.querySelectorAll(".same")) one.classList.remove("same");
  if (!cell) {
    tip.hide();
    return;
  }
  const head = cell.dataset.head;
  outline(head);
  const { map, rank, count: all, flags } = facts, known = study.heads?.[head] || {};
  const others = (study.maps || []).filter((one) => one.id !== map.id && isNumber(one.scores[head])).slice(0, 5);
  const value = map.scores[head];
  tip.show(cell, [el("strong", {}, spoken(head)), el("table", {}, el("tbody", {},
    tipRow(map.title, !isNumber(value) ? "no score" : flags ? (value ? "removed" : "kept") : map.what === "removed" ? short(value) : `${short(value)}, ${rank.get(head)} of ${all}`),
    others.map((one) => tipRow(one.title, short(one.scores[head]))),
    isNumber(known.removed) ? tipRow("removed in", count(known.removed, "trial")) : null))]);
}
function tipRow(name, value) {
  return el("tr", {}, el("td", {}, bdi(name)), el("td", {}, value));
}
function outline(head) {
  for (const one of document.querySelectorAll(`td[data-head="${CSS.escape(head)}"]`)) one.classList.add("same");
}
