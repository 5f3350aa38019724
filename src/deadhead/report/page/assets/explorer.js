// The head explorer: one head under every ranking, its measures, and what happened when it was removed.

const LONG = 20; // letters of a name beyond which it gets a line of its own

function drawExplorer(study) {
  const card = el("aside", { class: "card explorer", id: "explorer", "aria-label": "Head explorer" });
  fillExplorer(card, study);
  return card;
}
/** The label of a measure and the title of its scale. */
function measureWords(name, study) {
  return study.words?.measures?.[name] || { label: name, legend: name };
}
function allHeads(study) {
  return Object.entries(study.layout || {}).flatMap(([block, sizes]) => sizes.flatMap((size, layer) => Array.from({ length: size }, (_, index) => `${block}.${layer}.${index}`)));
}
/** The head to begin with: the highest of the first ranking. */
function leading(study) {
  const maps = study.maps || [], scores = (maps.find((map) => map.what === "ranking") || maps[0])?.scores;
  return scores ? sorted(Object.keys(scores), (head) => scores[head], true)[0] : null;
}
function chooseHead(head) {
  chosen.head = head;
  if (!$("sheet").open) history.replaceState(null, "", `#head=${encodeURIComponent(head)}`); // an open sheet keeps its address
  showHead();
}
function showHead() {
  const head = chosen.head;
  for (const one of document.querySelectorAll("td.chosen")) one.classList.remove("chosen");
  if (head) for (const one of document.querySelectorAll(`td[data-head="${CSS.escape(head)}"]`)) one.classList.add("chosen");
  if ($("explorer")) fillExplorer($("explorer"), current());
  if (head) announce(`${spoken(head)} chosen`);
}
function fillExplorer(card, study) {
  const heads = allHeads(study), known = study.heads || {};
  if (chosen.head && !heads.includes(chosen.head)) chosen.head = null;
  const head = chosen.head;
  const pick = el("select", { "aria-label": "Pick a head", "data-focus": "explorer/pick", onchange: (event) => event.target.value && chooseHead(event.target.value) },
    el("option", { value: "" }, "pick a head \u2026"), heads.map((one) => el("option", { value: one, selected: one === head }, one)));
  const step = (by, label, sign) => el("button", { type: "button", "aria-label": label, "data-focus": `explorer/${by}`, onclick: () => { const at = heads.indexOf(head); chooseHead(heads[(at + by + heads.length) % heads.length]); document.querySelector(`[data-focus="explorer/${by}"]`)?.focus(); } }, sign);
  const facts = head && known[head];
  card.replaceChildren(el("h3", {}, head ? spoken(head) : "Head explorer"), el("div", { class: "controls" }, step(-1, "Previous head", "\u2190"), pick, step(1, "Next head", "\u2192")),
    ...(facts ? headFacts(head, facts, study) : [el("p", { class: "note" }, head ? "Nothing was measured on this head yet." : "Choose a head in a map or here to see its score under every ranking beside all other heads, its measures, and what happened when it was removed.")]));
}
function headFacts(head, facts, study) {
  const known = study.heads, of = (read) => Object.values(known).map(read).filter(isNumber);
  const out = [];
  const ranks = Object.keys(facts.rankings || {});
  if (ranks.length) out.push(el("h4", {}, "Importance under each ranking"), ranks.map((name) => strip(name, facts.rankings[name], of((one) => one.rankings?.[name]))));
  for (const [name, stages] of Object.entries(facts.measures || {})) {
    const { label, legend } = measureWords(name, study);
    const strips = Object.entries(stages).map(([stage, value]) => strip(study.words?.stages?.[stage] || stage, value, of((other) => other.measures?.[name]?.[stage])));
    out.push(el("h4", {}, `${label} (${legend})`), strips);
  }
  out.push(el("h4", {}, "When it was removed"), el("p", { class: "note" }, `${facts.removed ? `Removed in ${count(facts.removed, "trial")}` : "No trial removed it"}${outOf(study)}.`));
  const effect = Object.entries(facts.effect || {}).filter(([, value]) => isNumber(value));
  if (effect.length) out.push(el("p", { class: "note" }, "Mean score of the trials that removed it minus that of comparable trials that kept it, in points:"), effectBars(effect, study.words?.up ?? 1));
  const trials = Object.entries(study.records || {}).filter(([, record]) => record.removed?.includes(head)).map(([id]) => id);
  if (trials.length) out.push(el("p", {}, el("a", { href: `#removed=${encodeURIComponent(head)}` }, `Trials that removed it (${trials.length})`)));
  return out.flat();
}
/** How many records the facts about heads come from, if not all of them were opened. */
function outOf(study) {
  const { records, of } = study.opened || {};
  return records < of ? `, of the ${records.toLocaleString("en")} that were opened (there are ${of.toLocaleString("en")} records; scores in tables and curves are of all)` : "";
}
/** Where one value stands among those of all heads. */
function strip(name, value, all) {
  const [low, high] = [Math.min(...all), Math.max(...all)], x = (one) => 4 + 132 * (high > low ? (one - low) / (high - low) : 0.5);
  const place = all.filter((one) => one > value).length + 1;
  return el("div", { class: name.length > LONG ? "strip long" : "strip" }, el("span", {}, bdi(name)),
    svg("svg", { viewBox: "0 0 140 20", role: "img", "aria-label": `${short(value)}, number ${place} of ${all.length} from the top` }, all.map((one) => svg("line", { class: "tick", x1: x(one), x2: x(one), y1: 6, y2: 14 })), svg("line", { class: "here", x1: x(value), x2: x(value), y1: 2, y2: 18 })),
    el("span", {}, short(value), el("small", {}, `${place} of ${all.length}`)));
}
function effectBars(effect, up) {
  const most = Math.max(...effect.map(([, value]) => Math.abs(value)), 1e-9);
  return effect.map(([lang, value]) => {
    const width = (64 * Math.abs(value)) / most;
    return el("div", { class: "strip" }, el("span", {}, bdi(lang)), svg("svg", { viewBox: "0 0 140 20", "aria-hidden": "true" }, svg("line", { class: "axis", x1: 70, x2: 70, y1: 0, y2: 20 }), svg("rect", { class: up * value >= 0 ? "up" : "down", x: value >= 0 ? 70 : 70 - width, y: 5, width, height: 10 })), el("span", {}, signed(value, 2)));
  });
}
