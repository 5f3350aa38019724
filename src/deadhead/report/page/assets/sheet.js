// The sheet at the side: one trial in full, or the list of trials behind a number, a claim or a head.

function openSheet(title, ...kids) {
  const sheet = $("sheet"), again = sheet.open && sheet.dataset.title === title, top = sheet.scrollTop;
  sheet.replaceChildren(el("div", { class: "inner" }, el("div", { class: "head" }, el("h2", { id: "sheet-title", tabindex: -1 }, bdi(title)), el("button", { type: "button", class: "quiet", "data-focus": "sheet/close", onclick: closeSheet }, "Close")), ...kids));
  sheet.dataset.title = title;
  if (!sheet.open) {
    tip.hide();
    sheet.showModal();
    $("sheet-title").focus();
  }
  sheet.scrollTop = again ? top : 0;
}
function closeSheet() {
  if ($("sheet").open) $("sheet").close();
}
function rowOf(study, id) {
  const { fields = [], rows = [] } = study.trials || {}, at = Math.max(0, fields.indexOf("id"));
  const row = rows.find((one) => String(one[at]) === id);
  return row && Object.fromEntries(fields.map((name, nth) => [name, row[nth]]));
}
function titleOf(row) {
  const left = new Set(["id", "state", "score", "trial"]);
  return Object.entries(row || {}).filter(([name, value]) => !left.has(name) && value !== null && value !== "" && !isNumber(value)).map(([, value]) => worded(value)).join(" · ");
}
/** How many trials are behind a number or a verdict; the page lists the first if there are very many. */
const behind = ({ records, trials = [] }) => records ?? trials.length;
const some = (one) => (one.trials?.length && behind(one) > one.trials.length ? `The first ${one.trials.length} of ${count(behind(one), "trial")}.` : "");
function trialItem(study, id, language = "", value = null) {
  const row = rowOf(study, id);
  return el("li", {}, el("a", { href: `#trial=${encodeURIComponent(id)}` }, chip(row?.state || "left"), el("span", { class: "what" }, bdi([language, titleOf(row)].filter(Boolean).join(" \u00b7 "))), el("span", { class: "value" }, isNumber(value) ? fixed(value, 2) : ""), el("span", { class: "mono" }, id)));
}
/** One of the numbers that a cell is the mean of, with the trials it came from. */
function drawNumber(study, [value, words, parts]) {
  if (parts.length === 1) return el("li", {}, el("a", { href: `#trial=${encodeURIComponent(parts[0][0])}` }, el("span", { class: "value" }, fixed(value, 2)), el("span", { class: "what" }, bdi(words)), el("span", { class: "mono" }, parts[0][0])));
  const line = [el("span", { class: "value" }, fixed(value, 2)), el("span", { class: "what" }, bdi(words))];
  return el("li", {}, parts.length ? el("details", { "data-keep": `number ${words}` }, el("summary", {}, line, el("span", { class: "mono" }, count(parts.length, "score"))), el("ul", { class: "list" }, parts.map(([trial, language, score]) => trialItem(study, trial, language, score)))) : el("span", { class: "line" }, line));
}
function showTrials(study, title, ids, note) {
  openSheet(title, note && el("p", { class: "lead" }, bdi(note)), el("ul", { class: "list" }, ids.map((id) => trialItem(study, id))));
}
function showTrial(study, id) {
  const row = rowOf(study, id), record = study.records?.[id];
  if (!row && !record) {
    openSheet(`No trial ${id}`, el("p", {}, "This study has no trial with that name."));
    return;
  }
  openSheet(titleOf(row) || `Trial ${id}`, el("p", { class: "controls" }, chip(row?.state ?? (record.error ? "failed" : "done")), el("span", { class: "mono" }, id)), record ? trialParts(study, id, record) : thinTrial(row));
}
function thinTrial(row) {
  return [pairs(Object.entries(row)), el("p", { class: "note" }, "This page has the full records of some trials only; those of all are in the folder of the study.")];
}
function trialParts(study, id, record) {
  const removed = new Set(record.removed || []), out = [];
  if (record.error) out.push(el("h3", {}, "Why it failed"), el("pre", { tabindex: 0 }, record.error));
  if (Object.keys(record.metrics || {}).length) out.push(el("h3", {}, "Scores"), el("div", { class: "scroll" }, metricTable(record.metrics)));
  if (removed.size) {
    const scores = Object.fromEntries(allHeads(study).map((head) => [head, removed.has(head) ? 1 : 0]));
    out.push(el("h3", {}, `Removed: ${count(removed.size, "head")} of ${allHeads(study).length}`), el("div", { class: "maps" }, drawMap({ id: `trial-${id}`, title: "in this trial", what: "removed", scores }, study, "Heads removed")));
  }
  if (record.epochs?.length) out.push(el("h3", {}, "Training"), epochCurves(record.epochs));
  if (record.sample?.length) out.push(el("h3", {}, "Some predictions"), record.sample.map(drawSample));
  if (Object.keys(record.cost || {}).length) out.push(el("h3", {}, "Cost"), pairs(Object.entries(record.cost)));
  out.push(el("h3", {}, "Trial"), pairs(Object.entries(record.trial || {}).map(([name, value]) => [name, worded(value)])));
  out.push(el("h3", {}, "Record"), el("details", { "data-keep": `record ${id}` }, el("summary", {}, "everything, as stored"), el("pre", { tabindex: 0 }, JSON.stringify(record, null, 1))));
  return out;
}
const metricWords = (metric) => current().words?.metrics?.[metric] || metric?.replaceAll("_", " ");
const inWords = ([split, metric]) => [split?.replace(/@(\d+)$/, " after epoch $1"), metricWords(metric)].filter(Boolean).join(" ");
/** Scores by language (down) and split and metric (across), as stored: shares of 1. */
function metricTable(metrics) {
  const parts = Object.entries(metrics).map(([name, value]) => { const [lang, ...rest] = name.split("/"); return { lang, what: inWords(rest) || "score", value }; });
  const langs = [...new Set(parts.map((one) => one.lang))], kinds = [...new Set(parts.map((one) => one.what))];
  const value = (lang, what) => parts.find((one) => one.lang === lang && one.what === what)?.value;
  return el("table", { class: "grid" }, el("thead", {}, el("tr", {}, el("th", { class: "corner", scope: "col" }, "language"), kinds.map((what) => el("th", { scope: "col" }, bdi(what))))),
    el("tbody", {}, langs.map((lang) => el("tr", {}, el("th", { scope: "row" }, bdi(lang)), kinds.map((what) => el("td", {}, fixed(value(lang, what), Math.abs(value(lang, what)) <= 1 ? 4 : 2)))))));
}
