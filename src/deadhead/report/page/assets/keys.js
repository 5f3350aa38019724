// The keyboard: Tab stops once at each grid, arrows move in it; one tooltip for all.

/** Arrow keys through the cells marked data-stop of a table; Enter and Space click. */
function walkable(table) {
  const stops = () => [...table.querySelectorAll("[data-stop]")];
  const enter = (cell) => {
    for (const one of table.querySelectorAll('[data-stop][tabindex="0"]')) one.tabIndex = -1;
    cell.tabIndex = 0;
  };
  const first = stops()[0];
  for (const cell of stops()) cell.tabIndex = -1;
  if (first) first.tabIndex = 0;
  table.addEventListener("focusin", (event) => {
    const cell = event.target.closest("[data-stop]");
    if (cell) enter(cell);
  });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("[data-stop]");
    if (!cell || event.target !== cell || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      cell.click();
      return;
    }
    const next = neighbour(table, cell, event.key);
    if (next) {
      event.preventDefault();
      enter(next);
      next.focus();
    }
  });
  return table;
}
function neighbour(table, cell, key) {
  const rows = [...table.rows].map((row) => [...row.cells].filter((one) => "stop" in one.dataset)).filter((row) => row.length);
  const y = rows.findIndex((row) => row.includes(cell));
  const x = rows[y].indexOf(cell);
  const column = cell.cellIndex;
  const below = (row) => row && (row.find((one) => one.cellIndex === column) || row[Math.min(x, row.length - 1)]);
  return {
    ArrowLeft: () => rows[y][x - 1], ArrowRight: () => rows[y][x + 1], ArrowUp: () => below(rows[y - 1]), ArrowDown: () => below(rows[y + 1]),
    Home: () => rows[y][0], End: () => rows[y].at(-1), PageUp: () => below(rows[0]), PageDown: () => below(rows.at(-1)),
  }[key]?.();
}

const tip = {
  show(node, content) {
    const box = $("tip");
    box.replaceChildren(...content);
    box.hidden = false;
    if (box.matches(":popover-open")) box.hidePopover();
    box.showPopover(); // again, so that it is above the sheet too
    const at = node.getBoundingClientRect(), size = box.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left + at.width / 2 - size.width / 2), innerWidth - size.width - 8);
    const above = at.top - size.height - 10;
    box.style.left = `${left}px`;
    box.style.top = `${above > 8 ? above : at.bottom + 10}px`;
  },
  hide() {
    if ($("tip").matches(":popover-open")) $("tip").hidePopover();
    $("tip").hidden = true;
  },
};
