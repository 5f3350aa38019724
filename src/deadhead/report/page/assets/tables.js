// Tables of results in the papers' layout: our number, the spread, the published number and the difference; with sorting, filters and links to trials.

const STATES = { failed: "\u2715 failed", missing: "\u00b7 not run", none: "" };
const HOW = "Each number is the mean over its trials. Choose a number to see the trials behind it.";
const MARKS = { better: ["\u25b2", "better"], worse: ["\u25bc", "worse"], best: ["\u2605", "best"] };

function drawTables(study) {
  const others = (study.tables || []).filter((table) => table.id !== study.lead);
  return others.length ? section("tables", "Tables", HOW, others.map((table) => drawTable(table))) : null;
}
function drawTable(table, how) {
  const state = remembered("tables", table.id, { column: null, down: true, filter: "", show: { spread: true, published: true, difference: true } });
  const changes = table.cells.some((row) => row.some((cell) => isNumber(cell?.change) || isNumber(cell?.published_change)));
  const digits = table.columns.map((column, at) => changes ? table.decimals || 2 : (["k", "k, stop rule"].includes(column.at(-1)) && table.cells.every((row) => !isNumber(row[at]?.ours) || Number.isInteger(row[at].ours)) ? 0 : 1)); // k counts heads; all else is a mean
  const body = el("tbody"), status = el("span", { class: "status", role: "status" });
  const head = el("thead"), grid = el("table", { class: "grid", role: "grid", "aria-label": table.title }, head, body);
  const redraw = () => {
    head.replaceChildren(...headRows(table, state, redraw));
    const rows = chosenRows(table, state);
    body.replaceChildren(...rows.map((at, nth) => bodyRow(table, at, state, state.column === null ? rows[nth - 1] : undefined, digits)));
    status.textContent = rows.length < table.rows.length ? `${rows.length} of ${count(table.rows.length, "row")}` : "";
    const inUse = body.querySelector("[data-stop]");
    for (const cell of grid.querySelectorAll("[data-stop]")) cell.tabIndex = cell === inUse ? 0 : -1;
  };
  redraw();
  return el("article", { class: "card", id: `table-${table.id}`, "aria-label": table.title },
    el("h3", {}, bdi(table.title)), table.note && el("p", { class: "note" }, bdi(table.note)),
    tableControls(table, state, redraw, status), el("div", { class: "scroll" }, walkable(grid)), tableKey(table, how));
}
function tableControls(table, state, redraw, status) {
  const has = (name) => table.cells.some((row) => row.some((cell) => isNumber(cell?.[name])));
  const offered = [["spread", has("spread")], ["published", has("published")], ["difference", has("published")]].filter(([, there]) => there);
  const box = ([name]) => el("label", {}, el("input", { type: "checkbox", checked: state.show[name], "data-focus": `${table.id}/${name}`, onchange: (event) => { state.show[name] = event.target.checked; redraw(); } }), name);
  const search = table.rows.length > 4 && el("input", { type: "search", placeholder: "filter rows", "aria-label": `Filter the rows of ${table.title}`, "data-focus": `${table.id}/filter`, value: state.filter, oninput: (event) => { state.filter = event.target.value; redraw(); } });
  return el("div", { class: "controls" }, search, offered.map(box), status);
}
function headRows(table, state, redraw) {
  const depth = Math.max(1, table.column_names.length), names = table.row_names;
  return Array.from({ length: depth }, (_, level) => {
    const last = level === depth - 1;
    const corner = names.map((name, at) => el("th", { class: "corner", scope: "col" }, last ? bdi(name) : at ? "" : bdi(table.column_names[level] || "")));
    const labels = table.columns.map((column) => column[level] ?? "");
    return el("tr", { class: last ? null : "outer" }, corner, last ? labels.map((label, at) => sortHead(table, state, label, at, redraw)) : spans(table.columns, level).map(([label, width]) => el("th", { colspan: width, scope: "colgroup" }, bdi(label))));
  });
}
function spans(columns, level) {
  const groups = [];
  for (const column of columns) {
    const key = JSON.stringify(column.slice(0, level + 1));
    if (groups.length && groups.at(-1)[2] === key) groups.at(-1)[1] += 1;
    else groups.push([column[level], 1, key]);
  }
  return groups;
}
function sortHead(table, state, label, at, redraw) {
  const mine = state.column === at;
  const turn = (event) => {
    if (!mine) [state.column, state.down] = [at, true];
    else if (state.down) state.down = false;
    else state.column = null;
    const grid = event.currentTarget.closest("table");
    redraw();
    grid.querySelector(`[data-sort="${at}"]`)?.focus();
  };
  return el("th", { scope: "col", "aria-sort": mine ? (state.down ? "descending" : "ascending") : "none" },
    el("button", { type: "button", class: "sort", "data-sort": at, "data-focus": `${table.id}/sort${at}`, onclick: turn, title: "sort" }, bdi(label === "" ? table.title : label)));
}
function chosenRows(table, state) {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = table.rows.map((_, at) => at).filter((at) => words.every((word) => table.rows[at].join(" ").toLowerCase().includes(word)));
  return state.column === null ? rows : sorted(rows, (at) => table.cells[at][state.column]?.ours ?? null, state.down);
}
function bodyRow(table, at, state, before, digits) {
  const labels = table.rows[at].map((label, nth) => {
    const again = before !== undefined && nth < table.rows[at].length - 1 && JSON.stringify(table.rows[before].slice(0, nth + 1)) === JSON.stringify(table.rows[at].slice(0, nth + 1));
    return el("th", { scope: "row", class: again ? "again" : null }, bdi(label));
  });
  return el("tr", {}, labels, table.cells[at].map((cell, column) => bodyCell(table, cell, at, column, state.show, digits)));
}
function bodyCell(table, cell, row, column, show, digits) {
  const { ours, spread, n, published, state = "none", mark, trials = [] } = cell || {};
  const under = [];
  if (show.published && isNumber(published)) under.push(el("span", { class: "published" }, `${fixed(published, table.decimals)}${bracketed(cell.published_change)}`));
  if (show.difference && isNumber(published) && isNumber(ours)) under.push(el("span", { class: "difference" }, signed(ours - published)));
  const words = [...table.rows[row], ...table.columns[column]].filter((label) => label !== "").join(", ");
  const value = isNumber(ours) ? fixed(ours, digits[column]) : STATES[state] ?? "\u2013";
  const spoken = [words, isNumber(ours) ? `ours ${value}` : state, isNumber(spread) && `spread ${fixed(spread)}`, isNumber(published) && `published ${fixed(published, table.decimals)}`, isNumber(published) && isNumber(ours) && `difference ${signed(ours - published)}`, isNumber(cell?.change) && `change from all heads ${bracketed(cell.change)}`, mark && MARKS[mark]?.[1], state === "partial" && "some trials not done", count(behind(cell || {}), "trial")];
  return el("td", { class: [state, mark].filter(Boolean).join(" "), "data-stop": true, tabindex: -1, "aria-label": spoken.filter(Boolean).join("; "), title: `${n ? count(n, "trial") : "no trial"}${state === "partial" ? ", some not done" : ""}`, "data-focus": `${table.id}/${row}/${column}`,
    onclick: trials.length ? () => go(`cell=${encodeURIComponent(table.id)}/${row}/${column}`) : null },
  mark || state === "partial" ? el("span", { class: "sign" }, state === "partial" ? "\u25d0" : "", MARKS[mark]?.[0] ?? "") : null, el("span", { class: isNumber(ours) ? "ours" : null }, value), isNumber(cell?.change) ? el("span", { class: "change" }, bracketed(cell.change)) : null,
  show.spread && isNumber(spread) ? el("span", { class: "spread" }, ` \u00b1${fixed(spread)}`) : null,
  under.length ? el("span", { class: "under" }, under.flatMap((part, at) => (at ? [" ", part] : [part]))) : null);
}
/** The change from the unpruned model as the paper prints it: " (+0.50)". */
function bracketed(change) {
  if (!isNumber(change)) return "";
  const text = fixed(Math.abs(change), 2);
  return ` (${change < 0 && text !== "0.00" ? "\u2212" : "+"}${text})`;
}
function tableKey(table, how) {
  const has = (test) => table.cells.some((row) => row.some((cell) => cell && test(cell)));
  const parts = [
    how,
    has((cell) => isNumber(cell.published)) && "below: published, and ours minus published",
    has((cell) => isNumber(cell.change) || isNumber(cell.published_change)) && "in brackets: change from all heads",
    has((cell) => isNumber(cell.spread)) && "\u00b1 standard deviation over seeds or draws",
    has((cell) => cell.mark === "better") && "\u25b2 better",
    has((cell) => cell.mark === "worse") && "\u25bc worse",
    has((cell) => cell.mark === "best") && "\u2605 best",
    has((cell) => cell.state === "partial") && "\u25d0 some trials not done",
    has((cell) => cell.state === "failed") && "\u2715 failed",
    has((cell) => cell.state === "missing") && "\u00b7 not run",
  ].filter(Boolean);
  return [parts.length ? el("p", { class: "key" }, parts.map((part) => el("span", {}, part))) : null, table.test ? el("p", { class: "test" }, bdi(table.test)) : null];
}
