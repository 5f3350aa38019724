// Several studies side by side, by tables and claims of the same name.

function drawTabs(studies) {
  if (studies.length < 2) return null;
  return el("div", { class: "tabs", role: "group", "aria-label": "Studies" }, studies.map((study, at) => el("button", { type: "button", "aria-pressed": String(at === chosen.study), "data-focus": `study/${at}`, onclick: () => { chosen.study = at; draw(); } }, bdi(label(study, at)))));
}
const label = (study, at) => study.folder || study.name || `study ${at + 1}`;

function drawCompare(studies) {
  if (studies.length < 2) return null;
  return section("compare", "Compare", "The studies of this page beside each other; differences are against the first.", drawOverview(studies), shared(studies, "tables").map((tables) => compareTable(studies, tables)), compareClaims(studies));
}
function drawOverview(studies) {
  const row = (study, at) => el("tr", {}, el("th", { scope: "row" }, bdi(label(study, at))), el("td", {}, bdi((study.models || []).join(", "))), el("td", {}, `${study.progress?.done ?? 0} of ${study.progress?.total ?? 0}`), el("td", {}, (study.findings || []).map((text) => el("p", {}, bdi(text)))));
  return el("article", { class: "card" }, el("table", { class: "grid studies" }, el("thead", {}, el("tr", {}, ["study", "models", "done", "findings"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, studies.map(row))));
}
/** Entries with the same title (claims: id) in at least two studies, one list each, with null for a study that has none. */
function shared(studies, kind, key = "title") {
  const names = [...new Set(studies.flatMap((study) => (study[kind] || []).map((one) => one[key])))];
  return names.map((name) => studies.map((study) => (study[kind] || []).find((one) => one[key] === name) || null)).filter((same) => same.filter(Boolean).length > 1);
}
function compareTable(studies, tables) {
  const first = tables.find(Boolean), keys = new Map();
  tables.forEach((table, at) => table?.rows.forEach((row, r) => table.columns.forEach((column, c) => {
    const key = JSON.stringify([row, column]);
    if (!keys.has(key)) keys.set(key, { row, column, cells: studies.map(() => null) });
    keys.get(key).cells[at] = table.cells[r][c];
  })));
  const lines = [...keys.values()].filter((line) => line.cells.some((cell) => isNumber(cell?.ours)));
  const cell = (line, at) => {
    const ours = line.cells[at]?.ours, base = line.cells[0]?.ours;
    return el("td", {}, el("span", { class: "ours" }, fixed(ours)), isNumber(line.cells[at]?.spread) ? el("span", { class: "spread" }, ` \u00b1${fixed(line.cells[at].spread)}`) : null, at && isNumber(ours) && isNumber(base) ? el("span", { class: "under" }, signed(ours - base)) : null);
  };
  return el("article", { class: "card", "aria-label": first.title }, el("h3", {}, bdi(first.title)), el("div", { class: "scroll", tabindex: 0 }, el("table", { class: "grid" },
    el("thead", {}, el("tr", {}, [...first.row_names, ...first.column_names].map((name) => el("th", { class: "corner", scope: "col" }, bdi(name))), studies.map((study, at) => el("th", { scope: "col" }, bdi(label(study, at)))))),
    el("tbody", {}, lines.map((line) => el("tr", {}, [...line.row, ...line.column].map((name) => el("th", { scope: "row" }, bdi(name))), studies.map((_, at) => cell(line, at))))))));
}
function compareClaims(studies) {
  const claims = shared(studies, "claims", "id");
  if (!claims.length) return null;
  return el("article", { class: "card", "aria-label": "Claims" }, el("h3", {}, "Claims"), el("table", { class: "grid studies" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "claim"), studies.map((study, at) => el("th", { scope: "col" }, bdi(label(study, at)))))),
    el("tbody", {}, claims.map((same) => el("tr", {}, el("th", { scope: "row" }, named(same.find(Boolean)), " ", bdi(same.find(Boolean).statement)), same.map((claim) => el("td", {}, claim ? [verdict(claim), el("span", { class: "under" }, bdi(claim.numbers || ""))] : "\u2013")))))));
}
